"""Windows that slide over the units: runs of words, squares of pixels, or both in parts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.models.batch import Batch
from rationales.models.batch.rows import Part


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of `width` units every `stride` units; the windows of a row do not depend on the batch.

    Of several parts, the windows follow each other in the order of the parts; words beside pixels are covered one at
    a time.
    """

    batch: Batch
    width: int | Tensor  # for all rows, or (S,) for each row of a text its own
    stride: int

    @property
    def counts(self) -> Tensor:
        """(S,) number of windows of each row; the last reaches the row's end."""
        return sum((self._part_counts(unit_part) for unit_part in self.batch.parts), torch.zeros_like(self._rows))

    def hidden(self, row: Tensor, number: Tensor) -> Tensor:
        """(k, R, n) bool: units covered by the windows with these numbers (k,); none if a row has no such window."""
        covered, before = [], torch.zeros_like(row)
        for unit_part in self.batch.parts:
            counts = self._part_counts(unit_part)[row]
            inside = self._covered(unit_part, row, number[:, None] - before)
            exists = (number[:, None] >= before) & (number[:, None] < before + counts)
            covered.append(inside & self.batch.rows.real[row, unit_part.units] & exists[..., None])
            before = before + counts
        return covered[0] if len(covered) == 1 else torch.cat(covered, -1)

    @property
    def _rows(self) -> Tensor:
        """(S,) 0, 1, ..."""
        return torch.arange(self.batch.size[0], device=self.batch.device)

    def _part_counts(self, unit_part: Part) -> Tensor:
        """(S,) number of windows over this part."""
        if unit_part.grid is None:
            width, stride = self._of_line()
            return self._along(self.batch.rows.real[:, unit_part.units].sum(1), width, stride)
        sides = (torch.tensor(side, device=self.batch.device) for side in unit_part.grid)
        down, across = (self._along(side, self.width, self.stride) for side in sides)
        return (down * across).expand(self.batch.size[0])

    def _covered(self, unit_part: Part, row: Tensor, number: Tensor) -> Tensor:
        """(k, R, units of the part) bool: what windows of this part with these numbers (k, R) cover."""
        if unit_part.grid is None:
            line_width, stride = self._of_line()
            width = torch.as_tensor(line_width, device=self.batch.device).expand(self.batch.size[0])[row]
            return self._inside(number, unit_part.count, width[:, None], stride)
        high, wide = unit_part.grid
        across = int(self._along(torch.tensor(wide), self.width, self.stride))
        first = number[:, :1]  # windows of a grid, the first part, have the same number in all rows
        down = self._inside(first // across, high, self.width, self.stride)
        right = self._inside(first % across, wide, self.width, self.stride)
        return (down[..., None] & right[..., None, :]).flatten(2)

    def _of_line(self) -> tuple[int | Tensor, int]:
        """Width and stride on a line; of words beside pixels both are 1."""
        return (self.width, self.stride) if len(self.batch.parts) == 1 else (1, 1)

    def _along(self, length: Tensor, width: int | Tensor, stride: int) -> Tensor:
        """Number of windows along this many units."""
        return -(-(length - width).clamp(min=0) // stride) + 1

    def _inside(self, number: Tensor, length: int, width: int | Tensor, stride: int) -> Tensor:
        """(..., length) bool: what the windows with these numbers (...) cover along an axis."""
        units = torch.arange(length, device=number.device)
        start = number[..., None] * stride
        return (units >= start) & (units < start + width)
