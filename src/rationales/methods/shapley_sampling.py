"""Shapley values by sampling: what a unit adds when units arrive in random order (Castro, Gomez and Tejada 2009)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.players import Players, players
from rationales.models.probing import OF, answers, ends
from rationales.options import option


@dataclass(frozen=True)
class ShapleySampling(Method):
    """The mean, over random orders, of what each unit adds to those before it.

    The scores of a row's words (of a picture's cells) add up to explained(x) - explained(baseline), for any number of
    orders. All pixels of a cell have the cell's score.
    """

    name: ClassVar[str] = "shapley-sampling"
    summary: ClassVar[str] = "Shapley values: what a unit adds, averaged over random orders"
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "text": {"default": {}, "paper": {"orders": 25}},
        "image": {"default": {"orders": 10}},
    }

    orders: int = option(25, "random orders; each asks the model once for every unit")
    every: int = option(0, "on a picture: side of the cells that play, in pixels; 0: 14 cells along the longer side")
    of: str = option("probability", "what of the target is explained", *OF)

    def __post_init__(self) -> None:
        if self.orders < 1:
            raise OptionError(f"shapley-sampling needs at least 1 order, not {self.orders}")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        team = players(batch, self.every)
        between = team.count - 1  # (S,) sets on the way from nothing to everything, both excluded
        each = between.clamp(min=1)

        def keeps(row: Tensor, variant: Tensor) -> Tensor:
            number, size = variant[:, None] // each[row], variant[:, None] % each[row] + 1  # (k, R) each
            return team.spread(team.order(batch, row, number) < size[..., None])

        found = answers(batch, target, keeps, self.orders * between, of=self.of, progress=progress)
        return Attribution(team.spread(self._mean(batch, team, found, *ends(batch, target, self.of))))

    def _mean(self, batch: Batch, team: Players, found: Tensor, empty: Tensor, full: Tensor) -> Tensor:
        """(S, g)."""
        everyone = torch.arange(batch.size[0], device=batch.device)
        count = team.count[:, None]
        table = torch.cat([found.T, full[:, None]], 1)  # (S, K + 1)
        total = torch.zeros(team.real.shape, device=batch.device, dtype=found.dtype)
        for number in range(self.orders):
            place = team.order(batch, everyone, torch.full((1, len(everyone)), number, device=batch.device))[0]
            first = number * (count - 1) - 1  # the column of the set of size 0, were it there
            after = table.gather(1, torch.where(place + 1 < count, first + place + 1, table.shape[1] - 1))
            before = table.gather(1, (first + place).clamp(0, table.shape[1] - 1))
            total += after - torch.where(place > 0, before, empty[:, None])
        return total / self.orders * team.real
