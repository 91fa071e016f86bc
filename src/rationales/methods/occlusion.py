"""Occlusion: how far the target's score falls when a window of units is replaced (Zeiler and Fergus 2014)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.masks.objective import length
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.probing import OF, answers
from rationales.models.windows import Windows
from rationales.options import option

EVERY, WIDEST = 25, 5  # the window that adapts: one more word for so many of a text, up to the paper's


@dataclass(frozen=True)
class Occlusion(Method):
    """A unit's score is the mean drop over the windows that cover it: runs of words, squares of pixels."""

    name: ClassVar[str] = "occlusion"
    summary: ClassVar[str] = "how far the target's probability falls when a window of units is replaced"
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "text": {"default": {}, "paper": {"window": 5, "stride": 1}},
        "audio": {"default": {"window": 5}},
        "image": {"default": {"window": 32, "stride": 16}},
        "spectrogram": {"default": {"window": 16, "stride": 8}},
    }

    window: int = option(
        0,
        "units replaced at once; the side of a square on a picture; 0: one, and one more for every 25 units of the "
        "input, at most five",
    )
    stride: int = option(1, "units between the starts of two windows")
    of: str = option("probability", "what of the target is explained", *OF)

    def __post_init__(self) -> None:
        if self.window < 0 or not 1 <= self.stride <= max(self.window, 1):
            raise OptionError(
                "occlusion needs a window of at least 1 and a stride between 1 and the window; a window of 0, which "
                "adapts to the length of a text, goes with a stride of 1"
            )

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        windows = Windows(batch, self.window or self._adapted(batch), self.stride)
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

    def _adapted(self, batch: Batch) -> Tensor:
        """(S,): the window of every row, by the length of its input.

        In a sentence five words are most of it: every word is then covered by nearly the same windows, and none is told
        from its neighbours. In a long text the loss of one word hardly shows.
        """
        if batch.grid is not None:
            raise OptionError("occlusion's window adapts to texts; for a picture give its side in pixels, as window=32")
        width = 1 + (length(batch).round().long() // EVERY).clamp(max=WIDEST - 1)
        return width[batch.rows.input]
