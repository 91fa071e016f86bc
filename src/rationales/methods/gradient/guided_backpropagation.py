"""Guided backpropagation: every ReLU passes back only positive gradients (Springenberg et al. 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.methods.gradient.gradient_method import REDUCE, GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.methods.support.backward_rules import guided
from rationales.models.batch import Batch, Piece
from rationales.models.batch.queries import BlockInputs, gradient_at
from rationales.options import option
from rationales.rationale import Note


@dataclass(frozen=True)
class GuidedBackpropagation(GradientMethod):
    """L1 norm of the guided gradient; for a model without ReLU the plain gradient, with a note."""

    name: ClassVar[str] = "guided-backpropagation"
    summary: ClassVar[str] = "gradients that pass back through ReLUs only where they are positive"
    uses_baselines: ClassVar[bool] = False

    reduce: str = option("norm", "reduction over a unit's values (embedding, colours): signed sum or L1 norm", *REDUCE)

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        guided_modules: list[str] = []

        def guided_gradient(batch: Batch, piece: Piece, point: Tensor, target: Tensor, output: str) -> Tensor:
            with guided(guided_modules):
                return gradient_at(batch, piece, point, target, output)

        scores = self.gradient_scores(batch, target, _at_input, progress, baseline=False, gradient_rule=guided_gradient)
        notes = [] if guided_modules else [Note("no-relu", "the model has no ReLU; the scores are its plain gradient")]
        return Attribution(scores, notes=[notes for _ in range(batch.inputs)])


def _at_input(reading: BlockInputs, _variants: Tensor) -> tuple[Tensor, None]:
    return reading.full[None], None
