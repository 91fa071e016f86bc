"""Rows of sounds as a Batch: frames of a waveform, or bins of a spectrogram, are kept or replaced.

They are replaced after the model's preprocessing. Rows of different lengths are never padded for the model: each length
is a forward pass of its own, so that results do not depend on the other sounds of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.models.batch import Noise, Piece
from rationales.models.batch.execution import record_passes
from rationales.models.batch.rows import normal
from rationales.models.batch.value_batch import ValueBatch
from rationales.models.classes import output_logits


@dataclass(eq=False)
class AudioBatch(ValueBatch):
    """Each row is one segment of a sound on one baseline.

    values: (M, samples), or (M, height, width) of a spectrogram, padded with zeros; baseline_values: (S, ...).
    """

    shapes: list[tuple[int, ...]]  # (S,) shape of each row without padding
    frame: int  # samples per unit; 0 where units are the bins of a spectrogram
    time_last: bool = False  # of a spectrogram: (bins, frames) instead of (frames, bins)

    _ends: Tensor = field(init=False, repr=False)  # (S,) samples of each row; its last frame may be incomplete

    def __post_init__(self) -> None:
        self._ends = torch.tensor([shape[0] for shape in self.shapes], device=self.device)

    @property
    def input_axes(self) -> int:  # type: ignore[override]  # depends on the front end
        """The number of axes of the model's input for one row."""
        return self.values.dim() - 1

    def cost(self) -> list[int]:
        return [int(np.prod(shape)) for shape in self.shapes]

    def positions(self) -> list[int]:
        """The number of units of every row."""
        frames: list[int] = self.rows.real.sum(1).tolist()
        return frames

    def spread_units(self, units: Tensor) -> Tensor:
        """(R, n) -> (R, samples) or (R, height, width): every sample gets the value of its unit."""
        if not self.frame:
            return units.view(len(units), *self.values.shape[1:])
        return units.repeat_interleave(self.frame, 1)[:, : self.values.shape[1]]

    def scaled_noise(self, values: Tensor, row: Tensor, noise: Noise) -> Tensor:
        inside = self.unit_region(row)
        size = ((values.square() * inside).flatten(1).sum(1) / inside.flatten(1).sum(1)).sqrt()
        noise_values = self.normal_noise(noise.key, values.shape[1:], values.dtype) * inside
        return noise.scale * size.view(-1, *[1] * self.input_axes) * noise_values

    def forward_from(self, piece: Piece, values: Tensor) -> Tensor:
        values = values.to(self.values.dtype)
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

    def unit_region(self, rows: Tensor | None = None) -> Tensor:
        """(R, samples) or (R, height, width) bool: False for padding."""
        real = super().unit_region(rows)
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

    def normal_noise(self, key: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Standard normal numbers in the shape of the input; they do not depend on padding."""
        if not self.frame:
            return normal(key, shape[::-1], dtype).mT if self.time_last else normal(key, shape, dtype)
        return normal(key, (self.size[1], self.frame), dtype).flatten(1)[:, : self.values.shape[1]]

    def on_baseline(self, view: Tensor) -> AudioBatch:
        return replace(super().on_baseline(view), shapes=self.shapes[: self.masks])

    def take(self, inputs: Sequence[int]) -> AudioBatch:
        row = self.rows_of(inputs)
        batch = replace(super().take(inputs), shapes=[self.shapes[index] for index in row.tolist()])
        if not self.frame:  # the units of a spectrogram keep their numbers
            return batch
        width, longest = int(self.rows.real[row].sum(1).max()), max(shape[0] for shape in batch.shapes)
        values, baseline = batch.values[:, :longest], batch.baseline_values[:, :longest]
        return replace(batch, rows=self.rows.take(row, width), values=values, baseline_values=baseline)


def audio_logits(module: nn.Module, values: Tensor) -> Tensor:
    """(R, outputs): the logits, unwrapped from whatever the module returns; one logit per row may come as (R,)."""
    output: Any = module(values)
    logits = output_logits(output, "sound", len(values))
    record_passes(len(values), logits)
    return logits


def _without_padding(values: Tensor, shape: Sequence[int]) -> Tensor:
    return values[(slice(None), *(slice(size) for size in shape))]
