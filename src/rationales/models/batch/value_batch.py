"""Rows whose units are values of the model's preprocessed input: pixels, samples, bins of a spectrogram."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from rationales.models.batch.batch import Batch
from rationales.models.batch.execution import weight_count
from rationales.models.batch.rows import Noise, Piece

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False)
class ValueBatch(Batch):
    """One module, its preprocessed inputs, and the values that replace them; *read is the shape of one input."""

    module: nn.Module
    values: Tensor  # (M, *read)
    baseline_values: Tensor  # (S, *read): the baseline of every row

    views_are_networks: ClassVar[bool] = False

    @abstractmethod
    def spread_units(self, units: Tensor) -> Tensor:
        """(R, n) -> (R, *read), axes may be 1: every value of the input gets that of its unit."""

    @abstractmethod
    def scaled_noise(self, values: Tensor, row: Tensor, noise: Noise) -> Tensor:
        """(R, *read): noise on the inputs `values` of these rows."""

    @property
    def modules(self) -> Sequence[nn.Module]:
        return [self.module]

    @property
    def distinct(self) -> int:
        return self.masks

    def weights(self) -> int:
        return weight_count(self.module)

    def forward(self, piece: Piece, keep: Tensor, noise: Noise | None) -> Tensor:
        values, baseline = self.values[self.rows.mask[piece.row]], self.baseline_values[piece.row]
        real = self.rows.real[piece.row]
        share = self.spread_units(torch.where(real, keep, torch.ones_like(keep))).to(values.dtype)
        mixed = share * values + (1 - share) * baseline  # Eq. 1
        return self.forward_from(piece, mixed if noise is None else mixed + self.scaled_noise(values, piece.row, noise))

    def input_embeddings(self, rows: Tensor | None = None) -> Tensor:
        """(R, *read): the model's input, in single precision at least."""
        values = self.values[self.rows.mask if rows is None else self.rows.mask[rows]]
        return values.to(torch.promote_types(values.dtype, torch.float32))

    def all_replaced(self, rows: Tensor | None = None) -> Tensor:
        """(R, *read): the baselines; padding stays as it is."""
        values = self.input_embeddings(rows)
        baseline = self.baseline_values if rows is None else self.baseline_values[rows]
        return torch.where(self.unit_region(rows), baseline.to(values), values)

    def unit_region(self, rows: Tensor | None = None) -> Tensor:
        return self.spread_units(self.rows.real if rows is None else self.rows.real[rows])

    def on_baseline(self, view: Tensor) -> Self:
        rows = view[self.rows.input[: self.masks]] * self.masks + torch.arange(self.masks, device=self.device)
        single_view = self.rows.on_one_view(rows, self.views)
        return replace(self, rows=single_view, views=1, baseline_values=self.baseline_values[rows])

    def take(self, inputs: Sequence[int]) -> Self:
        row = self.rows_of(inputs)
        values, baseline = self.values[torch.unique(self.rows.mask[row])], self.baseline_values[row]
        rows = self.rows.take(row, self.size[1])
        return replace(self, rows=rows, inputs=len(inputs), values=values, baseline_values=baseline)
