"""Which units a protocol selects at each of its levels: ranks, ties, counts. Vectorised over inputs, on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rationales.errors import InputError
from rationales.evaluation.protocols import Protocol
from rationales.models.batch.rows import fold, uniform

ROUNDING = 1e-9  # 0.15 * 20 is a little more than 3 in floating point, and must not become 4
TIE_PURPOSE = 11  # seed component of tie breaking, so that no random number is used twice


@dataclass(frozen=True, eq=False)
class LevelSelections:
    """The rationales of B inputs at L levels: the `count` units of lowest `rank`."""

    rank: Tensor  # (B, N) long; 0 is selected first; real units come before all others
    units: Tensor  # (B,) how many units an input has
    count: Tensor  # (B, L) units selected, never falling along a row
    counts: Tensor  # (B, L) bool: the level is part of the result (not a repetition, not skipped, not beyond the end)

    @property
    def share(self) -> Tensor:
        """(B, L): the share of the units that is in fact selected."""
        return self.count.double() / self.units[:, None]

    def to(self, device: torch.device) -> LevelSelections:
        """The same on another device."""
        return LevelSelections(*(tensor.to(device) for tensor in (self.rank, self.units, self.count, self.counts)))

    def selected(self, input: int) -> Tensor:  # noqa: A002  # the package's word for it
        """(L, units) bool: what is selected of one input at every level."""
        return self.rank[input, : int(self.units[input])] < self.count[input][:, None]


def check_scores(scores: Sequence[np.ndarray], names: Sequence[str]) -> None:
    """Raise an InputError where scores are not one finite number for each unit."""
    for values, name in zip(scores, names, strict=True):
        if np.ndim(values) != 1 or len(values) == 0:
            raise InputError(f"the scores of {name} have the shape {np.shape(values)}; give one number for each unit")
        if not np.isfinite(values).all():
            bad = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(
                f"the scores of {name} hold {values[bad]} (unit {bad}); leave the input out, or find out why its "
                "method gives no finite number there"
            )


def select_levels(
    scores: Sequence[np.ndarray],
    protocol: Protocol,
    keys: Sequence[int],
    device: torch.device | str = "cpu",
    real: Tensor | None = None,
) -> LevelSelections:
    """Rank the units of B inputs and count how many each level selects.

    scores: one (units,) array per input, finite. keys: one number per input, the source of what breaks its ties.
    real: (B, N) bool where not all units of an input exist (a padded image); by default all do.
    """
    lengths = [len(values) for values in scores]
    sort_device = torch.device("cpu" if torch.device(device).type == "mps" else device)  # float64 is needed
    padded = np.zeros((len(scores), max(lengths)))
    for row, input_scores in enumerate(scores):
        padded[row, : len(input_scores)] = input_scores
    values = torch.from_numpy(padded).to(sort_device)
    inside = torch.arange(padded.shape[1], device=sort_device) < torch.tensor(lengths, device=sort_device)[:, None]
    if real is not None:
        inside = inside & real.to(sort_device)
    rank = ranks(values, inside, protocol, torch.tensor(list(keys), device=sort_device))
    units = inside.sum(1)
    selectable = (inside & (values > 0)).sum(1) if protocol.positive else units
    count, counts = _counts(units, selectable, protocol)
    return LevelSelections(rank, units, count, counts).to(torch.device(device))


def ranks(values: Tensor, real: Tensor, protocol: Protocol, key: Tensor) -> Tensor:
    """(B, N) long: how many units come before each; higher scores first, units that are not real last."""
    ordered_values = torch.where(real, values.double(), -torch.inf)
    if protocol.ties == "left":
        order = torch.sort(ordered_values, descending=True, stable=True).indices
    else:
        noise = uniform(fold(key, TIE_PURPOSE), values.shape[1])  # (B, N)
        if protocol.ties == "noise":
            largest = torch.where(real, values.double().abs(), 0.0).amax(1, keepdim=True)
            # all scores zero: every unit is tied, and any noise will do
            ordered_values = ordered_values + protocol.noise * torch.where(largest > 0, largest, 1.0) * noise
        shuffled = torch.argsort(noise, dim=1)
        order = shuffled.gather(1, torch.sort(ordered_values.gather(1, shuffled), descending=True, stable=True).indices)
    positions = torch.arange(values.shape[1], device=values.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, positions)


def _counts(units: Tensor, selectable: Tensor, protocol: Protocol) -> tuple[Tensor, Tensor]:
    """(B, L) units at each level, and whether the level counts."""
    n, min_units = units[:, None], min(protocol.min_units, int(units.max()))
    if protocol.each is not None:
        last = _round_count(protocol.each * n.double(), protocol.count).clamp(min=max(min_units, 1))
        unit_counts = torch.arange(1, int(last.max()) + 1, device=units.device).expand(len(units), -1)
        counts = unit_counts <= last
        count = torch.minimum(unit_counts, last)
    else:
        levels = torch.tensor(protocol.levels, dtype=torch.float64, device=units.device)
        count = _round_count(levels * n.double(), protocol.count).clamp(min=min_units)
        counts = torch.ones_like(count, dtype=torch.bool)
    count = torch.minimum(count, torch.minimum(n, selectable[:, None]))
    if protocol.distinct:
        counts = counts & (torch.diff(count, dim=1, prepend=torch.full_like(n, -1)) > 0)
    if protocol.empty == "skip":
        counts = counts & (count > 0)
    return count, counts


def _round_count(number: Tensor, rounding: str) -> Tensor:
    """Units out of level x units; rounding takes a half upwards."""
    if rounding == "ceil":
        return torch.ceil(number - ROUNDING).long()
    return torch.floor(number + (0.5 if rounding == "round" else 0.0) + ROUNDING).long()
