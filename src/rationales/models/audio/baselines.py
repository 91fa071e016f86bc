"""Baselines of sounds: what a frame becomes when it is replaced."""

from __future__ import annotations

import math
import re

import torch
from torch import Tensor
from torch.nn import functional

from rationales.errors import OptionError
from rationales.models.batch.rows import normal

BASELINES = ("silence", "noise", "blur-N (N: the width in milliseconds)")
_MAX_BLUR = 1000.0


def baseline(name: str, samples: Tensor, sample_rate: int, key: int) -> Tensor:
    """(n,) samples in [-1, 1] -> (n,): the uninformative sound that replaces them.

    `noise` is white noise with the loudness of the sound and the seed `key`; `blur-N` is the sound smoothed with a
    Gaussian of N milliseconds, which removes all audible frequencies.
    """
    if name == "silence":
        return torch.zeros_like(samples)
    if name == "noise":
        noise = normal(torch.tensor([key]), (len(samples),), samples.dtype)[0]
        return noise * samples.square().mean().sqrt()
    return blur(samples, blur_width(name) * sample_rate / 1000)


def blur_width(name: str) -> float:
    """20.0 for `blur-20`; an OptionError for anything that is no baseline."""
    if match := re.fullmatch(r"blur-(\d+(?:\.\d+)?)", name):
        if 0 < float(match[1]) <= _MAX_BLUR:
            return float(match[1])
        raise OptionError(f"the width of {name} must be above 0 and at most {_MAX_BLUR:.0f} milliseconds")
    raise OptionError(f"there is no baseline {name!r} for sounds; there is: {', '.join(BASELINES)}")


def blur(samples: Tensor, width: float) -> Tensor:
    """(n,) smoothed with a Gaussian whose standard deviation is `width` samples; zeros beyond the ends.

    Computed by the Fourier transform, with enough padding that the ends do not wrap around.
    """
    reach = math.ceil(5 * width)
    padded = functional.pad(samples.double(), (0, reach))
    frequency = torch.fft.rfftfreq(len(padded), dtype=torch.float64)
    gain = torch.exp(-2 * (math.pi * width * frequency).square())
    blurred: Tensor = torch.fft.irfft(torch.fft.rfft(padded) * gain, n=len(padded))[: len(samples)]
    return blurred.to(samples.dtype)
