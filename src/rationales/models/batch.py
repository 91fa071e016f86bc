"""Rows of units that can be kept or replaced, and what a model says of them.

A *row* is one segment of one input under one view (a baseline, or one of several models explained together). Rows that
differ only in their view share one *mask*: S rows, M masks, M <= S. Tensors over units are (rows, n), padded on the
right; `real` says which units exist.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rationales.models.heads import Head, probabilities

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


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
        )


@dataclass(frozen=True, eq=False)
class Noise:
    """Gaussian noise on what the model reads; drawn where it is needed, so that it never has to be stored."""

    scale: float  # standard deviation, relative to the root mean square of the row's embedding
    key: Tensor  # (K * S,) int64, one for every row of every variant


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows that go through the model together."""

    where: Tensor  # (R,) their places among the K * S rows of all variants
    row: Tensor  # (R,) their rows
    view: int
    size: int  # cost of the longest


@dataclass(eq=False)
class Batch(ABC):
    """S rows x n units; `logits(keep)` is differentiable in keep and exact for hard 0 and 1."""

    rows: Rows
    inputs: int  # how many inputs the rows belong to
    views: int  # how many views every segment has; rows stand in the order of views, then of masks
    classes: int
    head: Head
    grid: tuple[int, int] | None  # height and width when units are the pixels of a grid, row by row
    budget: int  # what is run through the model at once: rows x cost of the longest (see `cost`)
    _plans: dict[tuple[int, int], tuple[list[Piece], Tensor]] = field(default_factory=dict, init=False, repr=False)

    # -- what a kind of model has to say ------------------------------------------------------------------------

    @abstractmethod
    def cost(self) -> list[int]:
        """Size of each row (tokens, pixels): rows are packed by it so that they fit `budget`."""

    @abstractmethod
    def forward(self, piece: Piece, keep: Tensor, noise: Noise | None) -> Tensor:
        """Logits (R, classes) of the piece's rows under keep (R, n); `noise.key` is (R,)."""

    @abstractmethod
    def take(self, inputs: Sequence[int]) -> Self:
        """The batch of these inputs alone; they are given in rising order, and stay in it."""

    # -- what every batch can do --------------------------------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        """(S, n)."""
        rows, units = self.rows.real.shape
        return rows, units

    @property
    def masks(self) -> int:
        """M, the number of masks; the first M rows are theirs, in order, under the first view."""
        return self.size[0] // self.views

    @property
    def device(self) -> torch.device:
        """Where keeps are expected and logits are given."""
        return self.rows.real.device

    @property
    def dtype(self) -> torch.dtype:
        """Of keeps, scores and logits."""
        return self.rows.blend.dtype

    def zeros(self) -> Tensor:
        """(S, n) zeros."""
        return torch.zeros(self.size, device=self.device, dtype=self.dtype)

    def ones(self) -> Tensor:
        """(S, n) ones: the input as it is."""
        return torch.ones(self.size, device=self.device, dtype=self.dtype)

    def logits(self, keep: Tensor, noise: Noise | None = None) -> Tensor:
        """keep (S, n) or (K, S, n) in [0, 1] -> logits (..., S, classes).

        Work is cut into pieces that fit memory; with gradients and more than one piece, pieces are run again in the
        backward pass instead of being stored. Out of memory halves the pieces and goes on.
        """
        variants = keep.shape[0] if keep.dim() == 3 else 1
        flat = keep.reshape(variants * self.size[0], self.size[1])
        result = self.fit(lambda: self._run(flat, variants, noise))
        return result.reshape(*keep.shape[:-1], self.classes)

    def fit(self, work: Callable[[], T]) -> T:
        """Do `work`; when memory runs out, do it again in smaller pieces. The result does not depend on the pieces."""
        smallest = max(self.cost())
        while True:
            try:
                return work()
            except torch.OutOfMemoryError:
                if self.budget <= smallest:
                    raise
                self.budget = max(self.budget // 2, smallest)
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()

    def _run(self, flat: Tensor, variants: int, noise: Noise | None) -> Tensor:
        pieces, order = self._plan(variants)
        again = len(pieces) > 1 and torch.is_grad_enabled() and flat.requires_grad
        parts: list[Tensor] = []
        for piece in pieces:
            own = None if noise is None else Noise(noise.scale, noise.key[piece.where])
            if again:
                parts.append(
                    checkpoint(
                        self.forward, piece, flat[piece.where], own, use_reentrant=False, preserve_rng_state=False
                    )
                )
            else:
                parts.append(self.forward(piece, flat[piece.where], own))
        return torch.cat(parts)[order]

    def _plan(self, variants: int) -> tuple[list[Piece], Tensor]:
        """The pieces for so many variants, and where each row of the result is found in them."""
        wanted = (variants, self.budget)
        if wanted not in self._plans:
            rows, cost, view = self.size[0], self.cost(), self.rows.view.tolist()
            pieces: list[Piece] = []
            for which in range(self.views):
                places = [row for row in range(variants * rows) if view[row % rows] == which]
                for group in pack([cost[place % rows] for place in places], self.budget):
                    where = torch.tensor([places[member] for member in group], device=self.device)
                    pieces.append(Piece(where, where % rows, which, max(cost[places[m] % rows] for m in group)))
            self._plans[wanted] = (pieces, torch.argsort(torch.cat([piece.where for piece in pieces])))
        return self._plans[wanted]

    def probabilities(self, logits: Tensor) -> Tensor:
        """Class probabilities of logits (..., S, classes), row by row."""
        return probabilities(self.head, logits)

    def pool(self, values: Tensor) -> Tensor:
        """(..., S, C) -> (..., inputs, views, C): the mean over an input's segments, each view apart."""
        views = self.views
        group = self.rows.input * views + self.rows.view
        shape = (*values.shape[:-2], self.inputs * views, values.shape[-1])
        count = torch.zeros(shape[-2], device=values.device, dtype=values.dtype)
        count.index_add_(0, group, torch.ones_like(group, dtype=values.dtype))
        total = torch.zeros(shape, device=values.device, dtype=values.dtype).index_add(-2, group, values)
        return (total / count[:, None]).reshape(*values.shape[:-2], self.inputs, views, values.shape[-1])

    def predict(self, keep: Tensor | None = None) -> Tensor:
        """(..., inputs, classes): class probabilities, segments and views averaged."""
        with torch.no_grad():
            logits = self.logits(self.ones() if keep is None else keep)
            return self.pool(self.probabilities(logits)).mean(-2)

    def score(self, target: Tensor, keep: Tensor | None = None) -> Tensor:
        """(..., S): each row's probability of its input's target class; `target` is (inputs,)."""
        logits = self.logits(self.ones() if keep is None else keep)
        index = target[self.rows.input].expand(logits.shape[:-1]).unsqueeze(-1)
        return self.probabilities(logits).gather(-1, index).squeeze(-1)

    def windows(self, width: int, stride: int, at_once: int = 64) -> Iterator[Tensor]:
        """Streams (K, S, n) of 0/1: windows of `width` neighbouring units, every `stride` units.

        Each row has the windows it would have alone; where it has no more, nothing is hidden in it.
        """
        units = torch.arange(self.size[1], device=self.device)
        last = (self.rows.real.sum(1) - width).clamp(min=0)  # (S,) where a row's last full window starts
        last = -(-last // stride) * stride
        for start in torch.split(torch.arange(0, int(last.max()) + 1, stride, device=self.device), at_once):
            inside = (units >= start[:, None]) & (units < start[:, None] + width)  # (K, n)
            yield (inside[:, None, :] & self.rows.real & (start[:, None] <= last)[..., None]).to(self.dtype)

    def gather(self, values: Tensor) -> list[Tensor]:
        """(S, n) per row -> for each input its (units,) values, overlapping rows blended linearly."""
        rows = self.rows
        lengths = torch.zeros(self.inputs, dtype=torch.long, device=self.device)
        lengths.scatter_reduce_(0, rows.input, (rows.unit * rows.real).amax(1) + 1, "amax")
        first = torch.cumsum(lengths, 0) - lengths
        place = (rows.unit + first[rows.input][:, None])[rows.real]
        total = torch.zeros(int(lengths.sum()), device=self.device, dtype=values.dtype)
        total.index_add_(0, place, (values * rows.blend.to(values.dtype))[rows.real])
        return list(torch.split(total, lengths.tolist()))

    def spread(self, values: Sequence[Tensor]) -> Tensor:
        """The inverse of `gather`: one (units,) vector per input -> (S, n), 0 where there is no unit."""
        lengths = torch.tensor([len(value) for value in values], device=self.device)
        first = torch.cumsum(lengths, 0) - lengths
        flat = torch.cat([value.to(device=self.device, dtype=self.dtype) for value in values])
        place = (self.rows.unit + first[self.rows.input][:, None]).clamp(max=len(flat) - 1)
        return torch.where(self.rows.real, flat[place], torch.zeros((), device=self.device, dtype=self.dtype))


def pack(cost: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Groups of row numbers, longest rows first: (rows in the group) x (its longest row) stays within budget."""
    order = sorted(range(len(cost)), key=lambda row: -cost[row])
    piece: list[int] = []
    for row in order:
        if piece and cost[piece[0]] * (len(piece) + 1) > budget:
            yield piece
            piece = []
        piece.append(row)
    if piece:
        yield piece
