"""What methods ask of a batch: gradients at many points of the input, outputs under many keeps.

Both work in blocks of rows that fit memory and add up in a fixed order. A method sees only the values and keys of the
rows in a block, so that a row's result cannot depend on the other rows of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.errors import ModelError
from rationales.models.batch import Batch, Piece
from rationales.models.batch.batch import NO_GRADIENTS
from rationales.models.batch.rows import fold
from rationales.models.classes import explained_output

KEEPS_AT_ONCE = 2**24  # entries of keeps that are made together for deletion


@dataclass(frozen=True, eq=False)
class BlockInputs:
    """The inputs of a block of R rows, from which a method chooses its points."""

    full: Tensor  # (R, *read)
    empty: Tensor  # (R, *read) with every unit replaced by the baseline
    unit_region: Tensor  # (R, *read), axes may be 1: the elements that belong to a unit
    key: Tensor  # (R,)
    normal_noise: Callable[[Tensor, Sequence[int], torch.dtype], Tensor]  # Batch.normal_noise
    input_strength: Callable[[Tensor, Tensor], Tensor]  # Batch.input_strength

    def keys(self, variants: Tensor) -> Tensor:
        """(k,) -> (k * R,): a key for every row of every variant."""
        return fold(self.key.repeat(len(variants)), variants.repeat_interleave(len(self.key)))

    def noisy(self, variants: Tensor, scale: float, of_range: bool = False) -> Tensor:
        """(k, R, *read): the input with Gaussian noise on its units; `scale` is relative to `strength` or `extent`."""
        noise = self.normal_noise(fold(self.keys(variants), 0), self.full.shape[1:], self.full.dtype)
        size = self.extent if of_range else self.strength
        return self.full + scale * size * self.unit_region * noise.view(len(variants), *self.full.shape)

    def along(self, values: Tensor) -> Tensor:
        """(k,) or (k, R) -> the same values with as many axes as (k, R, *read)."""
        return values.view(*values.shape, *[1] * (self.full.dim() + 1 - values.dim()))

    @property
    def strength(self) -> Tensor:
        """(R, 1, ...), or for several parts (R, *read): the root mean square of the input over units."""
        return self.input_strength(self.full, self.unit_region)

    @property
    def extent(self) -> Tensor:
        """(R, 1, ...): the largest minus the smallest value of the input over units."""
        axes = tuple(range(1, self.full.dim()))
        outside = ~self.unit_region.expand_as(self.full)
        highest = self.full.masked_fill(outside, -torch.inf).amax(axes, keepdim=True)
        return highest - self.full.masked_fill(outside, torch.inf).amin(axes, keepdim=True)


Points = Callable[[BlockInputs, Tensor], tuple[Tensor, Tensor | None]]
# (reading, variants (k,)) -> points (k, R, *read), and the factors of their gradients in the sum (None: 1)
GradientRule = Callable[[Batch, Piece, Tensor, Tensor, str], Tensor]  # as `gradient_at`


def gradients(
    batch: Batch,
    target: Tensor,
    points: Points,
    *,
    variants: int = 1,
    output: str = "logit",
    reduce: str = "sum",
    baseline: bool = True,
    gradient_rule: GradientRule | None = None,
    weight: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """(S, n): sum over variants of factor x d output / d input at each variant's point, reduced to units.

    `baseline`: whether points depend on it; if not, rows that differ only in it are run once. `gradient_rule`: a
    function in place of `gradient_at`; `weight`: rows that it runs for each row.
    """
    gradient_function = gradient_at if gradient_rule is None else gradient_rule
    rows = batch.size[0] if baseline else batch.distinct

    def compute() -> Tensor:
        single = torch.promote_types(batch.dtype, torch.float32)
        scores = torch.zeros(rows, batch.size[1], device=batch.device, dtype=single)
        done = 0
        for block in batch.blocks(rows, weight):
            row = block.row
            full = batch.input_embeddings(row)
            empty = batch.all_replaced(row) if baseline else full
            region, key = batch.unit_region(row), batch.rows.key[row]
            reading = BlockInputs(full, empty, region, key, batch.normal_noise, batch.input_strength)
            total = torch.zeros_like(full)
            for chunk in torch.split(torch.arange(variants, device=batch.device), block.variants):
                with torch.no_grad():
                    point, factor = points(reading, chunk)
                flat_points, piece = point.flatten(0, 1), block.piece(len(chunk))
                gradient = gradient_function(batch, piece, flat_points, target, output).view_as(point)
                total += (gradient if factor is None else gradient * factor).sum(0)
                done += len(chunk) * len(row)
                if progress is not None:
                    progress(done / (variants * rows))
            scores[row] = batch.to_units(total, reduce, row)
        return scores

    return to_rows(batch, batch.fit(compute))


def gradient_at(
    batch: Batch, piece: Piece, point: Tensor, target: Tensor, output: str, first: int | None = None
) -> Tensor:
    """(R, *read): d output / d input of the piece's rows (only its `first` if set) at the input `point`."""
    with torch.enable_grad():
        leaf = point.detach().requires_grad_()
        logits = batch.forward_from(piece, leaf.clone())  # a model may modify its input in place, but not a leaf
        value = explained_output(batch.head, logits, target[batch.rows.input[piece.row]], output)
    if not value.requires_grad:
        raise ModelError(NO_GRADIENTS)
    return torch.autograd.grad(value[:first].sum(), leaf)[0]


def to_rows(batch: Batch, values: Tensor) -> Tensor:
    """(distinct, n) or (S, n) -> (S, n)."""
    return values if len(values) == batch.size[0] else values[batch.rows.mask]


Keeps = Callable[[Tensor, Tensor], Tensor]  # (rows (R,), variants (k,)) -> keep (k, R, n)


def outputs_under_keeps(
    batch: Batch,
    target: Tensor,
    keeps: Keeps,
    variants: int | Tensor,
    *,
    output: str = "probability",
    precise: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """(K, S): the explained output of every row under K keeps.

    `variants`: their number, K for all rows or (S,) per row; entries beyond a row's number are undefined. Keeps are
    made block by block and never stored together. `precise`: from logits to outputs in double precision, where the
    device has it, because single precision rounds 1 - p of a certain prediction.
    """
    count = torch.as_tensor(variants, device=batch.device).expand(batch.size[0])
    max_variants, rows = int(count.max()), batch.size[0]

    dtype = _output_dtype(batch, precise)

    def compute() -> Tensor:
        values = torch.zeros(max_variants, rows, device=batch.device, dtype=dtype)
        done = 0
        for block in batch.blocks():
            block_variants = int(count[block.row].max())
            all_variants = torch.arange(block_variants, device=batch.device)
            for chunk in torch.split(all_variants, block.variants) if block_variants else ():
                keep = keeps(block.row, chunk).to(batch.dtype)
                piece = block.piece(len(chunk))
                logits = batch.forward(piece, keep.flatten(0, 1), None).to(dtype)
                value = explained_output(batch.head, logits, target[batch.rows.input[piece.row]], output)
                values[chunk[:, None], block.row] = value.view(len(chunk), -1)
                if progress is not None:
                    progress((done + len(block.row) * (int(chunk[-1]) + 1) / block_variants) / rows)
            done += len(block.row)
        return values

    with torch.no_grad():
        return batch.fit(compute)


def outputs_of_rows(batch: Batch, target: Tensor, row: Tensor, keep: Tensor, *, output: str = "probability") -> Tensor:
    """(P,): the explained output of the rows `row` (P,), which may repeat, under a keep (P, n) each."""

    def compute() -> Tensor:
        values = torch.zeros(len(row), device=batch.device, dtype=torch.promote_types(batch.dtype, torch.float32))
        for piece in batch.pieces(row):
            logits = batch.forward(piece, keep[piece.where].to(batch.dtype), None)
            value = explained_output(batch.head, logits, target[batch.rows.input[piece.row]], output)
            values[piece.where] = value.to(values.dtype)
        return values

    with torch.no_grad():
        return batch.fit(compute)


def outputs_when_deleted(
    batch: Batch,
    target: Tensor,
    keeps: Keeps,
    variants: int | Tensor,
    *,
    output: str = "probability",
    precise: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """(K, S): as `outputs_under_keeps`, with the units that are not kept deleted instead of replaced.

    Keeps are hard, 0 or 1. All variants of a row are made together, and those that are equal are run once.
    """
    count = torch.as_tensor(variants, device=batch.device).expand(batch.size[0])
    dtype = _output_dtype(batch, precise)
    values = torch.zeros(int(count.max()), batch.size[0], device=batch.device, dtype=dtype)
    rows_at_once = max(1, KEEPS_AT_ONCE // (len(values) * batch.size[1]))
    for row in torch.split(torch.arange(batch.size[0], device=batch.device), rows_at_once):
        variant = torch.arange(int(count[row].max()), device=batch.device)
        needed = variant[:, None] < count[row]  # (k, R); keeps beyond a row's number repeat its first
        keep = keeps(row, variant).expand(len(variant), len(row), -1)
        keep = torch.where(needed[..., None], keep, keep[:1])
        logits = batch.logits_deleted(keep, row).to(dtype)
        values[variant[:, None], row] = explained_output(batch.head, logits, target[batch.rows.input[row]], output)
        if progress is not None:
            progress((int(row[-1]) + 1) / batch.size[0])
    return values


def _output_dtype(batch: Batch, precise: bool) -> torch.dtype:
    """Single precision at least; `precise`: double precision, where the device has it."""
    double = precise and batch.device.type != "mps"
    return torch.float64 if double else torch.promote_types(batch.dtype, torch.float32)


def baseline_and_full_outputs(batch: Batch, target: Tensor, output: str) -> tuple[Tensor, Tensor]:
    """(S,) twice: the explained output of every row with all units replaced and with all units kept."""

    def keeps(row: Tensor, variant: Tensor) -> Tensor:
        return variant[:, None, None].expand(-1, len(row), batch.size[1])

    empty, full = outputs_under_keeps(batch, target, keeps, 2, output=output)
    return empty, full
