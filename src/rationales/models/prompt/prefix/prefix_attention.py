"""Attention of all rows to one shared prefix, whose keys and values are stored once.

Rows attend to the prefix and to themselves in one softmax. What is stored for the backward pass does not depend on the
prefix: probabilities are computed again, block by block, and only a block has keys and values of the prefix for each of
its rows. No gradient goes to the prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rationales.models.batch.execution import attribute_set
from rationales.models.prompt.prefix.prefix_cache import Prefix

NAME = "rationales-shared-prefix"
SCORES_AT_ONCE = 2**24  # elements of a block of attention scores
_IGNORED = {"is_causal", "position_ids", "cache_position", "use_cache", "output_attentions", "sliding_window"}


@dataclass(eq=False)
class _ActivePrefix:
    prefix: Prefix
    calls: list[int] = field(default_factory=list)  # the layers that used it


_active: ContextVar[_ActivePrefix | None] = ContextVar("prefix", default=None)


class UnsupportedAttentionError(Exception):
    """The model's attention is not the usual one; its prefix goes into a cache instead."""


@contextmanager
def shared_prefix(config: Any, prefix: Prefix) -> Iterator[None]:
    """Inside the block, every layer of the model of this configuration attends to the prefix, too.

    Raises UnsupportedAttentionError for models in which a layer did not, or that have another attention function.
    """
    from transformers import AttentionInterface

    if getattr(config, "_attn_implementation", None) not in ("sdpa", "eager", "flash_attention_2", NAME):
        raise UnsupportedAttentionError(f"attention {getattr(config, '_attn_implementation', None)}")
    AttentionInterface.register(NAME, attend)
    active = _ActivePrefix(prefix)
    token = _active.set(active)
    try:
        with attribute_set(config, "_attn_implementation", NAME):
            yield
    finally:
        _active.reset(token)
    if sorted(active.calls) != list(range(len(prefix.keys))):
        raise UnsupportedAttentionError("layers with an attention of their own")


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """(R, heads, T, size), twice (R, groups, T, size) -> (R, T, heads, size); `attention_mask` is additive.

    The mask is (1 or R, 1, T, T), or (1 or R, 1, T, P + T) where it also masks the prefix.
    """
    active, scaling = _active.get(), options.pop("scaling", None)
    unknown = [name for name, option in options.items() if name not in _IGNORED and not _is_off(option)]
    layer = getattr(module, "layer_idx", None)
    if active is None or attention_mask is None or unknown or layer is None:
        raise UnsupportedAttentionError(f"{type(module).__name__} with {', '.join(unknown)}")
    active.calls.append(layer)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    prefix_key, prefix_value = active.prefix.keys[layer][0], active.prefix.values[layer][0]
    sizes = [(states.shape[-3], states.shape[-1]) for states in (key, value, prefix_key, prefix_value)]
    if len({*sizes, (key.shape[1], query.shape[-1])}) > 1:
        raise UnsupportedAttentionError(f"{type(module).__name__}: heads and sizes of keys and values are {sizes}")
    attended = _SharedPrefixAttention.apply(query, key, value, prefix_key, prefix_value, attention_mask, scale)  # type: ignore[no-untyped-call]
    return cast("Tensor", attended).transpose(1, 2), None


def _is_off(option: Any) -> bool:
    """Whether an option of an attention function has no effect: None, False or 0."""
    return option is None or (isinstance(option, (bool, int, float)) and not option)


class _SharedPrefixAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        prefix_key: Tensor,
        prefix_value: Tensor,
        mask: Tensor,
        scale: float,
    ) -> Tensor:
        attended = torch.empty_like(query)
        for ranges in _blocks(query, key, prefix_key):
            block = _Block(query, key, value, prefix_key, prefix_value, mask, scale, ranges)
            block.write(attended, block.weights().to(value.dtype) @ block.value)
        ctx.save_for_backward(query, key, value, prefix_key, prefix_value, mask, attended)
        ctx.scale = scale
        return attended

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, prefix_key, prefix_value, mask, attended = ctx.saved_tensors
        to_query, to_key, to_value = torch.empty_like(query), torch.zeros_like(key), torch.zeros_like(value)
        first = prefix_key.shape[1]  # no gradient goes to the prefix
        for ranges in _blocks(query, key, prefix_key):
            block = _Block(query, key, value, prefix_key, prefix_value, mask, ctx.scale, ranges)
            outer, weights = block.read(gradient), block.weights()
            to_value[block.rows] += weights[..., first:].transpose(-1, -2).to(value.dtype) @ outer
            # the gradient of a softmax is w (g - sum of w g), and that sum is what was attended to times the gradient
            change = (outer * block.read(attended)).sum(-1, keepdim=True).float()
            by_score = (outer @ block.value.transpose(-1, -2)).float().sub_(change).mul_(weights).to(key.dtype)
            block.write(to_query, by_score @ block.key * ctx.scale)
            to_key[block.rows] += by_score[..., first:].transpose(-1, -2) @ block.query
        return to_query, to_key, to_value, None, None, None, None


def _blocks(query: Tensor, key: Tensor, prefix_key: Tensor) -> Iterator[tuple[slice, slice]]:
    """Ranges of rows and of queries whose scores are computed together."""
    rows, heads, tokens, _ = query.shape
    per_query = heads * (key.shape[2] + prefix_key.shape[1])
    rows_at_once = max(1, SCORES_AT_ONCE // max(1, per_query * tokens))
    queries_at_once = tokens if rows_at_once > 1 else max(1, SCORES_AT_ONCE // per_query)
    for first in range(0, rows, rows_at_once):
        for begin in range(0, tokens, queries_at_once):
            yield slice(first, min(first + rows_at_once, rows)), slice(begin, min(begin + queries_at_once, tokens))


class _Block:
    """Some rows and queries; queries are (r, groups, heads per group x t, size), with the scale in them."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        prefix_key: Tensor,
        prefix_value: Tensor,
        mask: Tensor,
        scale: float,
        block: tuple[slice, slice],
    ) -> None:
        self.rows, self.tokens = block
        self.groups = key.shape[1]
        self.query = self.read(query) * scale
        self.key = _behind(prefix_key, key[self.rows])  # (r, groups, P + T, size)
        self.value = _behind(prefix_value, value[self.rows])
        of_rows = mask if len(mask) == 1 else mask[self.rows]
        self.mask = of_rows[:, :, None, self.tokens]  # (1 or r, 1, 1, t, T or P + T)

    def read(self, values: Tensor) -> Tensor:
        """(R, heads, T, size) -> (r, groups, heads per group x t, size)."""
        selected = values[self.rows, :, self.tokens]
        return selected.reshape(len(selected), self.groups, -1, selected.shape[-1])

    def write(self, target: Tensor, values: Tensor) -> None:
        """The inverse of `read`."""
        selected = target[self.rows, :, self.tokens]
        selected.copy_(values.view(selected.shape))

    def weights(self) -> Tensor:
        """(r, groups, heads per group x t, P + T): the probabilities of attention, in single precision."""
        scores = (self.query @ self.key.transpose(-1, -2)).float()
        by_head = _unflatten(scores, 2, (-1, self.mask.shape[3]))
        by_head[..., scores.shape[-1] - self.mask.shape[-1] :] += self.mask
        return scores.softmax(-1)


def _behind(prefix: Tensor, own: Tensor) -> Tensor:
    """(groups, P, size), (r, groups, T, size) -> (r, groups, P + T, size), for the time of a block."""
    return torch.cat([prefix.to(own.dtype).expand(len(own), -1, -1, -1), own], 2)


def _unflatten(values: Tensor, axis: int, sizes: Sequence[int]) -> Tensor:
    """`Tensor.unflatten`, which has no types."""
    unflatten: Any = values.unflatten
    unflattened: Tensor = unflatten(axis, tuple(sizes))
    return unflattened
