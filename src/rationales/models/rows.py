"""Where rows come from, and how they are packed so that they go through a model together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from rationales.models.contrast import Contrast

PADDING = 0.1


@dataclass(frozen=True, eq=False)
class Rows:
    """Where each row comes from. All tensors lie on the batch's device."""

    input: Tensor  # (S,) index of the input a row belongs to
    mask: Tensor  # (S,) index of the mask a row uses; rows of one segment under several views share it
    view: Tensor  # (S,) index of the view
    key: Tensor  # (S,) int64 made from the input's content and the segment: the source of all randomness
    unit: Tensor  # (S, n) index of the unit within its input, 0 where not real
    real: Tensor  # (S, n) bool: a unit, not padding
    position: Tensor  # (S, n) or (S, n, dimensions) where the unit stands
    blend: Tensor  # (S, n) weights with which rows are put together again; over all rows of a unit they sum to 1
    contrast: Contrast | None = None  # where one class is explained against another: the two of each row

    def take(self, index: Tensor, width: int) -> Rows:
        """The rows `index` with inputs and masks numbered anew, cut to `width` units."""
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
        """Of the `views` rows of each mask only one, `index` (M,); the first M rows hold one of each mask."""
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
    """Gaussian noise on what the model reads; drawn where it is needed, so that it never has to be stored."""

    scale: float  # standard deviation, relative to the root mean square of the row's embedding
    key: Tensor  # (K * S,) int64, one for every row of every variant


@dataclass(frozen=True, eq=False)
class Packing:
    """Rows of unequal length, one after the other."""

    ends: Tensor  # (R + 1,) int32: 0, and after how many tokens each row ends
    total: int  # tokens of all rows
    longest: int

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> Packing:
        """From the rows' lengths."""
        ends = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)
        return cls(ends, sum(lengths), max(lengths))

    def places(self, size: int) -> Tensor:
        """(total,): where each token stands among rows that are filled up to `size`; nothing is read back."""
        rows = torch.arange(len(self.ends) - 1, device=self.ends.device)
        row = torch.repeat_interleave(rows, self.ends.diff(), output_size=self.total)
        return torch.arange(self.total, device=self.ends.device) + row * size - self.ends[row]


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows that go through the model together."""

    where: Tensor  # (R,) their places among the K * S rows of all variants
    row: Tensor  # (R,) their rows
    view: int
    size: int  # cost of the longest
    full: bool = False  # known to be the cost of all
    packing: Packing | None = None  # of rows that are known not to be full


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that are asked about many variants."""

    row: Tensor  # (R,) their rows
    view: int
    lengths: Sequence[int]  # their costs
    variants: int  # how many of them fit at once

    @property
    def size(self) -> int:
        """Cost of the longest."""
        return max(self.lengths)

    @property
    def full(self) -> bool:
        """Whether it is the cost of all."""
        return min(self.lengths) == self.size

    def piece(self, variants: int) -> Piece:
        """So many variants of these rows as one piece, all rows of a variant together."""
        row = self.row.repeat(variants)
        packing = None if self.full else Packing.of(variants * list(self.lengths), row.device)
        return Piece(torch.arange(len(row), device=row.device), row, self.view, self.size, self.full, packing)


def pack(cost: Sequence[int], budget: int, enough: int | None = None) -> Iterator[list[int]]:
    """Groups of row numbers, longest rows first: (rows in the group) x (its longest row) stays within budget.

    A group of cost `enough` takes no row that would be padded by more than `PADDING` of the longest, and none at all
    that would be padded if no other is.
    """
    order = sorted(range(len(cost)), key=lambda row: -cost[row])
    piece: list[int] = []
    for row in order:
        if piece:
            longest = cost[piece[0]]
            full = longest * (len(piece) + 1) > budget
            least = longest if cost[piece[-1]] == longest else (1 - PADDING) * longest
            short = enough is not None and longest * len(piece) >= enough and cost[row] < least
            if full or short:
                yield piece
                piece = []
        piece.append(row)
    if piece:
        yield piece
