"""Integrated gradients: gradients along the straight line from the baseline (Sundararajan, Taly and Yan 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.gradient.gradient_method import GradientMethod
from rationales.methods.method import Attribution, Presets, Progress
from rationales.models.batch import Batch
from rationales.models.batch.queries import BlockInputs, to_rows
from rationales.options import option


@dataclass(frozen=True)
class IntegratedGradients(GradientMethod):
    """(x - b) times the mean gradient between b and x (Eq. 1), by Gauss-Legendre quadrature.

    The scores of an input's units add up to explained(x) - explained(b), more closely with more steps.
    """

    name: ClassVar[str] = "integrated-gradients"
    summary: ClassVar[str] = "sum of gradients along the straight line from the baseline"
    presets: ClassVar[Presets] = {
        "text": {"default": {}, "paper": {"steps": 50, "output": "logit"}},
        "image": {"default": {}, "paper": {"steps": 100, "output": "logit", "baseline": "blur-10"}},
    }

    steps: int = option(50, "points on the line")
    baseline: str = option("", "where the line begins, in place of the model's baselines; for an image blur-N")

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise OptionError(f"integrated-gradients needs at least 1 step, not {self.steps}")

    @property
    def removal_operation(self) -> str:
        """The option `baseline`, or the model's baseline."""
        return self.baseline or "baseline"

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        replaced = batch.with_baseline(self.baseline) if self.baseline else batch
        position, weight = (torch.from_numpy(nodes) for nodes in np.polynomial.legendre.leggauss(self.steps))
        position, weight = ((nodes / 2).to(device=batch.device, dtype=batch.dtype) for nodes in (position + 1, weight))

        def points(reading: BlockInputs, step: Tensor) -> tuple[Tensor, Tensor]:
            difference = reading.full - reading.empty
            return reading.empty + reading.along(position[step]) * difference, reading.along(weight[step]) * difference

        scores = self.gradient_scores(replaced, target, points, progress, variants=self.steps)
        return Attribution(to_rows(batch, scores))
