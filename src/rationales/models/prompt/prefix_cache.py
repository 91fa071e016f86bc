"""Keys and values of a prompt's fixed prefix, computed once and shared by all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Versions = list[tuple[int, torch.dtype, int | None]]  # address, type and write counter of every weight


@dataclass(frozen=True, eq=False)
class PrefixStates:
    """Keys and values of each layer, (1, heads, P, size) each."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    def cache(self, rows: int) -> Any:
        """A cache of transformers that begins with these states, shared by so many rows."""
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer, (key, value) in enumerate(zip(self.keys, self.values, strict=True)):
            cache.update(key.expand(rows, -1, -1, -1), value.expand(rows, -1, -1, -1), layer)
        return cache


def prefix_states(module: nn.Module, embeddings: Tensor) -> PrefixStates:
    """The states of a prefix with these word embeddings (1, P, hidden); P may be 0."""
    if not embeddings.shape[1]:
        return PrefixStates((), ())
    from transformers import DynamicCache

    # without a configuration: a layer with a sliding window keeps all keys, and its mask decides what is seen
    cache = DynamicCache()
    with torch.no_grad():
        module(
            inputs_embeds=embeddings,
            position_ids=torch.arange(embeddings.shape[1], device=embeddings.device)[None],
            past_key_values=cache,
            use_cache=True,
        )
    layers: list[Any] = list(cache.layers)
    return PrefixStates(
        tuple(layer.keys.detach() for layer in layers), tuple(layer.values.detach() for layer in layers)
    )


def weight_versions(module: nn.Module) -> Versions:
    """Changes when a weight of the module is written to or replaced."""
    return [
        (weight.data_ptr(), weight.dtype, None if weight.is_inference() else weight._version)  # noqa: SLF001  # the only counter
        for weight in module.parameters()
    ]
