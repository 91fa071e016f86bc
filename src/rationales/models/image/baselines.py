"""Baselines of images: what a pixel becomes when it is replaced."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.models.batch.rows import uniform

BASELINES = ("black", "white", "mean", "noise", "blur-N (N: the radius in pixels)")
_MAX_BLUR = 500.0


def baseline(
    name: str | Tensor, pixels: Tensor, mean_colour: Sequence[float], key: int, real: Tensor | None = None
) -> Tensor:
    """(3, H, W): the uninformative image that replaces `pixels` (3, H, W) in [0, 1].

    `name`: one of `BASELINES`, or an image (3, H, W) of the user's. `mean_colour`: the average over the training data.
    `key`: the seed of the uniform noise. `real`: (H, W) bool, False for padding, which a blur ignores.
    """
    if isinstance(name, Tensor):
        if name.shape != pixels.shape:
            raise OptionError(f"the baseline has the shape {tuple(name.shape)}, the input {tuple(pixels.shape)}")
        if not bool(((name >= 0) & (name <= 1)).all()):
            raise OptionError("the baseline image has values outside of [0, 1], or NaN; give pixels in [0, 1]")
        return name.to(pixels)
    keys = torch.tensor([key], device=pixels.device)
    return baseline_images(name, pixels[None], mean_colour, keys, None if real is None else real[None])[0]


def baseline_images(
    name: str, pixels: Tensor, mean_colour: Sequence[float], keys: Tensor, real: Tensor | None = None
) -> Tensor:
    """(P, 3, H, W): the uninformative images that replace P images `pixels` (P, 3, H, W) in [0, 1].

    `name`: one of `BASELINES`. `keys`: (P,) int64, the seeds of the uniform noise. `real`: (P, H, W) bool.
    """
    if name == "noise":
        return uniform(keys, pixels[0].numel()).view(pixels.shape).to(pixels)
    colours = {"black": (0.0, 0.0, 0.0), "white": (1.0, 1.0, 1.0), "mean": mean_colour}
    if name in colours:
        return torch.as_tensor(colours[name]).to(pixels)[:, None, None].expand_as(pixels).clone()
    return blur(pixels, blur_radius(name), None if real is None else real[:, None])


def blur_radius(name: str) -> float:
    """20.0 for `blur-20`; an OptionError for anything that is no baseline."""
    if match := re.fullmatch(r"blur-(\d+(?:\.\d+)?)", name):
        if 0 < float(match[1]) <= _MAX_BLUR:
            return float(match[1])
        raise OptionError(f"the radius of {name} must be above 0 and at most {_MAX_BLUR:.0f} pixels")
    raise OptionError(f"there is no baseline {name!r}; there is: {', '.join(BASELINES)}")


def blur(pixels: Tensor, radius: float, real: Tensor | None = None) -> Tensor:
    """(…, H, W) blurred by a Gaussian whose standard deviation is `radius` pixels; reflected at the border."""
    down, across = (_gaussian(size, radius).to(pixels) for size in pixels.shape[-2:])
    if real is None:
        return down @ pixels @ across.T
    weight = down @ real.to(pixels) @ across.T
    mixed = down @ (pixels * real) @ across.T / weight.clamp(min=1e-6)
    return torch.where(real, mixed, pixels)


@functools.lru_cache(8)
def _gaussian(size: int, radius: float) -> Tensor:
    """(size, size): the weight of every pixel in every blurred pixel; the image is mirrored at its border."""
    reach = math.ceil(4 * radius)
    distance = torch.arange(-reach, reach + 1)
    weight = torch.exp(-(distance.double() ** 2) / (2 * radius**2))
    period = max(1, 2 * (size - 1))
    source = (torch.arange(size)[:, None] + distance) % period
    source = torch.where(source >= size, period - source, source)
    share = (weight / weight.sum()).expand(size, -1)
    return torch.zeros(size, size, dtype=torch.float64).scatter_add_(1, source, share)
