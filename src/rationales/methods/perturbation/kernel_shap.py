"""KernelSHAP: Shapley values as the solution of a weighted regression (Lundberg and Lee 2017, theorem 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Presets, Progress
from rationales.methods.support.feature_groups import GRID, SEGMENTS, FeatureGroups, feature_groups
from rationales.methods.support.least_squares import least_squares, row_chunks
from rationales.models.batch import Batch
from rationales.models.batch.queries import baseline_and_full_outputs, outputs_under_keeps
from rationales.models.batch.rows import fold, uniform
from rationales.models.classes import OUTPUTS
from rationales.options import option


@dataclass(frozen=True)
class KernelShap(Method):
    """Random sets of kept units by the Shapley kernel, each with its complement, and a fit that adds up exactly.

    Where an input has no more sets than samples, all sets are used and its scores are the exact Shapley values. The
    scores of a row's words (of an image's cells) add up to explained(x) - explained(baseline).
    """

    name: ClassVar[str] = "kernel-shap"
    summary: ClassVar[str] = "Shapley values by regression on random sets of kept units"
    presets: ClassVar[Presets] = {
        "text": {"default": {}},
        "image": {"default": {}, "paper": {"segments": "quickshift"}},
    }

    samples: int = option(1024, "number of perturbed inputs")
    cell: int = option(0, "on an image: side of a cell in pixels; 0: 14 cells along the longer side")
    segments: str = option(
        GRID, "on an image: square cells, or super-pixels by quickshift or SLIC (about as many as cells)", *SEGMENTS
    )
    output: str = option("probability", "output of the model that is explained, for the target", *OUTPUTS)

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise OptionError(f"kernel-shap needs at least 2 samples, not {self.samples}")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        groups = feature_groups(batch, self.cell, self.segments)
        sets = torch.where(self._all_sets(groups), 2 ** groups.count.clamp(max=40) - 2, self.samples)

        def keeps(row: Tensor, variant: Tensor) -> Tensor:
            return groups.spread(self.kept(batch, groups, row, variant), row)

        outputs = outputs_under_keeps(batch, target, keeps, sets, output=self.output, progress=progress)
        empty, full = baseline_and_full_outputs(batch, target, self.output)
        fitted = torch.zeros(groups.real.shape, device=batch.device, dtype=outputs.dtype)
        variants = torch.arange(len(outputs), device=batch.device)
        for row in row_chunks(groups.real, len(outputs)):
            real, count = groups.real[row], groups.count[row]
            kept = (self.kept(batch, groups, row, variants) & real).double().movedim(0, 1)  # (R, K, g)
            size = kept.sum(-1)
            mean_share = ((full - empty)[row].double() / count)[:, None]  # the fit adds deviations whose sum is 0
            values = outputs[:, row].T.double() - empty[row][:, None] - mean_share * size
            features = (kept - (size / count[:, None])[..., None]) * real[:, None]
            weights = self._weights(groups, row, size) * (variants < sets[row][:, None])
            fitted[row] = (mean_share + least_squares(features, values, weights, 0.0)).to(fitted.dtype) * real
        return Attribution(groups.spread(fitted) * batch.rows.real)

    def _all_sets(self, groups: FeatureGroups) -> Tensor:
        """(S,) bool: whether all sets of a row's groups are used."""
        return 2.0 ** groups.count.double() - 2 <= self.samples

    def _weights(self, groups: FeatureGroups, row: Tensor, size: Tensor) -> Tensor:
        """(R, K): the Shapley kernel (theorem 2) where all sets are used; random sets follow it by their frequency."""
        count = groups.count[row][:, None].double()
        log = torch.lgamma(size + 1) + torch.lgamma(count - size + 1) - torch.lgamma(count + 1)  # 1 / binomial
        kernel = (count - 1) * log.exp() / (size * (count - size)).clamp(min=1)
        return torch.where(self._all_sets(groups)[row][:, None], kernel, torch.ones_like(kernel))

    def kept(self, batch: Batch, groups: FeatureGroups, row: Tensor, variant: Tensor) -> Tensor:
        """(k, R, g) bool: the sets of these numbers; odd ones are the complement of the set before."""
        bit = torch.arange(groups.real.shape[1], device=batch.device)
        enumerated_sets = ((variant[:, None, None] + 1) >> bit.clamp(max=62)).bitwise_and(1).bool() & (bit < 63)
        if groups.member is not None:  # of an image the groups that exist need not be the first
            enumerated_sets = enumerated_sets[..., (groups.real[row].cumsum(1) - 1).clamp(min=0)].squeeze(1)
        number = (variant // 2)[:, None].expand(-1, len(row))
        keys = fold(batch.rows.key[row].expand_as(number).flatten(), number.flatten(), 1)
        random_numbers = uniform(keys, 1).view(number.shape)
        random_sets = groups.order(batch, row, number) < self._sizes(groups, row, random_numbers)[..., None]
        random_sets = random_sets ^ (variant % 2 == 1)[:, None, None]
        return torch.where(self._all_sets(groups)[row][:, None], enumerated_sets, random_sets)

    def _sizes(self, groups: FeatureGroups, row: Tensor, random_numbers: Tensor) -> Tensor:
        """(k, R) uniform numbers -> set sizes from 1 to g - 1; size k has probability ~ 1 / (k (g - k))."""
        count = groups.count[row][:, None]
        size = torch.arange(1, max(2, groups.real.shape[1]), device=random_numbers.device)
        share = torch.where(size < count, 1 / (size * (count - size)).clamp(min=1).double(), 0.0).cumsum(1)
        share = share / share[:, -1:].clamp(min=1e-300)
        return (random_numbers[..., None] > share).sum(-1) + 1
