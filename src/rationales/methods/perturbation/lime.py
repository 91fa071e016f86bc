"""LIME: a linear model of the classifier's output for perturbed inputs (Ribeiro, Singh, Guestrin 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Presets, Progress
from rationales.methods.support.feature_groups import GRID, SEGMENTS, FeatureGroups, feature_groups
from rationales.methods.support.linear_model import fit_linear_model, random_keeps
from rationales.models.batch import Batch
from rationales.models.batch.queries import outputs_under_keeps
from rationales.models.classes import OUTPUTS
from rationales.options import option


@dataclass(frozen=True)
class Lime(Method):
    """A unit's score is its coefficient in a ridge regression on which units were kept (section 3.4).

    Each sample replaces a random number of units and has the weight exp(-d^2 / (2 kernel^2)), d the cosine distance
    between its keep and the full input's. The input itself is one of the samples. All pixels of a cell have its score.
    """

    name: ClassVar[str] = "lime"
    summary: ClassVar[str] = "coefficients of a linear model fitted to randomly perturbed inputs"
    presets: ClassVar[Presets] = {
        "text": {
            "default": {},
            "paper": {"samples": 50, "min_share": 0.05, "max_share": 0.13, "following": 3, "kernel": 0.0, "ridge": 0.0},
        },
        "image": {"default": {}, "paper": {"segments": "quickshift"}},
    }

    samples: int = option(1000, "number of perturbed inputs, the input itself included")
    min_share: float = option(0.0, "smallest share of units that a sample replaces (at least one unit)")
    max_share: float = option(1.0, "largest share of units that a sample replaces")
    following: int = option(0, "units after each selected one that are replaced with it; for texts")
    kernel: float = option(0.25, "width of the kernel over cosine distances; 0: equal weights")
    ridge: float = option(1.0, "weight of the squared coefficients; 0: plain least squares, the smallest solution")
    cell: int = option(0, "on an image: side of a cell in pixels; 0: 14 cells along the longer side")
    segments: str = option(
        GRID, "on an image: square cells, or super-pixels by quickshift or SLIC (about as many as cells)", *SEGMENTS
    )
    output: str = option("probability", "output of the model that is explained, for the target", *OUTPUTS)

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise OptionError(f"lime needs at least 2 samples, not {self.samples}")
        if not 0 <= self.min_share <= self.max_share <= 1:
            raise OptionError("lime needs 0 <= min_share <= max_share <= 1, shares of the units")
        if self.following < 0 or self.kernel < 0 or self.ridge < 0:
            raise OptionError("lime needs following, kernel and ridge of at least 0")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if batch.pixel_grid is not None and self.following:
            raise OptionError("lime's option following is for texts: cells of an image have no order")
        groups = feature_groups(batch, self.cell, self.segments)

        def keeps(row: Tensor, variant: Tensor) -> Tensor:
            return groups.spread(self.kept(batch, groups, row, variant), row)

        outputs = outputs_under_keeps(batch, target, keeps, self.samples, output=self.output, progress=progress)
        kept = partial(self.kept, batch, groups)
        return Attribution(
            groups.spread(fit_linear_model(groups, kept, outputs, self.kernel, self.ridge)) * batch.rows.real
        )

    def kept(self, batch: Batch, groups: FeatureGroups, row: Tensor, variant: Tensor) -> Tensor:
        """(k, R, g) bool: the groups that each sample keeps; sample 0 keeps all."""
        replaced = ~random_keeps(batch, groups, row, variant, self.min_share, self.max_share)
        for _ in range(self.following):
            replaced = replaced | torch.nn.functional.pad(replaced[..., :-1], (1, 0))
        return ~replaced
