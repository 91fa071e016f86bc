"""Guided backpropagation: every ReLU passes back only positive gradients (Springenberg et al. 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.methods.gradient.gradient_method import REDUCE, GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.methods.support.guided_gradients import guided_gradients
from rationales.models.batch import Batch
from rationales.options import option


@dataclass(frozen=True)
class GuidedBackpropagation(GradientMethod):
    """L1 norm of the guided gradient; for a model without ReLU the plain gradient, with a note."""

    name: ClassVar[str] = "guided-backpropagation"
    summary: ClassVar[str] = "gradients that pass back through ReLUs only where they are positive"
    uses_baselines: ClassVar[bool] = False

    reduce: str = option("norm", "reduction over a unit's values (embedding, colours): signed sum or L1 norm", *REDUCE)

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        scores, notes = guided_gradients(batch, target, self.output, self.reduce, progress)
        return Attribution(scores, notes=notes)
