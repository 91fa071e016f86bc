"""Rows of sounds as a Batch: frames of a waveform, or bins of a spectrogram, are kept or replaced.

They are replaced after the model's preprocessing. Rows of different lengths are never padded for the model: each length
is a forward pass of its own, so that results do not depend on the other sounds of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from rationales.models.batch import Batch, Noise, Piece
from rationales.models.batch.heads import output_logits
from rationales.models.batch.randomness import normal
from rationales.models.batch.threads import weight_count


@dataclass(eq=False)
class AudioBatch(Batch):
    """Each row is one segment of a sound on one baseline."""

    module: nn.Module
    values: Tensor  # (M, samples), or (M, height, width) of a spectrogram, padded with zeros
    baseline_values: Tensor  # (S, samples) or (S, height, width): the baseline of every row
    shapes: list[tuple[int, ...]]  # (S,) shape of each row without padding
    frame: int  # samples per unit; 0 where units are the bins of a spectrogram
    time_last: bool = False  # of a spectrogram: (bins, frames) instead of (frames, bins)

    _ends: Tensor = field(init=False, repr=False)  # (S,) samples of each row; its last frame may be incomplete

    views_are_networks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._ends = torch.tensor([shape[0] for shape in self.shapes], device=self.device)

    @property
    def input_axes(self) -> int:  # type: ignore[override]  # depends on the front end
        """The number of axes of the model's input for one row."""
        return self.values.dim() - 1

    def cost(self) -> list[int]:
        return [int(np.prod(shape)) for shape in self.shapes]

    def weights(self) -> int:
        return weight_count(self.module)

    def positions(self) -> list[int]:
        """The number of units of every row."""
        frames: list[int] = self.rows.real.sum(1).tolist()
        return frames

    def forward(self, piece: Piece, keep: Tensor, noise: Noise | None) -> Tensor:
        values, baseline = self.values[self.rows.mask[piece.row]], self.baseline_values[piece.row]
        real = self.rows.real[piece.row]
        share = self._spread(torch.where(real, keep, torch.ones_like(keep))).to(values.dtype)
        mixed = share * values + (1 - share) * baseline  # Eq. 1
        if noise is not None:
            inside = self.unit_region(piece.row)
            size = ((values.square() * inside).flatten(1).sum(1) / inside.flatten(1).sum(1)).sqrt()
            noise_values = self._noise(noise.key, values.dtype) * inside
            mixed = mixed + noise.scale * size.view(-1, *[1] * self.input_axes) * noise_values
        return self.forward_from(piece, mixed)

    def forward_from(self, piece: Piece, embedded: Tensor) -> Tensor:
        values = embedded.to(self.values.dtype)
        if len(set(self.shapes)) == 1:
            logits = audio_logits(self.module, _without_padding(values, self.shapes[0]))
        else:
            shapes = [self.shapes[row] for row in piece.row.tolist()]
            order, logits_by_shape = list[int](), list[Tensor]()
            for shape in sorted(set(shapes)):
                members = [i for i, row_shape in enumerate(shapes) if row_shape == shape]
                logits_by_shape.append(audio_logits(self.module, _without_padding(values[members], shape)))
                order += members
            logits = torch.cat(logits_by_shape)[torch.tensor(order, device=values.device).argsort()]
        return self.class_logits(piece, logits)

    @property
    def modules(self) -> Sequence[nn.Module]:
        return [self.module]

    @property
    def distinct(self) -> int:
        return self.masks

    def input_embeddings(self, rows: Tensor | None = None) -> Tensor:
        """(R, samples) or (R, height, width): the model's input, in single precision at least."""
        values = self.values[self.rows.mask if rows is None else self.rows.mask[rows]]
        return values.to(torch.promote_types(values.dtype, torch.float32))

    def all_replaced(self, rows: Tensor | None = None) -> Tensor:
        """(R, samples) or (R, height, width): the baselines; padding stays as it is."""
        values = self.input_embeddings(rows)
        baseline = self.baseline_values if rows is None else self.baseline_values[rows]
        return torch.where(self.unit_region(rows), baseline.to(values), values)

    def unit_region(self, rows: Tensor | None = None) -> Tensor:
        """(R, samples) or (R, height, width) bool: False for padding."""
        real = self._spread(self.rows.real if rows is None else self.rows.real[rows])
        if not self.frame:
            return real
        ends = self._ends if rows is None else self._ends[rows]
        return real & (torch.arange(real.shape[1], device=self.device) < ends[:, None])

    def to_units(self, values: Tensor, reduce: str, rows: Tensor | None = None) -> Tensor:
        """(R, samples) or (R, height, width) -> (R, n): summed over the samples of a frame."""
        real_values = ((values.abs() if reduce == "norm" else values) * self.unit_region(rows)).flatten(1)
        if not self.frame:
            return real_values
        padded = torch.nn.functional.pad(real_values, (0, self.size[1] * self.frame - real_values.shape[1]))
        return padded.view(len(padded), -1, self.frame).sum(-1)

    def _spread(self, units: Tensor) -> Tensor:
        """(R, n) -> (R, samples) or (R, height, width): every sample gets the value of its unit."""
        if not self.frame:
            return units.view(len(units), *self.values.shape[1:])
        return units.repeat_interleave(self.frame, 1)[:, : self.values.shape[1]]

    def _noise(self, key: Tensor, dtype: torch.dtype) -> Tensor:
        """Standard normal numbers in the shape of the input; they do not depend on padding."""
        if not self.frame:
            shape = self.values.shape[1:]
            return normal(key, shape[::-1], dtype).mT if self.time_last else normal(key, shape, dtype)
        return normal(key, (self.size[1], self.frame), dtype).flatten(1)[:, : self.values.shape[1]]

    def normal_noise(self, key: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return self._noise(key, dtype)

    def on_baseline(self, view: Tensor) -> AudioBatch:
        masks = self.masks
        rows = view[self.rows.input[:masks]] * masks + torch.arange(masks, device=self.device)
        return replace(
            self,
            rows=self.rows.on_one_view(rows, self.views),
            views=1,
            baseline_values=self.baseline_values[rows],
            shapes=self.shapes[:masks],
        )

    def take(self, inputs: Sequence[int]) -> AudioBatch:
        row = torch.nonzero(torch.isin(self.rows.input, torch.tensor(list(inputs), device=self.device))).flatten()
        shapes = [self.shapes[index] for index in row.tolist()]
        width, values, baseline = (
            self.size[1],
            self.values[torch.unique(self.rows.mask[row])],
            self.baseline_values[row],
        )
        if self.frame:  # cut to the longest remaining waveform; the units of a spectrogram keep their numbers
            width, longest = int(self.rows.real[row].sum(1).max()), max(shape[0] for shape in shapes)
            values, baseline = values[:, :longest], baseline[:, :longest]
        return replace(
            self,
            rows=self.rows.take(row, width),
            inputs=len(inputs),
            values=values,
            baseline_values=baseline,
            shapes=shapes,
        )


def audio_logits(module: nn.Module, values: Tensor) -> Tensor:
    """(R, outputs): the logits, unwrapped from whatever the module returns; one logit per row may come as (R,)."""
    output: Any = module(values)
    return output_logits(output, "sound", len(values))


def _without_padding(values: Tensor, shape: Sequence[int]) -> Tensor:
    return values[(slice(None), *(slice(size) for size in shape))]
