"""Groups of units that are kept or replaced together: single words, cells of pixels, super-pixels, or both in parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.support.super_pixels import super_pixels
from rationales.models.batch import Batch
from rationales.models.batch.rows import fold, uniform

CELLS = 14  # default along the longer side of an image: cells of 16 x 16 pixels at 224
GRID = "grid"
SEGMENTS = (GRID, "quickshift", "slic")


@dataclass(frozen=True, eq=False)
class FeatureGroups:
    """g groups of units in each row, padded on the right, or where an image has only padding."""

    member: Tensor | None  # (n,) the group of every unit, or (S, n) if rows differ; None: each unit is its own
    real: Tensor  # (S, g) groups that exist
    shape: tuple[int, int] | None  # rows and columns of cells if units, or those of one part, lie on a grid

    @property
    def count(self) -> Tensor:
        """(S,) groups that exist."""
        return self.real.sum(1)

    def spread(self, values: Tensor, row: Tensor | None = None) -> Tensor:
        """(..., R, g) -> (..., R, n): every unit gets its group's value; `row` (R,) are the rows, None for all."""
        if self.member is None:
            return values
        if self.member.dim() == 1:
            return values[..., self.member]
        member = self.member if row is None else self.member[row]
        return values.gather(-1, member.expand(*values.shape[:-1], -1))

    def order(self, batch: Batch, row: Tensor, number: Tensor) -> Tensor:
        """(k, R, g): ranks of the groups in a random order per row and `number` (k, R); absent groups come last."""
        random_values = uniform(
            fold(batch.rows.key[row].expand(number.shape).flatten(), number.flatten()), self.real.shape[1]
        )
        random_values = random_values.view(*number.shape, -1) + 2 * ~self.real[row]
        return random_values.argsort(-1).argsort(-1)


def feature_groups(batch: Batch, cell: int = 0, segments: str = GRID) -> FeatureGroups:
    """The groups: single units on a line; on a grid cells of `cell` x `cell` pixels, or super-pixels.

    cell: 0 for 14 along the longer side. segments: `grid`, or how super-pixels are found (`super_pixels`). Groups of
    several parts follow each other in the order of the parts.
    """
    if cell < 0:
        raise OptionError(f"the side of a cell is a number of pixels, or 0 for the default, not {cell}")
    if segments != GRID:
        if batch.grid is None and batch.pixel_grid is not None:
            raise OptionError(
                f"segments={segments} divides an image alone; beside a text, pixels are grouped in cells: use "
                "segments=grid, and cell=N for cells of N x N pixels"
            )
        if batch.grid is None:
            raise OptionError(f"segments={segments} divides an image; the units of this input are kept one by one")
        return _super_pixel_groups(batch, segments, math.prod(_cell_shape(batch.grid, cell)[1]))
    if batch.pixel_grid is None:
        return FeatureGroups(None, batch.rows.real, None)
    members: list[Tensor] = []
    shape, first = (0, 0), 0
    for unit_part in batch.parts:
        if unit_part.grid is None:
            member = torch.arange(unit_part.count, device=batch.device)
        else:
            member, shape = _cells(unit_part.grid, cell, batch.device)
        members.append(first + member)
        first += unit_part.count if unit_part.grid is None else shape[0] * shape[1]
    member = torch.cat(members)
    real = torch.zeros(batch.size[0], first, device=batch.device, dtype=batch.dtype)
    return FeatureGroups(member, real.index_add(1, member, batch.rows.real.to(batch.dtype)) > 0, shape)


def _cells(grid: tuple[int, int], cell: int, device: torch.device) -> tuple[Tensor, tuple[int, int]]:
    """(pixels,) the cell of every pixel, and the rows and columns of cells."""
    side, shape = _cell_shape(grid, cell)
    rows, columns = (torch.arange(size, device=device) // side for size in grid)
    return (rows[:, None] * shape[1] + columns).flatten(), shape


def _cell_shape(grid: tuple[int, int], cell: int) -> tuple[int, tuple[int, int]]:
    """The side of a cell in pixels, and the rows and columns of cells."""
    height, width = grid
    side = cell or -(-max(height, width) // CELLS)
    return side, (-(-height // side), -(-width // side))


def _super_pixel_groups(batch: Batch, segments: str, count: int) -> FeatureGroups:
    """The super-pixels of every row, found once for rows that differ only in their baseline."""
    distinct = torch.arange(batch.distinct, device=batch.device)
    images = batch.input_embeddings(distinct)
    if images.dim() != 4 or batch.grid is None:
        raise OptionError(f"segments={segments} divides images; for spectrograms and sounds use segments=grid")
    labels = super_pixels(images, batch.rows.real[distinct].view(-1, *batch.grid), segments, count)
    member = labels.flatten(1)[batch.rows.mask]
    number = torch.arange(int(member.max()) + 1, device=batch.device)
    return FeatureGroups(member, number <= member.amax(1, keepdim=True), None)
