"""Audio front ends: what a model reads of a sound, its samples or a spectrogram."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from rationales.errors import ModelError

Prepare = Callable[[Tensor], Tensor]  # (samples,) in [-1, 1] -> the features that the model reads


@dataclass(frozen=True)
class WaveformFrontend:
    """The model reads samples, at most shifted and scaled; a unit is `frame` samples."""

    frame: int
    prepare: Prepare | None = None  # None: samples are read as they are
    normalised: bool = False  # each segment to mean 0 and variance 1

    def features(self, samples: Tensor) -> Tensor:
        """(n,) samples -> (n,): what the model reads, checked."""
        features: Any = samples if self.prepare is None else self.prepare(samples)
        same_shape = isinstance(features, Tensor) and features.shape == samples.shape
        if not same_shape or not bool(torch.isfinite(features).all()):
            raise ModelError("the preprocessing must return as many finite samples as it gets")
        return cast("Tensor", features)

    def shift_and_scale(self, samples: Tensor) -> tuple[float, float]:
        """The model reads (sample - shift) * scale of this segment."""
        if not self.normalised:
            return 0.0, 1.0
        return float(samples.mean()), float((samples.var(correction=0) + 1e-7).rsqrt())


@dataclass(frozen=True)
class SpectrogramFrontend:
    """The model reads frames of frequency bins, one frame every `frame` samples; a unit is a bin.

    `prepare` returns (frames, bins), or (bins, frames) if `time_last`, low frequencies first. A frame covers `window`
    samples; frames behind the last complete one are padding.
    """

    frame: int
    prepare: Prepare
    window: int
    time_last: bool = False

    def frames(self, samples: int) -> int:
        """The number of complete frames in so many samples."""
        return max(1, 1 + (samples - self.window) // self.frame)

    def features(self, samples: Tensor) -> Tensor:
        """(n,) samples -> the spectrogram, checked."""
        features: Any = self.prepare(samples)
        if not isinstance(features, Tensor) or features.dim() != 2 or not bool(torch.isfinite(features).all()):
            raise ModelError("the preprocessing must return a finite tensor (frames, bins)")
        return features
