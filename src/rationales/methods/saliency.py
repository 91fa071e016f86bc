"""Saliency: how steeply the target's logit answers to a unit (Simonyan, Vedaldi and Zisserman 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.methods.gradients import REDUCE, GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.models.batch import Batch
from rationales.models.probing import Reading
from rationales.options import option


@dataclass(frozen=True)
class Saliency(GradientMethod):
    """The L1 norm of the gradient over a unit's numbers; with `reduce=sum` its signed sum."""

    name: ClassVar[str] = "saliency"
    summary: ClassVar[str] = "size of the gradient at each unit; one backward pass"

    reduce: str = option("norm", "over a unit's numbers (embedding, colours): signed sum or L1 norm", *REDUCE)

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        return Attribution(self.walk(batch, target, _here, progress, baseline=False))


def _here(reading: Reading, _variants: Tensor) -> tuple[Tensor, None]:
    return reading.full[None], None
