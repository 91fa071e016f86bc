"""Rows of units that can be kept or replaced, and what a model says of them.

A *row* is one segment of one input under one view (a baseline, or one of several models explained together). Rows that
differ only in their view share one *mask*: S rows, M masks, M <= S. Tensors over units are (rows, n), padded on the
right; `real` says which units exist.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rationales.errors import ModelError
from rationales.models.contrast import Contrast
from rationales.models.heads import Head, class_logits, probabilities
from rationales.models.randomness import normal
from rationales.models.rows import Block, Noise, Packing, Piece, Rows, pack
from rationales.models.threads import limited_threads

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Batch", "Block", "Noise", "Packing", "Piece", "Rows", "pack"]

SMALLER = 1.8  # times as much fits in half precision: all that is stored for a backward pass but some statistics
T = TypeVar("T")


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
    plans: dict[tuple[int, int, int], tuple[list[Piece], Tensor]] = field(default_factory=dict, init=False, repr=False)
    _work: int | None = field(default=None, init=False, repr=False)

    # -- what a kind of model has to say ------------------------------------------------------------------------

    @abstractmethod
    def cost(self) -> list[int]:
        """Size of each row (tokens, pixels): rows are packed by it so that they fit `budget`."""

    def positions(self) -> list[int]:
        """How often each row's pass uses the model's weights: its tokens, its patches."""
        return self.cost()

    def weights(self) -> int:
        """How many weights each position of a row is multiplied with; 0 where that is not known."""
        return 0

    @abstractmethod
    def forward(self, piece: Piece, keep: Tensor, noise: Noise | None) -> Tensor:
        """Logits (R, classes) of the piece's rows under keep (R, n); `noise.key` is (R,)."""

    @abstractmethod
    def take(self, inputs: Sequence[int]) -> Self:
        """The batch of these inputs alone; they are given in rising order, and stay in it."""

    def copied(self, dtype: torch.dtype, apart: bool = False) -> Batch:
        """The same rows through copies of the modules whose weights are of another precision.

        `apart`: where the kind of model knows how, rows of unequal length are kept apart by other means than masks.
        """
        raise NotImplementedError(f"{type(self).__name__} has no copies")

    def seen_on(self, view: Tensor) -> Batch:
        """The batch of the same inputs on one baseline each, `view` (inputs,); only where views are baselines."""
        raise ModelError("several networks explained together are looked at together")

    # -- and where gradients at its input, or its inside, are asked for -------------------------------------------

    enough: ClassVar[dict[str, int]] = {}  # by device: a piece of this cost is not made fuller by much shorter rows
    apart: ClassVar[bool] = True  # views are different networks, so that rows of two views cannot go through together
    reads: ClassVar[int] = 0  # axes of what one row reads; 0: nothing that gradients could be taken of

    @property
    def modules(self) -> Sequence[nn.Module]:
        """The modules that are explained."""
        raise _closed()

    @property
    def distinct(self) -> int:
        """How many of the first rows differ while nothing is replaced: M where views are baselines, else S."""
        return self.size[0]

    def embedded(self, rows: Tensor | None = None) -> Tensor:
        """(R, *read): what these rows, or all, read where gradients make sense: word embeddings, pixels."""
        raise _closed()

    def emptied(self, rows: Tensor | None = None) -> Tensor:
        """(R, *read): the same with every unit replaced by its row's baseline, all else as it is."""
        raise _closed()

    def inside(self, rows: Tensor | None = None) -> Tensor:
        """(R, *read), or 1 where an axis does not matter: what of it belongs to a unit."""
        raise _closed()

    def forward_from(self, piece: Piece, embedded: Tensor) -> Tensor:
        """Logits (R, classes) of the piece's rows where the model reads `embedded` (R, *read) instead."""
        raise _closed()

    def to_units(self, values: Tensor, reduce: str, rows: Tensor | None = None) -> Tensor:
        """(R, *read) -> (R, n): the `sum` over each unit, or its L1 `norm`; 0 where there is no unit."""
        raise _closed()

    def drawn(self, key: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """(K,) keys -> (K, *shape of what a row reads): standard normal numbers, none of them changed by padding."""
        return normal(key, shape, dtype)

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

        Work is cut into pieces that fit memory; with gradients, pieces beyond what it holds are run again in the
        backward pass instead of being stored. Out of memory halves the pieces and goes on.
        """
        variants = keep.shape[0] if keep.dim() == 3 else 1
        flat = keep.reshape(variants * self.size[0], self.size[1])
        if keep.requires_grad:  # threads are chosen where the backward pass is run, too
            result = self.fit(lambda: self._run(flat, variants, noise))
        else:
            with self.threads(variants):
                result = self.fit(lambda: self._run(flat, variants, noise))
        return result.reshape(*keep.shape[:-1], self.classes)

    def threads(self, variants: int = 1) -> AbstractContextManager[None]:
        """As many threads inside the block as one pass of all rows, or so many variants of it, is worth."""
        return limited_threads(variants * self.work()) if self.device.type == "cpu" else nullcontext()

    def work(self) -> int:
        """About how many multiplications a pass of all rows takes: each weight is used once at each position."""
        if self._work is None:
            self._work = self.weights() * sum(self.positions())
        return self._work

    def logits_from(self, embedded: Tensor) -> Tensor:
        """embedded (R, *read), or (K, R, *read) for K variants, of the first R rows -> logits (..., R, classes).

        R is S or `distinct`. Differentiable, and cut into pieces as `logits` is; a method that wants nothing but slopes
        asks `probing.slopes`, which runs no piece twice.
        """
        lead = embedded.shape[: embedded.dim() - self.reads]
        flat = embedded.flatten(0, len(lead) - 1)
        variants = lead[0] if len(lead) == 2 else 1
        return self.fit(lambda: self._pieces(flat, variants, lead[-1], self.forward_from)).reshape(*lead, self.classes)

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
        def forward(piece: Piece, keep: Tensor) -> Tensor:
            return self.forward(piece, keep, None if noise is None else Noise(noise.scale, noise.key[piece.where]))

        return self._pieces(flat, variants, self.size[0], forward)

    def _pieces(self, flat: Tensor, variants: int, rows: int, forward: Callable[[Piece, Tensor], Tensor]) -> Tensor:
        """(K * rows, classes): piece by piece, run again in the backward pass what memory does not hold."""
        pieces, order = self.plan(variants, rows)
        stored = len(pieces) if not (torch.is_grad_enabled() and flat.requires_grad) else self._stored(pieces)
        parts: list[Tensor] = []
        for number, piece in enumerate(pieces):
            given = flat[piece.where]
            if number < stored:
                parts.append(forward(piece, given))
            else:
                parts.append(checkpoint(forward, piece, given, use_reentrant=False, preserve_rng_state=False))
        return torch.cat(parts)[order]

    def _stored(self, pieces: Sequence[Piece]) -> int:
        """How many of the first pieces memory holds for the backward pass, beside one that is run again."""
        size = [piece.size * len(piece.where) for piece in pieces]
        held = [0, *accumulate(size)]
        fitting = (count for count in range(len(size) + 1) if held[count] + max(size[count:], default=0) <= self.budget)
        return max(fitting, default=0)

    def plan(self, variants: int, rows: int) -> tuple[list[Piece], Tensor]:
        """The pieces for so many variants of the first rows, and where each row of the result is found in them."""
        wanted = (variants, rows, self.budget)
        if wanted not in self.plans:
            cost, view = self.cost(), self.rows.view.tolist() if self.apart else [0] * self.size[0]
            pieces: list[Piece] = []
            for which in range(max(view) + 1):
                places = [place for place in range(variants * rows) if view[place % rows] == which]
                for group in pack([cost[place % rows] for place in places], self.budget, self._enough):
                    where = torch.tensor([places[member] for member in group], device=self.device)
                    size = [cost[places[member] % rows] for member in group]
                    packing = None if min(size) == max(size) else Packing.of(size, self.device)
                    pieces.append(Piece(where, where % rows, which, max(size), packing is None, packing))
            self.plans[wanted] = (pieces, torch.argsort(torch.cat([piece.where for piece in pieces])))
        return self.plans[wanted]

    def budget_in(self, dtype: torch.dtype) -> int:
        """The budget where what is stored for a backward pass is of another precision."""
        return int(SMALLER * self.budget) if dtype.itemsize < self.dtype.itemsize else self.budget

    def held(self, cost: Sequence[int]) -> int:
        """What rows of these costs take together, filled up as they are in pieces."""
        return sum(cost[group[0]] * len(group) for group in pack(cost, self.budget, self._enough))

    @property
    def _enough(self) -> int | None:
        return self.enough.get(self.device.type)

    def blocks(self, rows: int | None = None, weight: int = 1) -> Iterator[Block]:
        """The first rows, or all, in blocks that fit `budget`, longest first, each with room for some variants.

        For work that adds up over many variants: all variants of a block are done before the next, in a fixed order.
        `weight`: how many rows of the model are run for one.
        """
        cost, count = self.cost(), self.size[0] if rows is None else rows
        view = self.rows.view[:count].tolist() if self.apart else [0] * count
        for which in range(max(view) + 1):
            own = [row for row, seen in enumerate(view) if seen == which]
            for group in pack([weight * cost[row] for row in own], self.budget, self._enough):
                chosen = [own[member] for member in group]
                size = [cost[number] for number in chosen]
                room = max(1, self.budget // (weight * max(size) * len(group)))
                yield Block(torch.tensor(chosen, device=self.device), which, size, room)

    def class_logits(self, piece: Piece, outputs: Tensor) -> Tensor:
        """(R, outputs) as the model gives them -> (R, classes) on the batch's device, contrasted where rows are."""
        outputs = outputs.to(device=self.device, dtype=self.dtype)
        contrast = self.rows.contrast
        return class_logits(self.head, outputs) if contrast is None else contrast.logits(piece.row, outputs)

    def contrasted(self, target: Tensor, against: Tensor) -> Self:
        """The same rows with two classes: each input's `target` (class `CHOSEN`) and `against`, (inputs,) both.

        Whatever is asked of it (logits, probabilities, gradients) is about the log-odds of the two alone.
        """
        pair = torch.stack([target, against], 1)[self.rows.input]
        rows = replace(self.rows, contrast=Contrast(pair, self.head, self.classes))
        return replace(self, rows=rows, head=Head.SIGMOID, classes=2)

    def uncontrasted(self) -> Self:
        """The same rows with all classes of the model."""
        contrast = self.rows.contrast
        if contrast is None:
            return self
        return replace(self, rows=replace(self.rows, contrast=None), head=contrast.head, classes=contrast.classes)

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

    def gather(self, values: Tensor) -> list[Tensor]:
        """(S, n) per row -> for each input its (units,) values, overlapping rows blended linearly."""
        rows = self.rows
        lengths = torch.zeros(self.inputs, dtype=torch.long, device=self.device)
        last = (rows.unit * rows.real).amax(1) if self.grid is None else rows.unit.amax(1)  # a grid may end in padding
        lengths.scatter_reduce_(0, rows.input, last + 1, "amax")
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


def _closed() -> ModelError:
    return ModelError(
        "this kind of model reads nothing that gradients could be taken of; use occlusion or shapley-sampling"
    )
