"""GradientSHAP: gradients at random points between baseline and noisy input (Lundberg and Lee 2017; Erion et al.)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.gradient.gradient_method import GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.models.batch import Batch
from rationales.models.batch.queries import BlockInputs
from rationales.models.batch.rows import fold, uniform
from rationales.options import option


@dataclass(frozen=True)
class GradientShap(GradientMethod):
    """Mean over samples of (x' - b) times the gradient at b + t (x' - b), x' a noisy input and t uniform in (0, 1).

    Where a model has several baselines every sample is used with each of them, and the results are averaged.
    """

    name: ClassVar[str] = "gradient-shap"
    summary: ClassVar[str] = "integrated gradients by sampling, with noise on the input"

    samples: int = option(25, "random points on the line")
    noise: float = option(0.1, "standard deviation of the noise, relative to the root mean square of the input")

    def __post_init__(self) -> None:
        if self.samples < 1 or self.noise < 0:
            raise OptionError("gradient-shap needs at least 1 sample and a noise of at least 0")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        def random_points(reading: BlockInputs, sample: Tensor) -> tuple[Tensor, Tensor]:
            difference = reading.noisy(sample, self.noise) - reading.empty  # (k, R, *read)
            random_numbers = uniform(fold(reading.keys(sample), 1), 1).view(len(sample), -1)
            position = reading.along(random_numbers.to(difference.dtype))
            return reading.empty + position * difference, difference / self.samples

        return Attribution(self.gradient_scores(batch, target, random_points, progress, variants=self.samples))
