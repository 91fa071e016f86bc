"""Shapley values by sampling: contributions of units that enter in random order (Castro, Gomez and Tejada 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Presets, Progress
from rationales.methods.support.feature_groups import GRID, SEGMENTS, FeatureGroups, feature_groups
from rationales.models.batch import Batch
from rationales.models.batch.queries import baseline_and_full_outputs, outputs_under_keeps
from rationales.models.classes import OUTPUTS
from rationales.options import option


@dataclass(frozen=True)
class ShapleySampling(Method):
    """Mean contribution of each unit to the units before it, over random orders.

    The scores of a row's words (of an image's cells) add up to explained(x) - explained(baseline), for any number of
    orders. All pixels of a cell have the cell's score. Units of one step have equal shares of what it adds.
    """

    name: ClassVar[str] = "shapley-sampling"
    summary: ClassVar[str] = "Shapley values: mean contribution of a unit over random orders"
    presets: ClassVar[Presets] = {
        "text": {"default": {}, "paper": {"orders": 25}},
        "image": {"default": {"orders": 10}},
        "image-text": {"default": {"orders": 10}},
    }

    orders: int = option(25, "random orders; one forward pass per step of an order")
    units_per_step: int = option(
        1, "units that enter an order in one step and share its contribution; above 1: fewer forward passes, coarser"
    )
    cell: int = option(0, "on an image: side of a cell in pixels; 0: 14 cells along the longer side")
    segments: str = option(
        GRID, "on an image: square cells, or super-pixels by quickshift or SLIC (about as many as cells)", *SEGMENTS
    )
    output: str = option("probability", "output of the model that is explained, for the target", *OUTPUTS)

    def __post_init__(self) -> None:
        if self.orders < 1:
            raise OptionError(f"shapley-sampling needs at least 1 order, not {self.orders}")
        if self.units_per_step < 1:
            raise OptionError(f"shapley-sampling needs at least 1 unit in a step, not {self.units_per_step}")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        groups = feature_groups(batch, self.cell, self.segments)
        set_count = self._steps(groups) - 1  # (S,) proper subsets in an order
        per_order = set_count.clamp(min=1)

        def keeps(row: Tensor, variant: Tensor) -> Tensor:
            number, size = variant[:, None] // per_order[row], variant[:, None] % per_order[row] + 1  # (k, R) each
            return groups.spread(groups.order(batch, row, number) < self.units_per_step * size[..., None], row)

        outputs = outputs_under_keeps(
            batch, target, keeps, self.orders * set_count, output=self.output, progress=progress
        )
        empty, full = baseline_and_full_outputs(batch, target, self.output)
        return Attribution(groups.spread(self._contributions(batch, groups, outputs, empty, full)) * batch.rows.real)

    def _steps(self, groups: FeatureGroups) -> Tensor:
        """(S,): steps of an order; the last may have fewer units."""
        return -(-groups.count // self.units_per_step)

    def _contributions(
        self, batch: Batch, groups: FeatureGroups, outputs: Tensor, empty: Tensor, full: Tensor
    ) -> Tensor:
        """(S, g): mean contribution of every group."""
        all_rows = torch.arange(batch.size[0], device=batch.device)
        steps = self._steps(groups)[:, None]
        table = torch.cat([outputs.T, full[:, None]], 1)  # (S, K + 1)
        total = torch.zeros(groups.real.shape, device=batch.device, dtype=outputs.dtype)
        for number in range(self.orders):
            position = groups.order(batch, all_rows, torch.full((1, len(all_rows)), number, device=batch.device))[0]
            step = position // self.units_per_step
            first = number * (steps - 1) - 1  # column of the set of size 0, which is not stored
            after = table.gather(1, torch.where(step + 1 < steps, first + step + 1, table.shape[1] - 1))
            before = table.gather(1, (first + step).clamp(0, table.shape[1] - 1))
            units_in_step = (groups.count[:, None] - step * self.units_per_step).clamp(1, self.units_per_step)
            total += (after - torch.where(step > 0, before, empty[:, None])) / units_in_step
        return total / self.orders * groups.real
