"""Input x gradient: the first-order effect of setting what is read to zero (Shrikumar et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.methods.gradients import GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.models.batch import Batch
from rationales.models.probing import Reading


@dataclass(frozen=True)
class InputXGradient(GradientMethod):
    """What is read times its slope, summed over a unit's numbers."""

    name: ClassVar[str] = "input-x-gradient"
    summary: ClassVar[str] = "what the model reads times its gradient; one backward pass"

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        return Attribution(self.walk(batch, target, _here, progress, baseline=False))


def _here(reading: Reading, _variants: Tensor) -> tuple[Tensor, Tensor]:
    return reading.full[None], reading.full[None]
