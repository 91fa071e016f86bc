"""Guided backpropagation: gradients of which every ReLU lets only the positive back (Springenberg et al. 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.methods.gradients import REDUCE, GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.models.batch import Batch, Piece
from rationales.models.probing import Reading, slope_at
from rationales.models.rules import guided
from rationales.options import option
from rationales.rationale import Note


@dataclass(frozen=True)
class GuidedBackpropagation(GradientMethod):
    """The L1 norm of what comes back; a model without ReLU gives its plain gradient, and a note says so."""

    name: ClassVar[str] = "guided-backpropagation"
    summary: ClassVar[str] = "gradients that go back through ReLUs only where they are positive"

    reduce: str = option("norm", "over a unit's numbers (embedding, colours): signed sum or L1 norm", *REDUCE)

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        met: list[str] = []

        def slope(batch: Batch, piece: Piece, point: Tensor, target: Tensor, of: str) -> Tensor:
            with guided(met):
                return slope_at(batch, piece, point, target, of)

        found = self.walk(batch, target, _here, progress, baseline=False, slope=slope)
        notes = [] if met else [Note("no-relu", "the model has no ReLU to guide gradients: this is its plain gradient")]
        return Attribution(found, notes=[notes for _ in range(batch.inputs)])


def _here(reading: Reading, _variants: Tensor) -> tuple[Tensor, None]:
    return reading.full[None], None
