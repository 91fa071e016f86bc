"""Occlusion: how far the target's score falls when a window of units is replaced (Zeiler and Fergus 2014)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.masks.objective import unit_count
from rationales.methods.method import Attribution, Method, Presets, Progress
from rationales.methods.support.sliding_windows import Windows
from rationales.models.batch import Batch
from rationales.models.batch.queries import outputs_under_keeps
from rationales.models.classes import OUTPUTS
from rationales.options import option

# window=0: one more word per so many words of the text, up to the window of the paper
WINDOW_GROWTH, MAX_WINDOW = 25, 5


@dataclass(frozen=True)
class Occlusion(Method):
    """A unit's score is the mean drop over the windows that cover it: runs of words, or squares of pixels."""

    name: ClassVar[str] = "occlusion"
    summary: ClassVar[str] = "how far the target's probability falls when a window of units is replaced"
    presets: ClassVar[Presets] = {
        "text": {"default": {}, "paper": {"window": 5, "stride": 1}},
        "audio": {"default": {"window": 5}},
        "image": {
            "default": {"window": 32, "stride": 16},
            "paper": {"window_share": 1 / 9, "stride_share": 1 / 56, "baseline": "blur-10"},
        },
        "image-text": {"default": {"window": 32, "stride": 16}},
        "spectrogram": {"default": {"window": 16, "stride": 8}},
    }

    window: int = option(
        0,
        "units replaced at once; on an image, the side of a square, and words beside an image go one at a time; "
        "0: one, plus one for every 25 units of the input, at most five",
    )
    stride: int = option(1, "units between the starts of two windows")
    window_share: float = option(0.0, "of an image: side of the window, as a share of its longer side; 0: window")
    stride_share: float = option(0.0, "of an image: the stride, as a share of its longer side; 0: stride")
    baseline: str = option("", "what replaces a window, in place of the model's baselines; for an image blur-N")
    output: str = option("probability", "output of the model that is explained, for the target", *OUTPUTS)

    def __post_init__(self) -> None:
        if self.window < 0 or not 1 <= self.stride <= max(self.window, 1):
            raise OptionError(
                "occlusion needs a window of at least 1 and a stride between 1 and the window; a window of 0, which "
                "adapts to the length of a text, goes with a stride of 1"
            )

        if not (0 <= self.window_share <= 1 and 0 <= self.stride_share <= max(self.window_share, 1e-9)):
            raise OptionError("occlusion needs a window_share between 0 and 1, and a stride_share of at most that")

    @property
    def removal_operation(self) -> str:
        """The option `baseline`, or the model's baseline."""
        return self.baseline or "baseline"

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if self.baseline:
            return replace(self, baseline="").scores_on(self.baseline, batch, target, progress)
        windows = self._windows(batch)
        counts = windows.counts

        def keeps(row: Tensor, number: Tensor) -> Tensor:
            return ~windows.hidden(row, number)

        # the last variant of a row, after its windows, is the full row
        values = outputs_under_keeps(batch, target, keeps, counts + 1, output=self.output, progress=progress)
        drop = values.gather(0, counts[None]) - values  # (K, S)
        total, covered = batch.zeros().to(drop.dtype), batch.zeros().to(drop.dtype)
        all_rows = torch.arange(batch.size[0], device=batch.device)
        for number in torch.arange(int(counts.max()), device=batch.device):
            hidden = windows.hidden(all_rows, number[None])[0]
            total += drop[number][:, None] * hidden
            covered += hidden
        return Attribution(total / covered.clamp(min=1))

    def _windows(self, batch: Batch) -> Windows:
        if not self.window_share:
            return Windows(batch, self.window or self._adaptive_window(batch), self.stride)
        if batch.grid is None:
            raise OptionError("occlusion's window_share is a share of an image; set the window in words or frames")
        window, stride = (max(1, round(share * max(batch.grid))) for share in (self.window_share, self.stride_share))
        return Windows(batch, window, stride)

    def _adaptive_window(self, batch: Batch) -> Tensor:
        """(S,): window of every row, by the length of its input.

        In a sentence nearly the same windows of five words cover every word, so that neighbours get the same score. In
        a long text the replacement of a single word has hardly any effect.
        """
        if batch.pixel_grid is not None:
            raise OptionError(
                "occlusion adapts its window to texts only; for an image set its side in pixels, as window=32"
            )
        width = 1 + (unit_count(batch).round().long() // WINDOW_GROWTH).clamp(max=MAX_WINDOW - 1)
        return width[batch.rows.input]
