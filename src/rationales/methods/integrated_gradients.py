"""Integrated gradients: slopes along the straight line from the baseline (Sundararajan, Taly and Yan 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.gradients import GradientMethod
from rationales.methods.method import Attribution, Progress
from rationales.models.batch import Batch
from rationales.models.probing import Reading
from rationales.options import option


@dataclass(frozen=True)
class IntegratedGradients(GradientMethod):
    """(x - b) times the mean slope between b and x (Eq. 1), by Gauss-Legendre quadrature.

    The scores of an input's units add up to explained(x) - explained(b), the closer the more steps.
    """

    name: ClassVar[str] = "integrated-gradients"
    summary: ClassVar[str] = "gradients added up on the straight line from the baseline"
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "text": {"default": {}, "paper": {"steps": 50}},
        "image": {"default": {}},
    }

    steps: int = option(50, "points on the line")

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise OptionError(f"integrated-gradients needs at least 1 step, not {self.steps}")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        place, weight = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(self.steps))
        place, weight = ((part / 2).to(device=batch.device, dtype=batch.dtype) for part in (place + 1, weight))

        def line(reading: Reading, step: Tensor) -> tuple[Tensor, Tensor]:
            way = reading.full - reading.empty
            return reading.empty + reading.along(place[step]) * way, reading.along(weight[step]) * way

        return Attribution(self.walk(batch, target, line, progress, self.steps))
