"""SmoothGrad: the mean gradient over noisy copies of the input (Smilkov et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.gradient.gradient_method import REDUCE, GradientMethod
from rationales.methods.method import Attribution, Presets, Progress
from rationales.models.batch import Batch
from rationales.models.batch.queries import BlockInputs
from rationales.options import option

SIZES = ("rms", "range")


@dataclass(frozen=True)
class SmoothGrad(GradientMethod):
    """L1 norm of the mean gradient over a unit's values; with `reduce=sum` their signed sum."""

    name: ClassVar[str] = "smooth-grad"
    summary: ClassVar[str] = "size of the mean gradient over noisy copies of the input"
    uses_baselines: ClassVar[bool] = False
    presets: ClassVar[Presets] = {
        "text": {"default": {}},
        "image": {
            "default": {"noise": 0.5},  # about 15 % of a photograph's range
            "paper": {"samples": 50, "noise": 0.15, "relative_to": "range", "output": "logit"},
        },
        "image-text": {"default": {"noise": 0.5}},
    }

    reduce: str = option("norm", "reduction over a unit's values (embedding, colours): signed sum or L1 norm", *REDUCE)
    samples: int = option(25, "noisy copies")
    noise: float = option(0.15, "standard deviation of the noise, relative to the size of the input")
    relative_to: str = option("rms", "size of the input: its root mean square, or its range (max - min)", *SIZES)

    def __post_init__(self) -> None:
        if self.samples < 1 or self.noise < 0:
            raise OptionError("smooth-grad needs at least 1 sample and a noise of at least 0")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        def noisy_points(reading: BlockInputs, sample: Tensor) -> tuple[Tensor, Tensor]:
            share = torch.full_like(reading.full[:1, None], 1 / self.samples)
            return reading.noisy(sample, self.noise, self.relative_to == "range"), share

        settings = {"variants": self.samples, "baseline": False}
        return Attribution(self.gradient_scores(batch, target, noisy_points, progress, **settings))
