"""DeepLIFT: differences from the baseline, propagated back by secants instead of gradients (Shrikumar et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.methods.gradient.gradient_method import GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.methods.support.backward_rules import rescaled
from rationales.models.batch import Batch, Piece
from rationales.models.batch.queries import BlockInputs, gradient_at


@dataclass(frozen=True)
class DeepLift(GradientMethod):
    """The Rescale rule: one backward pass for input and baseline together.

    For networks of affine maps, activations and max pooling, the scores add up to explained(x) - explained(b). Products
    of two activations (attention, gates) and normalisation by statistics use their gradient, and then they do not.
    """

    name: ClassVar[str] = "deep-lift"
    summary: ClassVar[str] = "differences from the baseline propagated back through the activations (Rescale rule)"

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        return Attribution(
            self.gradient_scores(batch, target, _input_and_difference, progress, gradient_rule=_multipliers, weight=2)
        )


def _input_and_difference(reading: BlockInputs, _variants: Tensor) -> tuple[Tensor, Tensor]:
    return reading.full[None], (reading.full - reading.empty)[None]


def _multipliers(batch: Batch, piece: Piece, point: Tensor, target: Tensor, output: str) -> Tensor:
    """(R, *read): multipliers (Eq. 2) of the embeddings or pixels, by one pass over 2R rows."""
    count = len(piece.row)
    pair = Piece(piece.where.repeat(2), piece.row.repeat(2), piece.view, piece.size, piece.full)
    with rescaled(count, *batch.modules):
        both = torch.cat([point, batch.all_replaced(piece.row)])
        return gradient_at(batch, pair, both, target, output, first=count)[:count]
