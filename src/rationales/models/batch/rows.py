"""The rows of a batch: windows of long inputs, their origin, parts and random keys, and how they are packed together.

Random numbers are counter-based: each is a function of a key and a position, not of earlier numbers. An input therefore
gets the same numbers alone, in any batch, in any order and with any padding, and no global state is used. The mixing
function is the finaliser of splitmix64 (Steele, Lea and Flood 2014), on int64 tensors, which wrap.
"""

from __future__ import annotations

import functools
import hashlib
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from rationales.models.batch.contrast import Contrast

MAX_PADDING_SHARE = 0.1  # of the longest row, in groups of sufficient cost
HASHED_COLUMNS = 64  # at once, when equal rows are looked for
PADDING = -1  # in place of the stretch of a unit that does not exist


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

    @property
    def stretch(self) -> Tensor:
        """(S, n): for units on a line, number of the stretch in which all are next to each other; `PADDING` for none.

        A text is one stretch, a pair of texts has two: positions jump by more than 1 at the border.
        """
        borders = self.position.diff(dim=1) > 1
        return torch.where(self.real, pad(borders.long().cumsum(1), (1, 0)), PADDING)

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


def pack(cost: Sequence[int] | np.ndarray, budget: int, sufficient_cost: int | None = None) -> Iterator[list[int]]:
    """Groups of row indices, longest rows first: (rows in the group) x (its longest row) stays within budget.

    A group of cost `sufficient_cost` takes no row whose padding would exceed `MAX_PADDING_SHARE` of the longest, and no
    padded row at all if all its rows have the same length.
    """
    costs = np.asarray(cost)
    order = np.argsort(-costs, kind="stable")
    falling = -costs[order]  # rising numbers, as searchsorted needs them
    begin = 0
    while begin < len(order):
        longest = float(-falling[begin])
        end = begin + max(1, int(budget // longest)) if longest > 0 else len(order)
        if sufficient_cost is not None and longest > 0:
            shorter = int(np.searchsorted(falling, -longest, side="right"))  # first row that would be padded
            enough = begin + max(1, math.ceil(sufficient_cost / longest))
            allowed = -(1 - MAX_PADDING_SHARE) * longest
            much_shorter = max(enough, int(np.searchsorted(falling, allowed, side="right")))
            end = min(end, shorter if enough <= shorter else much_shorter)
        yield order[begin:end].tolist()
        begin = end


def distinct_rows(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """(U,) indices of the first of all equal rows, and (E,) for every row the number of its equal among these.

    matrix: (E, columns) whole numbers. Rows are compared by a hash of 64 bits, then exactly; two different rows of one
    hash, which hardly ever happens, send all to the much slower `torch.unique`.
    """
    columns = torch.arange(matrix.shape[1], device=matrix.device)
    factors = mix(columns + 1) | 1
    hashes = torch.zeros(len(matrix), dtype=torch.int64, device=matrix.device)
    for some_columns in torch.split(columns, HASHED_COLUMNS):
        hashes += (matrix[:, some_columns].long() * factors[some_columns]).sum(1)
    _, inverse = torch.unique(mix(hashes), return_inverse=True)
    first = _first_of_each(inverse)
    if not bool((matrix[first[inverse]] == matrix).all()):
        inverse = torch.unique(matrix, dim=0, return_inverse=True)[1]
        first = _first_of_each(inverse)
    return first, inverse


def _first_of_each(number: Tensor) -> Tensor:
    """(E,) numbers from 0 on, each at least once -> (U,) the index at which each stands first."""
    count = int(number.max()) + 1 if len(number) else 0
    index = torch.arange(len(number), device=number.device)
    return torch.full((count,), len(number), device=number.device).scatter_reduce_(0, number, index, "amin")


@dataclass(frozen=True)
class Window:
    """Units first..last-1 of an input and their weights when windows are blended; a unit's weights sum to 1."""

    first: int
    last: int
    weight: tuple[float, ...]


def windows(lengths: Sequence[int], capacity: int, overlap: int) -> list[Window]:
    """Divide units of `lengths` tokens into windows of at most `capacity` tokens that share about `overlap` tokens.

    Windows have about equal length, so that each has enough context and a batch has little padding. No unit may be
    longer than the capacity.
    """
    if max(lengths, default=0) > capacity:
        raise ValueError(f"a unit of {max(lengths)} tokens in windows of {capacity}")
    ends = [0, *accumulate(lengths)]  # tokens before each unit, and all
    if ends[-1] <= capacity:
        return [Window(0, len(lengths), (1.0,) * len(lengths))]
    overlap = min(overlap, capacity // 4)
    bounds: list[tuple[int, int]] = []
    first = 0
    while True:
        remaining = ends[-1] - ends[first]
        number = max(-(-(remaining - overlap) // (capacity - overlap)), 1)  # windows still needed
        even = -(-(remaining + (number - 1) * overlap) // number)
        last = min(bisect_left(ends, ends[first] + even), bisect_right(ends, ends[first] + capacity) - 1)
        bounds.append((first, last))
        if last == len(lengths):
            return _weigh(bounds, len(lengths))
        max_shared = min(overlap, capacity - lengths[last])  # every window has at least one new unit
        first = min(last, max(first + 1, bisect_left(ends, ends[last] - max_shared)))


def _weigh(bounds: Sequence[tuple[int, int]], units: int) -> list[Window]:
    """In an overlap of m units the later window's weight rises as 1/(m+1), 2/(m+1), ... and the earlier one's falls."""
    raw = [np.ones(last - first) for first, last in bounds]
    for number in range(1, len(bounds)):
        first, end = bounds[number][0], bounds[number - 1][1]
        share = np.arange(1, end - first + 1) / (end - first + 1)
        raw[number][: end - first] *= share
        raw[number - 1][len(raw[number - 1]) - (end - first) :] *= 1 - share
    total = np.zeros(units)
    for (first, last), weights in zip(bounds, raw, strict=True):
        total[first:last] += weights
    return [
        Window(first, last, tuple((weights / total[first:last]).tolist()))
        for (first, last), weights in zip(bounds, raw, strict=True)
    ]


_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number
_FIRST = -4658895280553007687  # 0xBF58476D1CE4E5B9
_SECOND = -7723592293110705685  # 0x94D049BB133111EB


def content_key(seed: int, *content: str | bytes | int | None) -> int:
    """A signed 64-bit key from a seed and an input's content."""
    digest = hashlib.blake2b(repr((seed, content)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def mix(value: Tensor) -> Tensor:
    """int64 -> int64: every bit of the result depends on every bit of the value."""
    value = value * 1  # a copy: the steps below work in place
    value.bitwise_xor_(_shift(value, 30)).mul_(_FIRST)
    value.bitwise_xor_(_shift(value, 27)).mul_(_SECOND)
    return value.bitwise_xor_(_shift(value, 31))


def fold(key: Tensor, *numbers: int | Tensor) -> Tensor:
    """Keys derived for another purpose, step or variant; each of `numbers` is a scalar or (R,)."""
    for number in numbers:
        step = (number + 1) * _GOLDEN
        key = mix(key + (_wrapped(step) if isinstance(step, int) else step))
    return key


def uniform(key: Tensor, count: int) -> Tensor:
    """(R,) keys -> (R, count) float64 numbers in (0, 1)."""
    bits = _bits(key, count)
    return (_shift(bits, 12).double() + 0.5) * 2.0**-52  # 53 bits and a half would round up to 1


def normal(key: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """(R,) keys -> (R, *shape) standard normal numbers, from 65,536 equally likely quantiles (largest: 4.3).

    Four numbers of the last axis come from 64 bits, so that a number depends only on its key, its position and the size
    of the last axis.
    """
    rows, last = math.prod(shape[:-1]), shape[-1]
    quarter = (last + 3) // 4
    bits = _bits(key, rows * quarter).view(torch.int16).view(len(key), rows, quarter * 4)
    table_index = bits[..., :last].to(torch.int32).add_(1 << 15)
    table = _normal_quantiles(key.device, dtype)
    return table.index_select(0, table_index.reshape(-1)).view(len(key), *shape)


@functools.cache
def _normal_quantiles(device: torch.device, dtype: torch.dtype) -> Tensor:
    """Normal quantiles at the centres of 2^16 equal shares of probability."""
    share = (torch.arange(1 << 16, dtype=torch.float64) + 0.5) / (1 << 16)
    quantiles: Tensor = torch.special.ndtri(share)
    return quantiles.to(device=device, dtype=dtype)


def _bits(key: Tensor, count: int) -> Tensor:
    counter = torch.arange(1, count + 1, device=key.device, dtype=torch.int64) * _GOLDEN
    return mix(key[:, None] + counter)


def _wrapped(number: int) -> int:
    """The number as a signed 64-bit integer, wrapped around."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _shift(value: Tensor, bits: int) -> Tensor:
    """Logical right shift, without sign extension."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)
