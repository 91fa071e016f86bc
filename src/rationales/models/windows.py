"""Windows that slide over the units: runs of words, squares of pixels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.models.batch import Batch


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of `width` units every `stride` units; each row has those it would have alone."""

    batch: Batch
    width: int
    stride: int

    @property
    def counts(self) -> Tensor:
        """(S,) windows of each row; the last of them reaches its end."""
        if self.batch.grid is None:
            return self._along(self.batch.rows.real.sum(1))
        down, across = (self._along(torch.tensor(side, device=self.batch.device)) for side in self.batch.grid)
        return (down * across).expand(self.batch.size[0])

    def hidden(self, row: Tensor, number: Tensor) -> Tensor:
        """(k, R, n) bool: what the windows with these numbers (k,) cover; nothing where a row has no such window."""
        if self.batch.grid is None:
            inside = self._inside(number, self.batch.size[1])
        else:
            across = int(self._along(torch.tensor(self.batch.grid[1])))
            high, wide = self.batch.grid
            inside = self._inside(number // across, high)[..., None] & self._inside(number % across, wide)[:, None]
            inside = inside.flatten(1)
        return inside[:, None] & self.batch.rows.real[row] & (number[:, None] < self.counts[row])[..., None]

    def _along(self, length: Tensor) -> Tensor:
        """How many there are along so many units."""
        return -(-(length - self.width).clamp(min=0) // self.stride) + 1

    def _inside(self, number: Tensor, length: int) -> Tensor:
        """(k, length) bool."""
        units = torch.arange(length, device=number.device)
        start = number[:, None] * self.stride
        return (units >= start) & (units < start + self.width)
