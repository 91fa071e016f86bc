"""KernelSHAP: Shapley values as the solution of a weighted regression (Lundberg and Lee 2017, theorem 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Progress
from rationales.methods.regression import chunks, least_squares
from rationales.models.batch import Batch
from rationales.models.players import Players, players
from rationales.models.probing import OF, answers, ends
from rationales.models.randomness import fold, uniform
from rationales.options import option


@dataclass(frozen=True)
class KernelShap(Method):
    """Sets of kept units drawn by the Shapley kernel, each with its complement, and a fit that adds up exactly.

    An input so short that all its sets fit into the samples has them all: its scores are the exact Shapley values. The
    scores of a row's words (of a picture's cells) add up to explained(x) - explained(baseline).
    """

    name: ClassVar[str] = "kernel-shap"
    summary: ClassVar[str] = "Shapley values by regression on random sets of kept units"

    samples: int = option(1024, "times the model is asked")
    every: int = option(0, "on a picture: side of the cells that play, in pixels; 0: 14 cells along the longer side")
    of: str = option("probability", "what of the target is explained", *OF)

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise OptionError(f"kernel-shap needs at least 2 samples, not {self.samples}")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        team = players(batch, self.every)
        sets = torch.where(self._all(team), 2 ** team.count.clamp(max=40) - 2, self.samples)
        found = answers(
            batch,
            target,
            lambda row, variant: team.spread(self.kept(batch, team, row, variant)),
            sets,
            of=self.of,
            progress=progress,
        )
        empty, full = ends(batch, target, self.of)
        fitted = torch.zeros(team.real.shape, device=batch.device, dtype=found.dtype)
        variants = torch.arange(len(found), device=batch.device)
        for row in chunks(team.real, len(found)):
            real, count = team.real[row], team.count[row]
            kept = (self.kept(batch, team, row, variants) & real).double().movedim(0, 1)  # (R, K, g)
            size = kept.sum(-1)
            even = ((full - empty)[row].double() / count)[:, None]  # every one the same: adds up, and the rest must not
            values = found[:, row].T.double() - empty[row][:, None] - even * size
            features = (kept - (size / count[:, None])[..., None]) * real[:, None]
            weights = self._weights(team, row, size) * (variants < sets[row][:, None])
            fitted[row] = (even + least_squares(features, values, weights, 0.0)).to(fitted.dtype) * real
        return Attribution(team.spread(fitted))

    def _all(self, team: Players) -> Tensor:
        """(S,) bool: whether all sets of a row's groups are asked about."""
        return 2.0 ** team.count.double() - 2 <= self.samples

    def _weights(self, team: Players, row: Tensor, size: Tensor) -> Tensor:
        """(R, K): the Shapley kernel (theorem 2) where all sets are there; drawn sets carry it in their number."""
        count = team.count[row][:, None].double()
        log = torch.lgamma(size + 1) + torch.lgamma(count - size + 1) - torch.lgamma(count + 1)  # 1 / binomial
        kernel = (count - 1) * log.exp() / (size * (count - size)).clamp(min=1)
        return torch.where(self._all(team)[row][:, None], kernel, torch.ones_like(kernel))

    def kept(self, batch: Batch, team: Players, row: Tensor, variant: Tensor) -> Tensor:
        """(k, R, g) bool: the sets with these numbers, the odd ones the complements of the even before them."""
        groups = team.real.shape[1]
        place = torch.arange(groups, device=batch.device)
        counted = ((variant[:, None, None] + 1) >> place.clamp(max=62)).bitwise_and(1).bool() & (place < 63)
        if team.shape is not None:  # on a grid the groups that exist need not be the first
            counted = counted[..., (team.real[row].cumsum(1) - 1).clamp(min=0)].squeeze(1)
        number = (variant // 2)[:, None].expand(-1, len(row))
        keys = fold(batch.rows.key[row].expand_as(number).flatten(), number.flatten(), 1)
        drawn = uniform(keys, 1).view(number.shape)
        drawn_sets = team.order(batch, row, number) < self._sizes(team, row, drawn)[..., None]
        drawn_sets = drawn_sets ^ (variant % 2 == 1)[:, None, None]
        return torch.where(self._all(team)[row][:, None], counted, drawn_sets)

    def _sizes(self, team: Players, row: Tensor, drawn: Tensor) -> Tensor:
        """(k, R) uniform numbers -> sizes of sets from 1 to g - 1, each k as likely as 1 / (k (g - k))."""
        count = team.count[row][:, None]
        size = torch.arange(1, max(2, team.real.shape[1]), device=drawn.device)
        share = torch.where(size < count, 1 / (size * (count - size)).clamp(min=1).double(), 0.0).cumsum(
            1
        )  # (R, g - 1)
        share = share / share[:, -1:].clamp(min=1e-300)
        return (drawn[..., None] > share).sum(-1) + 1
