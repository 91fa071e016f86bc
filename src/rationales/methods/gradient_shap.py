"""GradientSHAP: slopes at random places between the baseline and noisy copies (Lundberg and Lee 2017; Erion et al.)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.gradients import GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.models.batch import Batch
from rationales.models.probing import Reading
from rationales.models.randomness import fold, uniform
from rationales.options import option


@dataclass(frozen=True)
class GradientShap(GradientMethod):
    """The mean over samples of (x' - b) times the slope at b + t (x' - b), x' a noisy input and t uniform in (0, 1).

    Where a model has several baselines every sample is drawn for each of them, and they are averaged.
    """

    name: ClassVar[str] = "gradient-shap"
    summary: ClassVar[str] = "integrated gradients by sampling, with noise on the input"

    samples: int = option(25, "random places on the line")
    noise: float = option(0.1, "standard deviation of the noise, relative to the root mean square of what is read")

    def __post_init__(self) -> None:
        if self.samples < 1 or self.noise < 0:
            raise OptionError("gradient-shap needs at least 1 sample and a noise of at least 0")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        def somewhere(reading: Reading, sample: Tensor) -> tuple[Tensor, Tensor]:
            way = reading.noisy(sample, self.noise) - reading.empty  # (k, R, *read)
            drawn = uniform(fold(reading.keys(sample), 1), 1).view(len(sample), -1)
            place = reading.along(drawn.to(way.dtype))
            return reading.empty + place * way, way / self.samples

        return Attribution(self.walk(batch, target, somewhere, progress, self.samples))
