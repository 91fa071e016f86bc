"""Input x gradient: the first-order effect of setting the embeddings or pixels to zero (Shrikumar et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.methods.gradient.gradient_method import GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.models.batch import Batch
from rationales.models.batch.queries import BlockInputs


@dataclass(frozen=True)
class InputXGradient(GradientMethod):
    """Embedding (or pixel values) times gradient, summed over a unit's values."""

    name: ClassVar[str] = "input-x-gradient"
    summary: ClassVar[str] = "embedding or pixel values times gradient; one backward pass"
    uses_baselines: ClassVar[bool] = False

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        return Attribution(self.gradient_scores(batch, target, _at_input, progress, baseline=False))


def _at_input(reading: BlockInputs, _variants: Tensor) -> tuple[Tensor, Tensor]:
    return reading.full[None], reading.full[None]
