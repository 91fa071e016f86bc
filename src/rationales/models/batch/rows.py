"""The origin of rows, and how rows are packed to go through a model together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from rationales.models.batch.contrast import Contrast

MAX_PADDING_SHARE = 0.1  # of the longest row, in groups of sufficient cost


@dataclass(frozen=True, eq=False)
class Rows:
    """The origin of each row. All tensors lie on the batch's device."""

    input: Tensor  # (S,) index of the input a row belongs to
    mask: Tensor  # (S,) index of the mask a row uses; rows of one segment under several views share it
    view: Tensor  # (S,) index of the view
    key: Tensor  # (S,) int64 from the seed, the input's content and the segment: the source of all randomness
    unit: Tensor  # (S, n) index of the unit within its input, 0 where not real
    real: Tensor  # (S, n) bool: a unit, not padding
    position: Tensor  # (S, n) or (S, n, dimensions): coordinates of the units
    blend: Tensor  # (S, n) weights with which rows are blended; they sum to 1 over all rows of a unit
    contrast: Contrast | None = None  # if a class is explained against another: the two classes of each row

    def take(self, index: Tensor, width: int) -> Rows:
        """The rows `index`, cut to `width` units, with inputs and masks renumbered."""
        return Rows(
            input=torch.unique(self.input[index], return_inverse=True)[1],
            mask=torch.unique(self.mask[index], return_inverse=True)[1],
            view=self.view[index],
            key=self.key[index],
            unit=self.unit[index, :width],
            real=self.real[index, :width],
            position=self.position[index, :width],
            blend=self.blend[index, :width],
            contrast=None if self.contrast is None else self.contrast.take(index),
        )

    def on_one_view(self, index: Tensor, views: int) -> Rows:
        """One of the `views` rows of each mask, `index` (M,); the first M rows hold one of each mask."""
        masks = len(index)
        return Rows(
            input=self.input[index],
            mask=self.mask[index],
            view=torch.zeros_like(index),
            key=self.key[index],
            unit=self.unit[:masks],
            real=self.real[:masks],
            position=self.position[:masks],
            blend=self.blend[:masks] * views,
            contrast=None if self.contrast is None else self.contrast.take(index),
        )


@dataclass(frozen=True, eq=False)
class Noise:
    """Gaussian noise on the model's input; generated from keys when needed and never stored."""

    scale: float  # standard deviation, relative to the root mean square of the row's embedding
    key: Tensor  # (K * S,) int64: a key for every row of every variant


@dataclass(frozen=True, eq=False)
class Packing:
    """Rows of unequal length as one sequence without padding."""

    ends: Tensor  # (R + 1,) int32: 0 and the cumulative lengths
    total: int  # tokens of all rows
    longest: int

    @classmethod
    def from_lengths(cls, lengths: Sequence[int], device: torch.device) -> Packing:
        """From the rows' lengths."""
        ends = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)
        return cls(ends, sum(lengths), max(lengths))

    def token_indices(self, size: int) -> Tensor:
        """(total,): the index of each token among rows padded to `size`; no synchronisation with the device."""
        rows = torch.arange(len(self.ends) - 1, device=self.ends.device)
        row = torch.repeat_interleave(rows, self.ends.diff(), output_size=self.total)
        return torch.arange(self.total, device=self.ends.device) + row * size - self.ends[row]


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows that go through the model together."""

    where: Tensor  # (R,) their indices among the K * S rows of all variants
    row: Tensor  # (R,) their indices in the batch
    view: int
    size: int  # cost of the longest
    full: bool = False  # all rows are known to have this cost
    packing: Packing | None = None  # of rows that are known to have different costs


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of which many variants go through the model."""

    row: Tensor  # (R,) their indices in the batch
    view: int
    lengths: Sequence[int]  # their costs
    variants: int  # number of variants that fit at once

    @property
    def size(self) -> int:
        """Cost of the longest."""
        return max(self.lengths)

    @property
    def full(self) -> bool:
        """Whether all rows have this cost."""
        return min(self.lengths) == self.size

    def piece(self, variants: int) -> Piece:
        """This many variants of these rows as one piece, variant by variant."""
        row = self.row.repeat(variants)
        packing = None if self.full else Packing.from_lengths(variants * list(self.lengths), row.device)
        return Piece(torch.arange(len(row), device=row.device), row, self.view, self.size, self.full, packing)


def pack(cost: Sequence[int], budget: int, sufficient_cost: int | None = None) -> Iterator[list[int]]:
    """Groups of row indices, longest rows first: (rows in the group) x (its longest row) stays within budget.

    A group of cost `sufficient_cost` takes no row whose padding would exceed `MAX_PADDING_SHARE` of the longest, and no
    padded row at all if all its rows have the same length.
    """
    order = sorted(range(len(cost)), key=lambda row: -cost[row])
    piece: list[int] = []
    for row in order:
        if piece:
            longest = cost[piece[0]]
            full = longest * (len(piece) + 1) > budget
            shortest_allowed = longest if cost[piece[-1]] == longest else (1 - MAX_PADDING_SHARE) * longest
            sufficient = sufficient_cost is not None and longest * len(piece) >= sufficient_cost
            if full or (sufficient and cost[row] < shortest_allowed):
                yield piece
                piece = []
        piece.append(row)
    if piece:
        yield piece
