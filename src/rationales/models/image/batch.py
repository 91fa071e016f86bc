"""Rows of images as a Batch: pixels are kept or replaced after preprocessing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rationales.errors import OptionError
from rationales.models.batch import Noise, Piece
from rationales.models.batch.execution import record_passes
from rationales.models.batch.rows import normal
from rationales.models.batch.value_batch import ValueBatch
from rationales.models.classes import output_logits
from rationales.models.fast import attention
from rationales.models.fast.precision import copy_in_dtype
from rationales.models.image.baselines import blur, blur_radius

PATCH = 16 * 16  # pixels


@dataclass(eq=False)
class ImageBatch(ValueBatch):
    """Each row is one image on one baseline; units are the preprocessed pixels, row by row from the top left.

    values: (inputs, channels, H, W); baseline_values: (S, channels, H, W).
    """

    input_axes: ClassVar[int] = 3

    known_logits: Tensor | None = field(default=None, init=False, repr=False)  # (inputs, classes), as `known_baseline`

    def full_logits(self) -> Tensor:
        """(S, classes): an image is the same on every baseline, so each goes through the model once."""
        with torch.no_grad(), self.threads():
            logits = self.known_logits
            if logits is None:
                first = torch.arange(self.distinct, device=self.device)
                logits = self.logits_from(self.input_embeddings(first))
        return logits.to(self.dtype)[self.rows.mask]

    def gather(self, values: Tensor) -> list[Tensor]:
        """(S, n) per row -> (n,) per image, the mean over baselines; nothing is read from the device."""
        blended = torch.where(self.rows.real, values * self.rows.blend.to(values.dtype), 0.0)
        return list(torch.zeros_like(values[: self.inputs]).index_add(0, self.rows.input, blended))

    def cost(self) -> list[int]:
        return [1] * self.size[0]

    def positions(self) -> list[int]:
        """The number of patches; a convolutional network does about as many multiplications per weight as a ViT."""
        return [max(1, self.size[1] // PATCH)] * self.size[0]

    def spread_units(self, units: Tensor) -> Tensor:
        """(R, n) -> (R, 1, H, W)."""
        return units.view(-1, 1, *self.values.shape[2:])

    def scaled_noise(self, values: Tensor, row: Tensor, noise: Noise) -> Tensor:  # rows have one size
        size = values.square().mean((1, 2, 3), keepdim=True).sqrt()
        return noise.scale * size * normal(noise.key, values.shape[1:], values.dtype)

    def forward_from(self, piece: Piece, values: Tensor) -> Tensor:
        return self.class_logits(piece, image_logits(self.module, values.to(self.values.dtype)))

    def to_units(self, values: Tensor, reduce: str, rows: Tensor | None = None) -> Tensor:
        """(R, channels, H, W) -> (R, n): summed over the channels."""
        per_pixel = (values.abs() if reduce == "norm" else values).sum(1, keepdim=True)
        return (per_pixel * self.unit_region(rows)).flatten(1)

    def on_baseline(self, view: Tensor) -> ImageBatch:
        batch = super().on_baseline(view)
        batch.plans = self.plans  # all rows of images have one size, so plans for a number of rows stay valid
        return batch

    def with_baseline(self, name: str) -> ImageBatch:
        """The same images on one baseline, a blur of themselves: `blur-N`, N the radius in pixels.

        A blur of the preprocessed pixels is that of the image, preprocessed, which other baselines are not.
        """
        if name in ("black", "white", "mean", "noise"):
            raise OptionError(
                f"a method can only replace pixels by a blur itself (blur-10); load the model with {name}"
            )
        real = self.spread_units(self.rows.real[: self.masks])
        blurred = blur(self.values.to(self.dtype), blur_radius(name), real)
        single = self.on_baseline(torch.zeros(self.inputs, dtype=torch.long, device=self.device))
        return replace(single, baseline_values=blurred.to(self.values.dtype))

    def in_dtype(self, dtype: torch.dtype, without_masks: bool = False) -> ImageBatch:
        (module,) = copy_in_dtype([self.module], dtype)
        attention.set_unmasked(module, without_masks)
        for weight in module.parameters():
            if weight.dim() == 4 and dtype != self.values.dtype:  # half precision is faster with channels last
                weight.data = weight.data.contiguous(memory_format=torch.channels_last)
        values, baseline = self.values.to(dtype), self.baseline_values.to(dtype)
        return replace(self, module=module, values=values, baseline_values=baseline, budget=self.budget_in(dtype))


def image_logits(module: nn.Module, pixels: Tensor) -> Tensor:
    """(R, outputs): the logits of preprocessed images, unwrapped from whatever the module returns."""
    output: Any = module(pixels)
    logits = output_logits(output, "image")
    record_passes(len(pixels), logits)
    return logits
