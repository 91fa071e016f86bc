"""Super-pixels of images: connected regions of one colour, by quickshift or SLIC.

SLIC, and quickshift on a CPU, are scikit-image's (`pip install 'rationales[images]'`), which is imported when the first
image is divided; on a GPU, or where scikit-image is not installed, quickshift is our own, with the same result.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.errors import ModelError
from rationales.methods.support.quickshift import quickshift

# The parameters of LIME for images of 224 pixels; distances grow with the image.
REFERENCE_SIDE, KERNEL_SIZE, MAX_DISTANCE, COLOUR_RATIO = 224, 4.0, 200.0, 0.2
COMPACTNESS = 10.0  # of SLIC: how much distance counts beside colour
IMAGES_AT_ONCE = 32  # divided together on a GPU


def super_pixels(images: Tensor, real: Tensor, kind: str, count: int) -> Tensor:
    """(N, H, W) int64: the number of each pixel's super-pixel, from 0 on; 0 also where `real` (N, H, W) is False.

    images: (N, channels, H, W), in any range: each is scaled to [0, 1]. kind: `quickshift` or `slic`, of which `count`
    segments are asked for. The same image always gets the same super-pixels.
    """
    scaled = torch.stack([_scaled(image, mask) for image, mask in zip(images, real, strict=True)])
    if kind == "quickshift" and (images.device.type != "cpu" or find_spec("skimage") is None):
        labels = torch.cat([_quickshift(part) for part in torch.split(scaled, IMAGES_AT_ONCE)])
    else:
        labels = torch.stack([_by_scikit_image(image.cpu(), kind, count) for image in scaled]).to(images.device)
    numbers = torch.zeros_like(labels)
    for number, mask in enumerate(real):
        numbers[number, mask] = torch.unique(labels[number, mask], return_inverse=True)[1]
    return numbers


def _scaled(image: Tensor, real: Tensor) -> Tensor:
    """(channels, H, W) double, its pixels in [0, 1]; 0 is the least value and 1 the greatest of those that are real."""
    values = image.double()
    low, high = values[:, real].amin(), values[:, real].amax()
    return ((values - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)


def _quickshift_settings(height: int, width: int) -> tuple[float, float, float]:
    """Kernel size, largest distance and weight of colours."""
    scale = max(height, width) / REFERENCE_SIDE
    return max(1.0, KERNEL_SIZE * scale), MAX_DISTANCE * scale, COLOUR_RATIO


def _in_colours(images: Tensor) -> Tensor:
    """(..., 3, H, W): images without three channels become grey, by their first."""
    return images if images.shape[-3] == 3 else images[..., :1, :, :].expand(*images.shape[:-3], 3, -1, -1)


def _quickshift(images: Tensor) -> Tensor:
    return quickshift(_in_colours(images), *_quickshift_settings(*images.shape[-2:]))


def _by_scikit_image(image: Tensor, kind: str, count: int) -> Tensor:
    """(H, W) int64 from (channels, H, W) in [0, 1]."""
    try:
        from skimage import segmentation as untyped
    except ImportError:
        message = f"segments={kind} needs scikit-image, which is not installed: pip install 'rationales[images]'"
        raise ModelError(message) from None
    segmentation: Any = untyped  # scikit-image has no types
    if kind == "quickshift":
        kernel_size, max_distance, ratio = _quickshift_settings(*image.shape[-2:])
        pixels = np.ascontiguousarray(_in_colours(image).permute(1, 2, 0).numpy())
        labels = segmentation.quickshift(pixels, kernel_size=kernel_size, max_dist=max_distance, ratio=ratio, rng=0)
    else:
        labels = segmentation.slic(
            image.permute(1, 2, 0).numpy(),
            n_segments=count,
            compactness=COMPACTNESS,
            convert2lab=image.shape[0] == 3,
            channel_axis=2,
            start_label=0,
        )
    return torch.from_numpy(labels).long()
