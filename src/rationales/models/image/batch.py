"""Rows of images as a Batch: pixels are kept or replaced after preprocessing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rationales.models.batch import Batch, Noise, Piece
from rationales.models.batch.heads import output_logits
from rationales.models.batch.randomness import normal
from rationales.models.batch.threads import weight_count
from rationales.models.fast import attention
from rationales.models.fast.precision import copy_in_dtype

PATCH = 16 * 16  # pixels


@dataclass(eq=False)
class ImageBatch(Batch):
    """Each row is one image on one baseline; units are the preprocessed pixels, row by row from the top left."""

    module: nn.Module
    pixels: Tensor  # (inputs, channels, H, W)
    baseline_pixels: Tensor  # (S, channels, H, W) the baseline of every row

    views_are_networks: ClassVar[bool] = False
    input_axes: ClassVar[int] = 3

    def cost(self) -> list[int]:
        return [1] * self.size[0]

    def weights(self) -> int:
        return weight_count(self.module)

    def positions(self) -> list[int]:
        """The number of patches; a convolutional network does about as many multiplications per weight as a ViT."""
        return [max(1, self.size[1] // PATCH)] * self.size[0]

    def forward(self, piece: Piece, keep: Tensor, noise: Noise | None) -> Tensor:
        pixels, baseline = self.pixels[self.rows.input[piece.row]], self.baseline_pixels[piece.row]
        real = self.rows.real[piece.row]
        share = torch.where(real, keep, torch.ones_like(keep)).view(len(keep), 1, *pixels.shape[2:]).to(pixels.dtype)
        mixed = share * pixels + (1 - share) * baseline  # Eq. 1
        if noise is not None:
            size = pixels.square().mean((1, 2, 3), keepdim=True).sqrt()
            mixed = mixed + noise.scale * size * normal(noise.key, pixels.shape[1:], pixels.dtype)
        return self.forward_from(piece, mixed)

    @property
    def modules(self) -> Sequence[nn.Module]:
        return [self.module]

    @property
    def distinct(self) -> int:
        return self.masks

    def input_embeddings(self, rows: Tensor | None = None) -> Tensor:
        """(R, channels, H, W): the pixels, in single precision at least."""
        pixels = self.pixels[self.rows.input if rows is None else self.rows.input[rows]]
        return pixels.to(torch.promote_types(pixels.dtype, torch.float32))

    def all_replaced(self, rows: Tensor | None = None) -> Tensor:
        """(R, channels, H, W): the baselines; padding stays as it is."""
        pixels = self.input_embeddings(rows)
        baseline = self.baseline_pixels if rows is None else self.baseline_pixels[rows]
        return torch.where(self.unit_region(rows), baseline.to(pixels), pixels)

    def unit_region(self, rows: Tensor | None = None) -> Tensor:
        """(R, 1, H, W) bool: False for padding."""
        real = self.rows.real if rows is None else self.rows.real[rows]
        return real.view(-1, 1, *self.pixels.shape[2:])

    def forward_from(self, piece: Piece, embedded: Tensor) -> Tensor:
        logits = image_logits(self.module, embedded.to(self.pixels.dtype))
        return self.class_logits(piece, logits)

    def to_units(self, values: Tensor, reduce: str, rows: Tensor | None = None) -> Tensor:
        """(R, channels, H, W) -> (R, n): summed over the channels."""
        per_pixel = (values.abs() if reduce == "norm" else values).sum(1, keepdim=True)
        return (per_pixel * self.unit_region(rows)).flatten(1)

    def on_baseline(self, view: Tensor) -> ImageBatch:
        rows = view * self.masks + torch.arange(self.masks, device=self.device)
        single_view = self.rows.on_one_view(rows, self.views)
        batch = replace(self, rows=single_view, views=1, baseline_pixels=self.baseline_pixels[rows])
        batch.plans = self.plans  # all rows of images have one size, so plans for a number of rows stay valid
        return batch

    def in_dtype(self, dtype: torch.dtype, without_masks: bool = False) -> ImageBatch:
        (module,) = copy_in_dtype([self.module], dtype)
        attention.set_unmasked(module, without_masks)
        for weight in module.parameters():
            if weight.dim() == 4:  # half precision is faster with channels last
                weight.data = weight.data.contiguous(memory_format=torch.channels_last)
        pixels, baseline = self.pixels.to(dtype), self.baseline_pixels.to(dtype)
        return replace(self, module=module, pixels=pixels, baseline_pixels=baseline, budget=self.budget_in(dtype))

    def take(self, inputs: Sequence[int]) -> ImageBatch:
        selected = torch.tensor(list(inputs), device=self.device)
        row = torch.nonzero(torch.isin(self.rows.input, selected)).flatten()
        return replace(
            self,
            rows=self.rows.take(row, self.size[1]),
            inputs=len(inputs),
            pixels=self.pixels[selected],
            baseline_pixels=self.baseline_pixels[row],
        )


def image_logits(module: nn.Module, pixels: Tensor) -> Tensor:
    """(R, outputs): the logits of preprocessed images, unwrapped from whatever the module returns."""
    output: Any = module(pixels)
    return output_logits(output, "image")
