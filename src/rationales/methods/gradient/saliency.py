"""Saliency: the gradient of the target's log-odds with respect to a unit (Simonyan, Vedaldi and Zisserman 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.methods.gradient.gradient_method import REDUCE, GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.models.batch import Batch
from rationales.models.batch.queries import BlockInputs
from rationales.options import option


@dataclass(frozen=True)
class Saliency(GradientMethod):
    """L1 norm of the gradient over a unit's values; with `reduce=sum` their signed sum."""

    name: ClassVar[str] = "saliency"
    summary: ClassVar[str] = "size of the gradient at each unit; one backward pass"
    uses_baselines: ClassVar[bool] = False

    reduce: str = option("norm", "reduction over a unit's values (embedding, colours): signed sum or L1 norm", *REDUCE)

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        return Attribution(self.gradient_scores(batch, target, _at_input, progress, baseline=False))


def _at_input(reading: BlockInputs, _variants: Tensor) -> tuple[Tensor, None]:
    return reading.full[None], None
