"""Rows of sound as a Batch: frames of a waveform, or bins of a spectrogram, are kept or replaced.

What is replaced is what the model reads, after its own preprocessing. Rows of different lengths are never padded for
the model: each length goes through it by itself, so that no sound changes with its company.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.models.batch import Batch, Noise, Piece
from rationales.models.randomness import normal
from rationales.models.threads import weight_count


@dataclass(eq=False)
class AudioBatch(Batch):
    """Rows of one segment of a sound on one baseline."""

    module: nn.Module
    values: Tensor  # (M, samples), or (M, height, width) of a spectrogram: what the model reads, zeros behind its end
    empty: Tensor  # (S, samples) or (S, height, width): the baseline of every row
    shapes: list[tuple[int, ...]]  # (S,) what of that a row's model call gets
    frame: int  # samples per unit; 0 where units are the bins of a spectrogram
    time_last: bool = False  # of a spectrogram: (bins, frames) instead of (frames, bins)

    _ends: Tensor = field(init=False, repr=False)  # (S,) samples of each row; its last frame may be cut

    apart: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._ends = torch.tensor([shape[0] for shape in self.shapes], device=self.device)

    @property
    def reads(self) -> int:  # type: ignore[override]  # one number for each kind, not for all batches
        """Axes of what one row reads."""
        return self.values.dim() - 1

    def cost(self) -> list[int]:
        return [int(np.prod(shape)) for shape in self.shapes]

    def weights(self) -> int:
        return weight_count(self.module)

    def positions(self) -> list[int]:
        """Its frames."""
        frames: list[int] = self.rows.real.sum(1).tolist()
        return frames

    def forward(self, piece: Piece, keep: Tensor, noise: Noise | None) -> Tensor:
        shown, empty = self.values[self.rows.mask[piece.row]], self.empty[piece.row]
        real = self.rows.real[piece.row]
        share = self._spread(torch.where(real, keep, torch.ones_like(keep))).to(shown.dtype)
        mixed = share * shown + (1 - share) * empty  # Eq. 1
        if noise is not None:
            inside = self.inside(piece.row)
            size = ((shown.square() * inside).flatten(1).sum(1) / inside.flatten(1).sum(1)).sqrt()
            drawn = self._drawn(noise.key, shown.dtype) * inside
            mixed = mixed + noise.scale * size.view(-1, *[1] * self.reads) * drawn
        return self.forward_from(piece, mixed)

    def forward_from(self, piece: Piece, embedded: Tensor) -> Tensor:
        given = embedded.to(self.values.dtype)
        if len(set(self.shapes)) == 1:
            logits = call(self.module, _cut(given, self.shapes[0]))
        else:
            shapes = [self.shapes[row] for row in piece.row.tolist()]
            order, parts = list[int](), list[Tensor]()
            for shape in sorted(set(shapes)):
                members = [place for place, own in enumerate(shapes) if own == shape]
                parts.append(call(self.module, _cut(given[members], shape)))
                order += members
            logits = torch.cat(parts)[torch.tensor(order, device=given.device).argsort()]
        return self.class_logits(piece, logits)

    @property
    def modules(self) -> Sequence[nn.Module]:
        return [self.module]

    @property
    def distinct(self) -> int:
        return self.masks

    def embedded(self, rows: Tensor | None = None) -> Tensor:
        """(R, samples) or (R, height, width): what the model reads, in single precision at least."""
        values = self.values[self.rows.mask if rows is None else self.rows.mask[rows]]
        return values.to(torch.promote_types(values.dtype, torch.float32))

    def emptied(self, rows: Tensor | None = None) -> Tensor:
        """The same with the baseline in place of every unit; padding stays."""
        values = self.embedded(rows)
        return torch.where(self.inside(rows), (self.empty if rows is None else self.empty[rows]).to(values), values)

    def inside(self, rows: Tensor | None = None) -> Tensor:
        """Booleans of the same shape: no padding."""
        real = self._spread(self.rows.real if rows is None else self.rows.real[rows])
        if not self.frame:
            return real
        ends = self._ends if rows is None else self._ends[rows]
        return real & (torch.arange(real.shape[1], device=self.device) < ends[:, None])

    def to_units(self, values: Tensor, reduce: str, rows: Tensor | None = None) -> Tensor:
        """(R, samples) or (R, height, width) -> (R, n): over the samples of a frame."""
        found = ((values.abs() if reduce == "norm" else values) * self.inside(rows)).flatten(1)
        if not self.frame:
            return found
        whole = torch.nn.functional.pad(found, (0, self.size[1] * self.frame - found.shape[1]))
        return whole.view(len(whole), -1, self.frame).sum(-1)

    def _spread(self, units: Tensor) -> Tensor:
        """(R, n) -> (R, samples) or (R, height, width): every sample has its unit's value."""
        if not self.frame:
            return units.view(len(units), *self.values.shape[1:])
        return units.repeat_interleave(self.frame, 1)[:, : self.values.shape[1]]

    def _drawn(self, key: Tensor, dtype: torch.dtype) -> Tensor:
        """Standard normal numbers like what is read, such that padding changes none of them."""
        if not self.frame:
            shape = self.values.shape[1:]
            return normal(key, shape[::-1], dtype).mT if self.time_last else normal(key, shape, dtype)
        return normal(key, (self.size[1], self.frame), dtype).flatten(1)[:, : self.values.shape[1]]

    def drawn(self, key: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return self._drawn(key, dtype)

    def seen_on(self, view: Tensor) -> AudioBatch:
        masks = self.masks
        rows = view[self.rows.input[:masks]] * masks + torch.arange(masks, device=self.device)
        taken = self.rows.on_one_view(rows, self.views)
        return replace(self, rows=taken, views=1, empty=self.empty[rows], shapes=self.shapes[:masks])

    def take(self, inputs: Sequence[int]) -> AudioBatch:
        row = torch.nonzero(torch.isin(self.rows.input, torch.tensor(list(inputs), device=self.device))).flatten()
        shapes = [self.shapes[index] for index in row.tolist()]
        width, values, empty = self.size[1], self.values[torch.unique(self.rows.mask[row])], self.empty[row]
        if self.frame:  # a line is cut to the longest that is left; the cells of a grid stay where they are
            width, longest = int(self.rows.real[row].sum(1).max()), max(shape[0] for shape in shapes)
            values, empty = values[:, :longest], empty[:, :longest]
        return replace(
            self, rows=self.rows.take(row, width), inputs=len(inputs), values=values, empty=empty, shapes=shapes
        )


def call(module: nn.Module, given: Tensor) -> Tensor:
    """(R, outputs): the logits, whatever the module wraps them in; one logit each may come as (R,)."""
    output: Any = module(given)
    found = getattr(output, "logits", output[0] if isinstance(output, tuple) else output)
    if isinstance(found, Tensor) and found.shape == given.shape[:1]:
        found = found[:, None]
    if not isinstance(found, Tensor) or found.dim() != 2:
        raise ModelError("the model does not give one row of logits for each sound; is it a classifier?")
    return found


def _cut(given: Tensor, shape: Sequence[int]) -> Tensor:
    """What lies within `shape`, without the padding of longer rows."""
    return given[(slice(None), *(slice(size) for size in shape))]
