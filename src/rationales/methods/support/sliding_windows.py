"""Windows that slide over the units: runs of words, squares of pixels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.models.batch import Batch


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of `width` units every `stride` units; the windows of a row do not depend on the batch."""

    batch: Batch
    width: int | Tensor  # for all rows, or (S,) for each row of a text its own
    stride: int

    @property
    def counts(self) -> Tensor:
        """(S,) number of windows of each row; the last reaches the row's end."""
        if self.batch.grid is None:
            return self._along(self.batch.rows.real.sum(1), self.width)
        sides = (torch.tensor(side, device=self.batch.device) for side in self.batch.grid)
        down, across = (self._along(side, self.width) for side in sides)
        return (down * across).expand(self.batch.size[0])

    def hidden(self, row: Tensor, number: Tensor) -> Tensor:
        """(k, R, n) bool: units covered by the windows with these numbers (k,); none if a row has no such window."""
        if self.batch.grid is None:
            width = torch.as_tensor(self.width, device=self.batch.device).expand(self.batch.size[0])[row]
            inside = self._inside(number[:, None], self.batch.size[1], width[:, None])  # (k, R, n)
        else:
            high, wide = self.batch.grid
            across = int(self._along(torch.tensor(wide), self.width))
            down = self._inside(number // across, high, self.width)
            right = self._inside(number % across, wide, self.width)
            inside = (down[..., None] & right[:, None]).flatten(1)[:, None]
        return inside & self.batch.rows.real[row] & (number[:, None] < self.counts[row])[..., None]

    def _along(self, length: Tensor, width: int | Tensor) -> Tensor:
        """Number of windows along this many units."""
        return -(-(length - width).clamp(min=0) // self.stride) + 1

    def _inside(self, number: Tensor, length: int, width: int | Tensor) -> Tensor:
        """(..., length) bool: what the windows with these numbers (...) cover along an axis."""
        units = torch.arange(length, device=number.device)
        start = number[..., None] * self.stride
        return (units >= start) & (units < start + width)
