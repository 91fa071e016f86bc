"""Occlusion: how far the target's score falls when a window of units is replaced (Zeiler and Fergus 2014)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.probing import OF, answers
from rationales.models.windows import Windows
from rationales.options import option


@dataclass(frozen=True)
class Occlusion(Method):
    """A unit's score is the mean drop over the windows that cover it: runs of words, squares of pixels."""

    name: ClassVar[str] = "occlusion"
    summary: ClassVar[str] = "how far the target's probability falls when a window of units is replaced"
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "text": {"default": {}, "paper": {"window": 5, "stride": 1}},
        "image": {"default": {"window": 32, "stride": 16}},
        "spectrogram": {"default": {"window": 16, "stride": 8}},
    }

    window: int = option(5, "units replaced at once; the side of a square on a picture")
    stride: int = option(1, "units between the starts of two windows")
    of: str = option("probability", "what of the target is explained", *OF)

    def __post_init__(self) -> None:
        if self.window < 1 or not 1 <= self.stride <= self.window:
            raise OptionError("occlusion needs a window of at least 1 and a stride between 1 and the window")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        windows = Windows(batch, self.window, self.stride)
        counts = windows.counts
        # the last variant of a row, after its windows, is the row itself
        found = answers(
            batch, target, lambda row, number: ~windows.hidden(row, number), counts + 1, of=self.of, progress=progress
        )
        drop = found.gather(0, counts[None]) - found  # (K, S)
        total, covered = batch.zeros().to(drop.dtype), batch.zeros().to(drop.dtype)
        everyone = torch.arange(batch.size[0], device=batch.device)
        for number in torch.arange(int(counts.max()), device=batch.device):
            hidden = windows.hidden(everyone, number[None])[0]
            total += drop[number][:, None] * hidden
            covered += hidden
        return Attribution(total / covered.clamp(min=1))
