"""The parts of a row: units that lie on one line or on one grid; words and pixels together are two parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Part:
    """Units first..last-1 of every row: the pixels of a grid, row by row, or units of a line."""

    first: int
    last: int
    grid: tuple[int, int] | None  # height and width; None: a line

    @property
    def units(self) -> slice:
        """Its units in a tensor over units."""
        return slice(self.first, self.last)

    @property
    def count(self) -> int:
        """Number of its units, padding included."""
        return self.last - self.first


def part_weights(real: Tensor, parts: Sequence[Part], dtype: torch.dtype) -> Tensor:
    """(S, n): weights of the units such that all parts of a row weigh the same; their sum is the number of real units.

    real: (S, n) bool. With one part every real unit has the weight 1. A part without real units has no weight, and
    the others share its part.
    """
    weights = real.to(dtype)
    if len(parts) == 1:
        return weights
    counts = torch.stack([weights[:, unit_part.units].sum(1) for unit_part in parts], 1)  # (S, parts)
    shares = counts.sum(1, keepdim=True) / (counts > 0).sum(1, keepdim=True).clamp(min=1)
    factors = shares / counts.clamp(min=1)
    return torch.cat([weights[:, unit_part.units] * factors[:, [number]] for number, unit_part in enumerate(parts)], 1)
