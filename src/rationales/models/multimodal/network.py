"""The network of an image-text model: logits for pixels, tokens and changed word embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from rationales.models.batch.execution import output_replaced, record_passes
from rationales.models.classes import output_logits
from rationales.models.fast.precision import copy_in_dtype


@dataclass(frozen=True, eq=False)
class ImageTextNetwork:
    """A classifier of pixels and tokens, its embedding layer and the baseline that replaces word embeddings."""

    module: nn.Module
    embedding: nn.Module
    baseline: Tensor  # (hidden,)
    arguments: Mapping[str, Any]  # further arguments of every call
    takes_types: bool

    def logits(
        self, pixels: Tensor, ids: Tensor, attention: Tensor, types: Tensor | None, change: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """(R, outputs): logits of pixels (R, channels, H, W) and tokens (R, T).

        `change` is applied to the word embeddings (R, T, hidden), by a hook on the embedding layer: positions, token
        types and all else are the model's own.
        """
        type_arguments = {"token_type_ids": types} if types is not None and self.takes_types else {}
        pixels = pixels.to(self.dtype)
        with output_replaced(self.embedding, change), fixed_randomness():
            output = self.module(
                pixel_values=pixels, input_ids=ids, attention_mask=attention, **type_arguments, **self.arguments
            )
        logits = output_logits(output, "image and text", rows=len(ids))
        record_passes(len(ids), logits)
        return logits

    @property
    def dtype(self) -> torch.dtype:
        """The precision of pixels: that of the first weight with more than one axis."""
        weights = (weight for weight in self.module.parameters() if weight.is_floating_point() and weight.dim() > 1)
        first = next(weights, None)
        return torch.float32 if first is None else first.dtype

    def in_dtype(self, dtype: torch.dtype) -> ImageTextNetwork:
        """Copy of this network in `dtype`."""
        module, embedding = copy_in_dtype([self.module, self.embedding], dtype)
        return replace(self, module=module, embedding=embedding)


@contextmanager
def fixed_randomness() -> Iterator[None]:
    """Inside the block torch's generator on the CPU starts from one seed; afterwards it is as it was.

    ViLT draws the order of its patches at random in every forward pass.
    """
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(0)
    try:
        yield
    finally:
        torch.set_rng_state(before)
