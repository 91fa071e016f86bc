"""Guided gradients of units: those of guided backpropagation, which guided Grad-CAM uses too."""

from __future__ import annotations

from torch import Tensor

from rationales.methods.method import Progress
from rationales.methods.support.backward_rules import guided
from rationales.models.batch import Batch, Piece
from rationales.models.batch.queries import BlockInputs, gradient_at, gradients
from rationales.rationale import Note


def guided_gradients(
    batch: Batch, target: Tensor, output: str, reduce: str, progress: Progress | None = None
) -> tuple[Tensor, list[list[Note]]]:
    """(S, n) guided gradients, reduced to units, and the notes of every input: whether the model has no ReLU."""
    guided_modules: list[str] = []

    def guided_gradient(batch: Batch, piece: Piece, point: Tensor, target: Tensor, output: str) -> Tensor:
        with guided(guided_modules):
            return gradient_at(batch, piece, point, target, output)

    scores = gradients(
        batch,
        target,
        _at_input,
        output=output,
        reduce=reduce,
        baseline=False,
        gradient_rule=guided_gradient,
        progress=progress,
    )
    notes = [] if guided_modules else [Note("no-relu", "the model has no ReLU; the scores are its plain gradient")]
    return scores, [notes for _ in range(batch.inputs)]


def _at_input(reading: BlockInputs, _variants: Tensor) -> tuple[Tensor, None]:
    return reading.full[None], None
