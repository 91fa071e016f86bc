"""Rows of pictures as a Batch: pixels are kept or replaced where the model reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.models import attention
from rationales.models.batch import Batch, Noise, Piece
from rationales.models.precision import copied
from rationales.models.randomness import normal
from rationales.models.threads import weight_count

PATCH = 16 * 16  # pixels


@dataclass(eq=False)
class ImageBatch(Batch):
    """Rows of one picture on one baseline; a unit is a pixel of what the model reads, row by row from the top left."""

    module: nn.Module
    pixels: Tensor  # (inputs, channels, H, W)
    empty: Tensor  # (S, channels, H, W) the baseline of every row

    apart: ClassVar[bool] = False
    reads: ClassVar[int] = 3

    def cost(self) -> list[int]:
        return [1] * self.size[0]

    def weights(self) -> int:
        return weight_count(self.module)

    def positions(self) -> list[int]:
        """A transformer's patches; networks of convolutions take about as many multiplications for each weight."""
        return [max(1, self.size[1] // PATCH)] * self.size[0]

    def forward(self, piece: Piece, keep: Tensor, noise: Noise | None) -> Tensor:
        shown, empty = self.pixels[self.rows.input[piece.row]], self.empty[piece.row]
        real = self.rows.real[piece.row]
        share = torch.where(real, keep, torch.ones_like(keep)).view(len(keep), 1, *shown.shape[2:]).to(shown.dtype)
        mixed = share * shown + (1 - share) * empty  # Eq. 1
        if noise is not None:
            size = shown.square().mean((1, 2, 3), keepdim=True).sqrt()
            mixed = mixed + noise.scale * size * normal(noise.key, shown.shape[1:], shown.dtype)
        return self.forward_from(piece, mixed)

    @property
    def modules(self) -> Sequence[nn.Module]:
        return [self.module]

    @property
    def distinct(self) -> int:
        return self.masks

    def embedded(self, rows: Tensor | None = None) -> Tensor:
        """(R, channels, H, W): the pixels, in single precision at least."""
        pixels = self.pixels[self.rows.input if rows is None else self.rows.input[rows]]
        return pixels.to(torch.promote_types(pixels.dtype, torch.float32))

    def emptied(self, rows: Tensor | None = None) -> Tensor:
        """(R, channels, H, W): the baselines; what is padding stays."""
        pixels = self.embedded(rows)
        return torch.where(self.inside(rows), (self.empty if rows is None else self.empty[rows]).to(pixels), pixels)

    def inside(self, rows: Tensor | None = None) -> Tensor:
        """(R, 1, H, W): no padding."""
        real = self.rows.real if rows is None else self.rows.real[rows]
        return real.view(-1, 1, *self.pixels.shape[2:])

    def forward_from(self, piece: Piece, embedded: Tensor) -> Tensor:
        logits = call(self.module, embedded.to(self.pixels.dtype))
        return self.class_logits(piece, logits)

    def to_units(self, values: Tensor, reduce: str, rows: Tensor | None = None) -> Tensor:
        """(R, channels, H, W) -> (R, n): over the channels."""
        found = (values.abs() if reduce == "norm" else values).sum(1, keepdim=True)
        return (found * self.inside(rows)).flatten(1)

    def seen_on(self, view: Tensor) -> ImageBatch:
        rows = view * self.masks + torch.arange(self.masks, device=self.device)
        seen = replace(self, rows=self.rows.on_one_view(rows, self.views), views=1, empty=self.empty[rows])
        seen.plans = self.plans  # rows of pictures are all alike: a plan for so many holds for any of them
        return seen

    def copied(self, dtype: torch.dtype, apart: bool = False) -> ImageBatch:
        (module,) = copied([self.module], dtype)
        attention.use(module, apart)
        for weight in module.parameters():
            if weight.dim() == 4:  # half precision is fast with a pixel's channels side by side
                weight.data = weight.data.contiguous(memory_format=torch.channels_last)
        pixels, empty = self.pixels.to(dtype), self.empty.to(dtype)
        return replace(self, module=module, pixels=pixels, empty=empty, budget=self.budget_in(dtype))

    def take(self, inputs: Sequence[int]) -> ImageBatch:
        chosen = torch.tensor(list(inputs), device=self.device)
        row = torch.nonzero(torch.isin(self.rows.input, chosen)).flatten()
        return replace(
            self,
            rows=self.rows.take(row, self.size[1]),
            inputs=len(inputs),
            pixels=self.pixels[chosen],
            empty=self.empty[row],
        )


def call(module: nn.Module, pixels: Tensor) -> Tensor:
    """(R, outputs): the logits, whatever the module wraps them in."""
    output: Any = module(pixels)
    found = getattr(output, "logits", output[0] if isinstance(output, tuple) else output)
    if not isinstance(found, Tensor) or found.dim() != 2:
        raise ModelError("the model does not give one row of logits for each picture; is it a classifier?")
    return found
