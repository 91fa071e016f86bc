"""A prompt's fixed prefix: its embeddings, and its keys and values, computed once and shared by all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

# address, type and write counter of every weight; which adapters of every layer are switched on, and how strongly
Versions = tuple[list[tuple[int, torch.dtype, int | None]], list[Any]]


@dataclass(frozen=True, eq=False)
class Prefix:
    """The prefix's word embeddings (1, P, hidden), and keys and values of each layer, (1, heads, P, size) each."""

    embeddings: Tensor
    keys: tuple[Tensor, ...] = ()  # none where the prefix is read with every row
    values: tuple[Tensor, ...] = ()

    @property
    def length(self) -> int:
        """P, its number of tokens."""
        return self.embeddings.shape[1]

    def cache(self, rows: int) -> Any:
        """A cache of transformers that begins with these states, shared by so many rows."""
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer, (key, value) in enumerate(zip(self.keys, self.values, strict=True)):
            cache.update(key.expand(rows, -1, -1, -1), value.expand(rows, -1, -1, -1), layer)
        return cache


def with_states(module: nn.Module, embeddings: Tensor) -> Prefix:
    """The prefix with these word embeddings (1, P, hidden), and the module's keys and values; P may be 0."""
    if not embeddings.shape[1]:
        return Prefix(embeddings)
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
    keys, values = (tuple(getattr(layer, name).detach() for layer in layers) for name in ("keys", "values"))
    return Prefix(embeddings, keys, values)


def weight_versions(module: nn.Module) -> Versions:
    """Changes when a weight of the module is written to or replaced, and when an adapter is switched on or off."""
    weights = [
        (weight.data_ptr(), weight.dtype, None if weight.is_inference() else weight._version)  # noqa: SLF001  # the only counter
        for weight in module.parameters()
    ]
    return weights, adapter_states(module)


def adapter_states(module: nn.Module) -> list[Any]:
    """Of every layer with adapters of peft: whether they are off, which are active and merged, and their scaling."""
    names = ("disable_adapters", "active_adapters", "merged_adapters", "scaling")
    # transformers' models have methods of these names
    layers = [layer for layer in module.modules() if isinstance(getattr(layer, "disable_adapters", None), bool)]
    return [[repr(getattr(layer, name, None)) for name in names] for layer in layers]
