"""DeepLIFT: differences from the baseline, carried back by secants instead of slopes (Shrikumar et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.methods.gradients import GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.models.batch import Batch, Piece
from rationales.models.probing import Reading, slope_at
from rationales.models.rules import rescaled


@dataclass(frozen=True)
class DeepLift(GradientMethod):
    """The Rescale rule: one backward pass from input and baseline run side by side.

    Where a network is made of affine maps, activations and max pooling, the scores add up to explained(x) -
    explained(b). Products of two activations (attention, gates) and normalisation by statistics keep their gradient,
    and there they do not.
    """

    name: ClassVar[str] = "deep-lift"
    summary: ClassVar[str] = "differences from the baseline carried back through the activations (Rescale rule)"

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        return Attribution(self.walk(batch, target, _way, progress, slope=_multipliers, weight=2))


def _way(reading: Reading, _variants: Tensor) -> tuple[Tensor, Tensor]:
    return reading.full[None], (reading.full - reading.empty)[None]


def _multipliers(batch: Batch, piece: Piece, point: Tensor, target: Tensor, of: str) -> Tensor:
    """(R, *read): what DeepLIFT calls the multipliers of what is read (Eq. 2), by one pass over 2R rows."""
    count = len(piece.row)
    pair = Piece(piece.where.repeat(2), piece.row.repeat(2), piece.view, piece.size, piece.full)
    with rescaled(count, *batch.modules):
        return slope_at(batch, pair, torch.cat([point, batch.emptied(piece.row)]), target, of, first=count)[:count]
