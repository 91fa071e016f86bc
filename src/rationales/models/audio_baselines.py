"""The uninformative sound: what a stretch of it becomes when it is taken away."""

from __future__ import annotations

import math
import re

import torch
from torch import Tensor
from torch.nn import functional

from rationales.errors import OptionError
from rationales.models.randomness import normal

BASELINES = ("silence", "noise", "blur-N (N: the width in milliseconds)")
_WIDEST_BLUR = 1000.0


def baseline(name: str, samples: Tensor, rate: int, key: int) -> Tensor:
    """(n,) samples in [-1, 1] -> a sound of the same length that says nothing.

    `noise` is white and as loud as the sound, drawn from `key`; `blur-N` is the sound under a Gaussian of N
    milliseconds, which leaves of it nothing that can be heard.
    """
    if name == "silence":
        return torch.zeros_like(samples)
    if name == "noise":
        drawn = normal(torch.tensor([key]), (len(samples),), samples.dtype)[0]
        return drawn * samples.square().mean().sqrt()
    return blur(samples, blur_width(name) * rate / 1000)


def blur_width(name: str) -> float:
    """20.0 for `blur-20`; an error for anything that is no baseline."""
    if found := re.fullmatch(r"blur-(\d+(?:\.\d+)?)", name):
        if 0 < float(found[1]) <= _WIDEST_BLUR:
            return float(found[1])
        raise OptionError(f"the width of {name} must be above 0 and at most {_WIDEST_BLUR:.0f} milliseconds")
    raise OptionError(f"there is no baseline {name!r} for sounds; there is: {', '.join(BASELINES)}")


def blur(samples: Tensor, width: float) -> Tensor:
    """(n,) under a Gaussian with a standard deviation of `width` samples; silent beyond its ends.

    By the Fourier transform, padded so far that the ends do not meet.
    """
    reach = math.ceil(5 * width)
    padded = functional.pad(samples.double(), (0, reach))
    frequency = torch.fft.rfftfreq(len(padded), dtype=torch.float64)
    gain = torch.exp(-2 * (math.pi * width * frequency).square())
    found: Tensor = torch.fft.irfft(torch.fft.rfft(padded) * gain, n=len(padded))[: len(samples)]
    return found.to(samples.dtype)
