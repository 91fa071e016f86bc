"""LIME: a linear model of the classifier's output for perturbed inputs (Ribeiro, Singh, Guestrin 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Presets, Progress
from rationales.methods.perturbation.least_squares import centre, least_squares, row_chunks
from rationales.methods.support.feature_groups import FeatureGroups, feature_groups
from rationales.models.batch import Batch
from rationales.models.batch.queries import outputs_under_keeps
from rationales.models.batch.rows import fold, uniform
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
        "image": {"default": {}},
    }

    samples: int = option(1000, "number of perturbed inputs, the input itself included")
    min_share: float = option(0.0, "smallest share of units that a sample replaces (at least one unit)")
    max_share: float = option(1.0, "largest share of units that a sample replaces")
    following: int = option(0, "units after each selected one that are replaced with it; for texts")
    kernel: float = option(0.25, "width of the kernel over cosine distances; 0: equal weights")
    ridge: float = option(1.0, "weight of the squared coefficients; 0: plain least squares, the smallest solution")
    cell: int = option(0, "on an image: side of a cell in pixels; 0: 14 cells along the longer side")
    output: str = option("probability", "output of the model that is explained, for the target", *OUTPUTS)

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise OptionError(f"lime needs at least 2 samples, not {self.samples}")
        if not 0 <= self.min_share <= self.max_share <= 1:
            raise OptionError("lime needs 0 <= min_share <= max_share <= 1, shares of the units")
        if self.following < 0 or self.kernel < 0 or self.ridge < 0:
            raise OptionError("lime needs following, kernel and ridge of at least 0")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if batch.grid is not None and self.following:
            raise OptionError("lime's option following is for texts: cells of an image have no order")
        groups = feature_groups(batch, self.cell)

        def keeps(row: Tensor, variant: Tensor) -> Tensor:
            return groups.spread(self.kept(batch, groups, row, variant))

        outputs = outputs_under_keeps(batch, target, keeps, self.samples, output=self.output, progress=progress)
        all_samples = torch.arange(self.samples, device=batch.device)
        fitted = torch.zeros(groups.real.shape, device=batch.device, dtype=outputs.dtype)
        for row in row_chunks(groups.real, self.samples):
            real = groups.real[row]
            kept = (self.kept(batch, groups, row, all_samples) & real).double().movedim(0, 1)  # (R, K, g)
            weights = self._weights(kept.sum(-1) / groups.count[row][:, None])
            features, values = centre(kept, outputs[:, row].T.double(), weights)
            fitted[row] = least_squares(features * real[:, None], values, weights, self.ridge).to(fitted.dtype)
        return Attribution(groups.spread(fitted))

    def kept(self, batch: Batch, groups: FeatureGroups, row: Tensor, variant: Tensor) -> Tensor:
        """(k, R, g) bool: the groups that each sample keeps; sample 0 keeps all."""
        count = groups.count[row]
        low = (self.min_share * count).round().long().clamp(min=1)
        high = torch.maximum((self.max_share * count).round().long(), low)
        number = variant[:, None].expand(-1, len(row))
        keys = fold(batch.rows.key[row].expand_as(number).flatten(), number.flatten(), 1)
        random_numbers = uniform(keys, 1).view(number.shape)
        picks = low + (random_numbers * (high - low + 1)).long()  # (k, R)
        replaced = (groups.order(batch, row, number) < picks[..., None]) & (number > 0)[..., None]
        for _ in range(self.following):
            replaced = replaced | torch.nn.functional.pad(replaced[..., :-1], (1, 0))
        return ~replaced

    def _weights(self, share: Tensor) -> Tensor:
        """(R, K) shares of kept units -> weights; the cosine between a 0/1 vector and ones is the root of its mean."""
        if self.kernel == 0:
            return torch.ones_like(share)
        return torch.exp(-((1 - share.sqrt()) ** 2) / (2 * self.kernel**2))
