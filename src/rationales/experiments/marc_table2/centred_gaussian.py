"""A control: every picture is explained by the same Gaussian around its centre, where photographers put things."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.options import option


@dataclass(frozen=True)
class CentredGaussian(Method):
    """exp(-d^2 / (2 (width side)^2)), d the distance of a pixel from the centre and side the picture's shorter one."""

    name: ClassVar[str] = "centred-gaussian"
    summary: ClassVar[str] = "the same Gaussian around the centre of every picture"
    uses_baselines: ClassVar[bool] = False
    class_specific: ClassVar[bool] = False

    width: float = option(0.25, "standard deviation, as a share of the shorter side")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if batch.grid is None:
            raise OptionError("only pictures have a centre")
        down, across = (
            torch.arange(side, device=batch.device, dtype=batch.dtype) - (side - 1) / 2 for side in batch.grid
        )
        deviation = self.width * min(batch.grid)
        scores = torch.exp(-(down[:, None].square() + across.square()) / (2 * deviation**2)).flatten()
        return Attribution(scores * batch.rows.real)
