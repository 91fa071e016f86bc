"""What a model reads of a sound: its samples, or frames of frequencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rationales.errors import ModelError

Prepare = Callable[[Tensor], Tensor]  # (samples,) in [-1, 1] -> what the model reads of them
Shifted = tuple[float, float]  # what the model reads is (sample - first) * second


@dataclass(frozen=True)
class Waveforms:
    """The model reads samples, shifted and scaled at most; a unit is `frame` of them."""

    frame: int
    prepare: Prepare | None = None  # where samples are not read as they are
    normalised: bool = False  # that makes their mean 0 and their variance 1, segment by segment

    def features(self, samples: Tensor) -> Tensor:
        """What the model reads of samples (n,), checked."""
        made: Any = samples if self.prepare is None else self.prepare(samples)
        if not isinstance(made, Tensor) or made.shape != samples.shape or not bool(torch.isfinite(made).all()):
            raise ModelError("the preprocessing must give as many finite samples as it gets")
        return made

    def shift(self, samples: Tensor) -> Shifted:
        """What takes a sample of this segment to what the model reads."""
        if not self.normalised:
            return 0.0, 1.0
        return float(samples.mean()), float((samples.var(correction=0) + 1e-7).rsqrt())


@dataclass(frozen=True)
class Spectrograms:
    """The model reads frames of frequency bins, one frame every `frame` samples; a unit is a bin.

    `prepare` gives (frames, bins), or (bins, frames) where `time_last`, low frequencies first. A frame looks at
    `window` samples; what `prepare` adds behind the last whole one is padding.
    """

    frame: int
    prepare: Prepare
    window: int
    time_last: bool = False

    def frames(self, samples: int) -> int:
        """How many frames lie within so many samples."""
        return max(1, 1 + (samples - self.window) // self.frame)

    def features(self, samples: Tensor) -> Tensor:
        """What the model reads of samples (n,), checked."""
        made: Any = self.prepare(samples)
        if not isinstance(made, Tensor) or made.dim() != 2 or not bool(torch.isfinite(made).all()):
            raise ModelError("the preprocessing must give a finite tensor (frames, bins)")
        return made
