"""Super-pixels of an image: connected regions of one colour, by quickshift or SLIC of scikit-image.

scikit-image (`pip install 'rationales[images]'`) is imported when the first image is divided.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rationales.errors import ModelError

# The parameters of LIME for images of 224 pixels; distances grow with the image.
REFERENCE_SIDE, KERNEL_SIZE, MAX_DISTANCE, COLOUR_RATIO = 224, 4.0, 200.0, 0.2
COMPACTNESS = 10.0  # of SLIC: how much distance counts beside colour


def super_pixels(image: Tensor, real: Tensor, kind: str, count: int) -> Tensor:
    """(H, W) int64: the number of each pixel's super-pixel, from 0 on; 0 also where `real` (H, W) is False.

    image: (channels, H, W), in any range: it is scaled to [0, 1]. kind: `quickshift` or `slic`, of which `count`
    segments are asked for. The same image always gets the same super-pixels.
    """
    try:
        from skimage import segmentation as untyped
    except ImportError:
        message = "super-pixels need scikit-image, which is not installed: pip install 'rationales[images]'"
        raise ModelError(message) from None
    segmentation: Any = untyped  # scikit-image has no types
    values = image.double()
    low, high = values[:, real].amin(), values[:, real].amax()
    pixels = ((values - low) / (high - low).clamp(min=1e-12)).clamp(0, 1).permute(1, 2, 0).numpy()
    colours = pixels.shape[2] == 3
    if kind == "quickshift":
        scale = max(pixels.shape[:2]) / REFERENCE_SIDE
        labels = segmentation.quickshift(
            pixels if colours else pixels[..., :1].repeat(3, 2),
            kernel_size=max(1.0, KERNEL_SIZE * scale),
            max_dist=MAX_DISTANCE * scale,
            ratio=COLOUR_RATIO,
            rng=0,
        )
    else:
        labels = segmentation.slic(
            pixels, n_segments=count, compactness=COMPACTNESS, convert2lab=colours, channel_axis=2, start_label=0
        )
    numbers = torch.zeros(real.shape, dtype=torch.int64)
    numbers[real] = torch.unique(torch.from_numpy(labels)[real], return_inverse=True)[1]
    return numbers
