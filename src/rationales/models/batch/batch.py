"""Batch: rows of units that are kept or replaced, and the model's logits for them.

A *row* is one segment of one input under one view (a baseline, or one of several models explained together). Rows that
differ only in their view share one *mask*: S rows, M masks, M <= S. Tensors over units are (rows, n), padded on the
right; `real` marks the units that exist.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rationales.errors import ModelError, OptionError
from rationales.models.batch.contrast import Contrast
from rationales.models.batch.execution import counted_passes, limited_threads
from rationales.models.batch.rows import Block, Noise, Packing, Part, Piece, Rows, normal, pack, part_weights
from rationales.models.classes import Head, class_logits, probabilities

if TYPE_CHECKING:
    from typing_extensions import Self

HALF_PRECISION_CAPACITY = 1.8  # budget in half precision, relative to single: some statistics stay in single
NO_GRADIENTS = (
    "the model gives no gradients with respect to its input (it runs under no_grad, or rounds values); "
    "use a method that needs none: occlusion, shapley-sampling, kernel-shap or lime"
)
# modules that `check_gradients` need not run again, with the kinds of batches
_differentiable: WeakKeyDictionary[nn.Module, set[type]] = WeakKeyDictionary()
T = TypeVar("T")


@dataclass(eq=False)
class Batch(ABC):
    """S rows of n units; `logits(keep)` is differentiable in keep and exact for hard 0 and 1."""

    rows: Rows
    inputs: int  # number of inputs that the rows belong to
    views: int  # number of views of every segment; rows are ordered by view, then by mask
    classes: int
    head: Head
    grid: tuple[int, int] | None  # height and width if units are the pixels of a grid, row by row
    budget: int  # most that goes through the model at once: rows x cost of the longest (see `cost`)
    plans: dict[tuple[int, int, int], tuple[list[Piece], Tensor]] = field(default_factory=dict, init=False, repr=False)
    # (inputs, classes) probabilities of the baselines, where the model was asked before; derived batches have none
    known_baseline: Tensor | None = field(default=None, init=False, repr=False)
    _work: int | None = field(default=None, init=False, repr=False)
    _unit_weights: Tensor | None = field(default=None, init=False, repr=False)

    # -- implemented by every kind of model ---------------------------------------------------------------------

    @abstractmethod
    def cost(self) -> list[int]:
        """Size of each row (tokens, pixels), by which rows are packed to fit `budget`."""

    def positions(self) -> list[int]:
        """Number of times a forward pass of each row uses the model's weights: its tokens, its patches."""
        return self.cost()

    def weights(self) -> int:
        """Number of weights that each position is multiplied with; 0 if unknown."""
        return 0

    @abstractmethod
    def forward(self, piece: Piece, keep: Tensor, noise: Noise | None) -> Tensor:
        """Logits (R, classes) of the piece's rows under keep (R, n); `noise.key` is (R,)."""

    @abstractmethod
    def take(self, inputs: Sequence[int]) -> Self:
        """The batch of these inputs alone; their indices are in rising order."""

    def in_dtype(self, dtype: torch.dtype, without_masks: bool = False) -> Batch:
        """Copy of this batch whose modules run in `dtype`.

        `without_masks`: if the kind of model can, rows of unequal length are kept apart by other means than masks.
        """
        raise NotImplementedError(f"{type(self).__name__} has no copies")

    def on_baseline(self, view: Tensor) -> Batch:
        """The batch of the same inputs on one baseline each, `view` (inputs,); only if views are baselines."""
        raise ModelError("networks that are explained together cannot be separated")

    def logits_deleted(self, keep: Tensor, rows: Tensor | None = None) -> Tensor:
        """keep (R, n) or (K, R, n) of 0 and 1 -> logits (..., R, classes) without the units that are not kept.

        rows: (R,), or None for all. The text becomes shorter and what follows moves up; special tokens stay. Equal rows
        go through the model once. No gradients.
        """
        raise OptionError("only the words of texts can be deleted; replace units by the baseline instead (`logits`)")

    def with_baseline(self, name: str) -> Batch:
        """The same inputs with another named baseline; for texts, and for images with blurs."""
        raise OptionError(f"units of this kind are not replaced by {name}; load the model with another baseline")

    # -- implemented by kinds of models with gradients at their input ---------------------------------------------

    sufficient_cost: ClassVar[dict[str, int]] = {}  # by device: pieces of this cost take no much shorter rows
    views_are_networks: ClassVar[bool] = True  # views are networks, not baselines: a piece has rows of one view
    deletes_units: ClassVar[bool] = False  # whether `logits_deleted` works
    input_axes: ClassVar[int] = 0  # axes of the input of one row, *read below; 0: none that has gradients

    @property
    def faster_as_copy(self) -> bool:
        """Whether copies of the modules in their own precision (`in_dtype`) are faster on this device."""
        return False

    @property
    def modules(self) -> Sequence[nn.Module]:
        """The explained modules."""
        raise _no_gradient_access()

    @property
    def distinct(self) -> int:
        """Number of first rows that differ while nothing is replaced: M if views are baselines, else S."""
        return self.size[0]

    def input_embeddings(self, rows: Tensor | None = None) -> Tensor:
        """(R, *read): the differentiable input of these rows, or of all: word embeddings, pixels."""
        raise _no_gradient_access()

    def all_replaced(self, rows: Tensor | None = None) -> Tensor:
        """(R, *read): the input with every unit replaced by its row's baseline; all else is unchanged."""
        raise _no_gradient_access()

    def unit_region(self, rows: Tensor | None = None) -> Tensor:
        """(R, *read) bool, axes may be 1: the elements of the input that belong to a unit."""
        raise _no_gradient_access()

    def forward_from(self, piece: Piece, values: Tensor) -> Tensor:
        """Logits (R, classes) of the piece's rows with `values` (R, *read) as their input."""
        raise _no_gradient_access()

    def to_units(self, values: Tensor, reduce: str, rows: Tensor | None = None) -> Tensor:
        """(R, *read) -> (R, n): the `sum` over each unit, or its L1 `norm`; 0 for padding."""
        raise _no_gradient_access()

    def normal_noise(self, key: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """(K,) keys -> (K, *shape) standard normal numbers that do not depend on padding."""
        return normal(key, shape, dtype)

    def input_strength(self, values: Tensor, unit_region: Tensor) -> Tensor:
        """(R, *read), axes may be 1: root mean square of the input `values` (R, *read) over units, for noise on it."""
        axes = tuple(range(1, values.dim()))
        inside = unit_region.expand_as(values)
        return ((values.square() * inside).sum(axes, keepdim=True) / inside.sum(axes, keepdim=True)).sqrt()

    # -- common to all batches ----------------------------------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        """(S, n)."""
        rows, units = self.rows.real.shape
        return rows, units

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that units belong to, in order; one, unless an input has units of two kinds."""
        return (Part(0, self.size[1], self.grid),)

    @property
    def pixel_grid(self) -> tuple[int, int] | None:
        """Height and width of the part whose units are pixels; None where there is none."""
        return next((unit_part.grid for unit_part in self.parts if unit_part.grid is not None), None)

    def unit_weights(self) -> Tensor:
        """(S, n): weights of the units in means over units; all parts of an input weigh the same. 0 for padding."""
        if self._unit_weights is None:
            self._unit_weights = part_weights(self.rows.real, self.parts, self.dtype)
        return self._unit_weights

    @property
    def masks(self) -> int:
        """M, the number of masks; the first M rows are theirs, under the first view."""
        return self.size[0] // self.views

    @property
    def device(self) -> torch.device:
        """Device of keeps and logits."""
        return self.rows.real.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of keeps, scores and logits."""
        return self.rows.blend.dtype

    def zeros(self) -> Tensor:
        """(S, n) zeros."""
        return torch.zeros(self.size, device=self.device, dtype=self.dtype)

    def ones(self) -> Tensor:
        """(S, n) ones: every unit is kept."""
        return torch.ones(self.size, device=self.device, dtype=self.dtype)

    def logits(self, keep: Tensor, noise: Noise | None = None) -> Tensor:
        """keep (S, n) or (K, S, n) in [0, 1] -> logits (..., S, classes).

        Rows go through the model in pieces that fit memory. With gradients, pieces that memory does not hold are
        recomputed in the backward pass (checkpointing). Running out of memory halves the budget and tries again.
        """
        variants = keep.shape[0] if keep.dim() == 3 else 1
        flat = keep.reshape(variants * self.size[0], self.size[1])
        if keep.requires_grad:  # the caller, which runs the backward pass too, chooses the threads
            result = self.fit(lambda: self._run(flat, variants, noise))
        else:
            with self.threads(variants):
                result = self.fit(lambda: self._run(flat, variants, noise))
        return result.reshape(*keep.shape[:-1], self.classes)

    def full_logits(self) -> Tensor:
        """(S, classes): the logits of the inputs as they are, without gradients."""
        with torch.no_grad():
            return self.logits(self.ones())

    def threads(self, variants: int = 1) -> AbstractContextManager[None]:
        """Context with as many threads as a forward pass of this many variants of all rows is worth."""
        return limited_threads(variants * self.work()) if self.device.type == "cpu" else nullcontext()

    def work(self) -> int:
        """Approximate multiplications of a forward pass of all rows: each weight once per position."""
        if self._work is None:
            self._work = self.weights() * sum(self.positions())
        return self._work

    def logits_from(self, values: Tensor) -> Tensor:
        """embedded (R, *read), or (K, R, *read) for K variants, of the first R rows -> logits (..., R, classes).

        R is S or `distinct`. Differentiable, and run in pieces as in `logits`; `queries.gradients`, which runs no piece
        twice, is faster if only gradients are needed.
        """
        lead = values.shape[: values.dim() - self.input_axes]
        flat = values.flatten(0, len(lead) - 1)
        variants = lead[0] if len(lead) == 2 else 1
        return self.fit(lambda: self._pieces(flat, variants, lead[-1], self.forward_from)).reshape(*lead, self.classes)

    def check_access(self, method: str, needs: Sequence[str]) -> None:
        """Raise a ModelError if the model does not give what a method of this name needs (`Method.needs`)."""
        if "gradients" in needs:
            self.check_gradients()

    def check_gradients(self) -> None:
        """Raise a ModelError unless the logits of the shortest row are differentiable with respect to its keep.

        A module is checked once for a kind of batch, and the pass of the check is not counted (`counted_passes`).
        """
        module = self.modules[0] if len(self.modules) == 1 else None
        if module is not None and type(self) in _differentiable.get(module, ()):
            return
        cost = self.cost()
        row = min(range(len(cost)), key=lambda index: cost[index])
        index = torch.tensor([row], device=self.device)
        piece = Piece(index, index, int(self.rows.view[row]), cost[row], full=True)
        with torch.enable_grad(), counted_passes():
            keep = self.ones()[index].requires_grad_()
            try:
                logits = self.forward(piece, keep, None)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:  # the model ran before without gradients, so these are the cause
                raise ModelError(f"{NO_GRADIENTS} ({error})") from error
        if not logits.requires_grad:
            raise ModelError(NO_GRADIENTS)
        if module is not None:
            _differentiable.setdefault(module, set()).add(type(self))

    def fit(self, compute: Callable[[], T]) -> T:
        """The result of `compute`, called again with half the budget if memory runs out; results do not change."""
        largest_row = max(self.cost())
        while True:
            try:
                return compute()
            except torch.OutOfMemoryError:
                if self.budget <= largest_row:
                    raise
                self.budget = max(self.budget // 2, largest_row)
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()

    def _run(self, flat: Tensor, variants: int, noise: Noise | None) -> Tensor:
        def forward(piece: Piece, keep: Tensor) -> Tensor:
            return self.forward(piece, keep, None if noise is None else Noise(noise.scale, noise.key[piece.where]))

        return self._pieces(flat, variants, self.size[0], forward)

    def _pieces(self, flat: Tensor, variants: int, rows: int, forward: Callable[[Piece, Tensor], Tensor]) -> Tensor:
        """(K * rows, classes), piece by piece; what memory does not hold is recomputed in the backward pass."""
        pieces, order = self.plan(variants, rows)
        stored = len(pieces) if not (torch.is_grad_enabled() and flat.requires_grad) else self._stored(pieces)
        piece_logits: list[Tensor] = []
        for number, piece in enumerate(pieces):
            piece_values = flat[piece.where]
            if number < stored:
                logits = forward(piece, piece_values)
            else:
                logits = checkpoint(forward, piece, piece_values, use_reentrant=False, preserve_rng_state=False)
            piece_logits.append(logits)
        return torch.cat(piece_logits)[order]

    def _stored(self, pieces: Sequence[Piece]) -> int:
        """Number of first pieces that memory holds for the backward pass, beside a recomputed one."""
        size = [piece.size * len(piece.where) for piece in pieces]
        stored_before = [0, *accumulate(size)]
        largest_after = [max(size[count:], default=0) for count in range(len(size) + 1)]
        sums = [stored + largest for stored, largest in zip(stored_before, largest_after, strict=True)]
        return max((count for count, total in enumerate(sums) if total <= self.budget), default=0)

    def plan(self, variants: int, rows: int) -> tuple[list[Piece], Tensor]:
        """The pieces for this many variants of the first rows, and the index of each result row in them."""
        plan_key = (variants, rows, self.budget)
        if plan_key not in self.plans:
            cost, view = self.cost(), self.rows.view.tolist() if self.views_are_networks else [0] * self.size[0]
            pieces: list[Piece] = []
            for network_view in range(max(view) + 1):
                indices = [index for index in range(variants * rows) if view[index % rows] == network_view]
                for group in pack([cost[index % rows] for index in indices], self.budget, self._sufficient_cost):
                    where = torch.tensor([indices[member] for member in group], device=self.device)
                    size = [cost[indices[member] % rows] for member in group]
                    packing = None if min(size) == max(size) else Packing.from_lengths(size, self.device)
                    pieces.append(Piece(where, where % rows, network_view, max(size), packing is None, packing))
            self.plans[plan_key] = (pieces, torch.argsort(torch.cat([piece.where for piece in pieces])))
        return self.plans[plan_key]

    def prepare(self, variants: int) -> None:
        """Compute what this batch computes at its first use and keeps, for passes of this many variants of all rows.

        Before a pass is recorded: nothing is computed during a recording, and if it fails, what the batch kept would
        be memory that nothing was written to.
        """
        self.plan(variants, self.size[0])
        self.unit_weights()

    def budget_in(self, dtype: torch.dtype) -> int:
        """The budget if `dtype` is stored for the backward pass."""
        return int(HALF_PRECISION_CAPACITY * self.budget) if dtype.itemsize < self.dtype.itemsize else self.budget

    def cost_of(self, cost: Sequence[int]) -> int:
        """Total cost of rows of these costs, with the padding that pieces have."""
        return sum(cost[group[0]] * len(group) for group in pack(cost, self.budget, self._sufficient_cost))

    @property
    def _sufficient_cost(self) -> int | None:
        return self.sufficient_cost.get(self.device.type)

    def blocks(self, rows: int | None = None, weight: int = 1) -> Iterator[Block]:
        """The first rows, or all, in blocks that fit `budget`, longest first, each with a number of variants that fit.

        For sums over many variants: all variants of a block are done before the next, in a fixed order. `weight`: rows
        that go through the model for each row.
        """
        cost, count = self.cost(), self.size[0] if rows is None else rows
        view = self.rows.view[:count].tolist() if self.views_are_networks else [0] * count
        for network_view in range(max(view) + 1):
            view_rows = [row for row, row_view in enumerate(view) if row_view == network_view]
            for group in pack([weight * cost[row] for row in view_rows], self.budget, self._sufficient_cost):
                chosen = [view_rows[member] for member in group]
                size = [cost[number] for number in chosen]
                variants = max(1, self.budget // (weight * max(size) * len(group)))
                yield Block(torch.tensor(chosen, device=self.device), network_view, size, variants)

    def pieces(self, row: Tensor) -> Iterator[Piece]:
        """Rows `row` (P,), which may repeat, in pieces that fit `budget`, longest first; `where` indexes `row`."""
        numbers = row.cpu().numpy()
        cost = np.asarray(self.cost())[numbers]
        view = self.rows.view.cpu().numpy()[numbers] if self.views_are_networks else np.zeros_like(numbers)
        for network_view in np.unique(view).tolist():
            members = np.flatnonzero(view == network_view)
            for group in pack(cost[members], self.budget, self._sufficient_cost):
                selected = members[group]
                size = cost[selected].tolist()  # falling
                where = torch.from_numpy(selected).to(self.device)
                packing = None if size[0] == size[-1] else Packing.from_lengths(size, self.device)
                yield Piece(where, row[where], network_view, size[0], packing is None, packing)

    def rows_of(self, inputs: Sequence[int]) -> Tensor:
        """The indices of the rows of these inputs."""
        return torch.nonzero(torch.isin(self.rows.input, torch.tensor(list(inputs), device=self.device))).flatten()

    def class_logits(self, piece: Piece, outputs: Tensor) -> Tensor:
        """(R, outputs) of the model -> (R, classes) on the batch's device, contrasted if the batch is."""
        outputs = outputs.to(device=self.device, dtype=self.dtype)
        contrast = self.rows.contrast
        return class_logits(self.head, outputs) if contrast is None else contrast.logits(piece.row, outputs)

    def contrasted(self, target: Tensor, against: Tensor) -> Self:
        """The same rows with two classes: each input's `target` (class `CHOSEN`) and `against`, both (inputs,).

        All its logits, probabilities and gradients are about the log-odds of these two classes alone.
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
        """(..., S, C) -> (..., inputs, views, C): the mean over an input's segments, per view."""
        views = self.views
        group = self.rows.input * views + self.rows.view
        shape = (*values.shape[:-2], self.inputs * views, values.shape[-1])
        count = torch.zeros(shape[-2], device=values.device, dtype=values.dtype)
        count.index_add_(0, group, torch.ones_like(group, dtype=values.dtype))
        total = torch.zeros(shape, device=values.device, dtype=values.dtype).index_add(-2, group, values)
        return (total / count[:, None]).reshape(*values.shape[:-2], self.inputs, views, values.shape[-1])

    def predict(self, keep: Tensor | None = None) -> Tensor:
        """(..., inputs, classes): class probabilities, averaged over segments and views."""
        with torch.no_grad():
            logits = self.logits(self.ones() if keep is None else keep)
            return self.pool(self.probabilities(logits)).mean(-2)

    def predict_baseline(self) -> Tensor:
        """(inputs, classes): class probabilities of the baselines alone, as `predict` of zeros."""
        return self.predict(self.zeros())

    def score(self, target: Tensor, keep: Tensor | None = None) -> Tensor:
        """(..., S): each row's probability of its input's target class; `target` is (inputs,)."""
        logits = self.logits(self.ones() if keep is None else keep)
        index = target[self.rows.input].expand(logits.shape[:-1]).unsqueeze(-1)
        return self.probabilities(logits).gather(-1, index).squeeze(-1)

    def gather(self, values: Tensor) -> list[Tensor]:
        """(S, n) per row -> (units,) per input, overlapping rows blended linearly."""
        rows = self.rows
        lengths = torch.zeros(self.inputs, dtype=torch.long, device=self.device)
        last = (rows.unit * rows.real).amax(1) if self.grid is None else rows.unit.amax(1)  # a grid may end in padding
        lengths.scatter_reduce_(0, rows.input, last + 1, "amax")
        first = torch.cumsum(lengths, 0) - lengths
        flat_index = (rows.unit + first[rows.input][:, None])[rows.real]
        total = torch.zeros(int(lengths.sum()), device=self.device, dtype=values.dtype)
        total.index_add_(0, flat_index, (values * rows.blend.to(values.dtype))[rows.real])
        return list(torch.split(total, lengths.tolist()))

    def spread(self, values: Sequence[Tensor]) -> Tensor:
        """The inverse of `gather`: a (units,) vector per input -> (S, n), 0 for padding."""
        lengths = torch.tensor([len(value) for value in values], device=self.device)
        first = torch.cumsum(lengths, 0) - lengths
        flat = torch.cat(list(values)).to(device=self.device, dtype=self.dtype)
        flat_index = (self.rows.unit + first[self.rows.input][:, None]).clamp(max=len(flat) - 1)
        return torch.where(self.rows.real, flat[flat_index], torch.zeros((), device=self.device, dtype=self.dtype))


def _no_gradient_access() -> ModelError:
    return ModelError("this kind of model has no input with gradients; use occlusion or shapley-sampling")
