"""Units that are kept or replaced together: each word for itself, the pixels of a picture cell by cell."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.models.batch import Batch
from rationales.models.randomness import fold, uniform

CELLS = 14  # along the longer side of a picture, unless told otherwise: 16 x 16 pixels each at 224


@dataclass(frozen=True, eq=False)
class Players:
    """g groups of units in each row, padded on the right or where a picture has nothing but padding."""

    member: Tensor | None  # (n,) the group of every unit; None: each unit is its own
    real: Tensor  # (S, g) groups that exist
    shape: tuple[int, int] | None  # rows and columns of cells when units lie on a grid

    @property
    def count(self) -> Tensor:
        """(S,) groups that exist."""
        return self.real.sum(1)

    def spread(self, values: Tensor) -> Tensor:
        """(..., g) -> (..., n): every unit has its group's value."""
        return values if self.member is None else values[..., self.member]

    def order(self, batch: Batch, row: Tensor, number: Tensor) -> Tensor:
        """(k, R, g): the place of each group in a random order, one for each (row, number (k, R)); groups that do not
        exist come last."""
        drawn = uniform(fold(batch.rows.key[row].expand(number.shape).flatten(), number.flatten()), self.real.shape[1])
        drawn = drawn.view(*number.shape, -1) + 2 * ~self.real[row]
        return drawn.argsort(-1).argsort(-1)


def players(batch: Batch, every: int = 0) -> Players:
    """Who plays: units on a line; cells of `every` x `every` pixels on a grid (0: 14 along the longer side)."""
    if every < 0:
        raise OptionError(f"every must be the side of a cell in pixels, or 0, not {every}")
    if batch.grid is None:
        return Players(None, batch.rows.real, None)
    height, width = batch.grid
    side = every or -(-max(height, width) // CELLS)
    shape = (-(-height // side), -(-width // side))
    rows, columns = (torch.arange(size, device=batch.device) // side for size in (height, width))
    member = (rows[:, None] * shape[1] + columns).flatten()
    real = torch.zeros(batch.size[0], shape[0] * shape[1], device=batch.device, dtype=batch.dtype)
    return Players(member, real.index_add(1, member, batch.rows.real.to(batch.dtype)) > 0, shape)
