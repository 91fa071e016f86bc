"""Occlusion: how far the target's score falls when a window of units is replaced (Zeiler and Fergus 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.options import option


@dataclass(frozen=True)
class Occlusion(Method):
    """A unit's score is the mean drop over the windows that cover it."""

    name: ClassVar[str] = "occlusion"
    summary: ClassVar[str] = "how far the target's probability falls when a window of units is replaced"

    window: int = option(5, "units replaced at once")
    stride: int = option(1, "units between the starts of two windows")

    def __post_init__(self) -> None:
        if self.window < 1 or not 1 <= self.stride <= self.window:
            raise OptionError("occlusion needs a window of at least 1 and a stride between 1 and the window")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        total, count = batch.zeros(), batch.zeros()
        steps = -(-batch.size[1] // self.stride)
        with torch.no_grad():
            full = batch.score(target)  # (S,)
            for number, hidden in enumerate(batch.windows(self.window, self.stride), start=1):  # (K, S, n) of 0/1
                drop = full - batch.score(target, keep=1 - hidden)  # (K, S)
                total += (drop[..., None] * hidden).sum(0)
                count += hidden.sum(0)
                if progress is not None:
                    progress(min(1.0, number * len(hidden) / steps))
        return Attribution(total / count.clamp(min=1))
