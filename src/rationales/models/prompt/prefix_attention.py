"""Attention of all rows to one shared prefix, whose keys and values are never copied.

Rows attend to the prefix and to themselves in one softmax. What is stored for the backward pass does not depend on the
prefix: probabilities are computed again, block by block. No gradient goes to the prefix.
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
from rationales.models.prompt.prefix_cache import PrefixStates

NAME = "rationales-shared-prefix"
SCORES_AT_ONCE = 2**24  # elements of a block of attention scores
_IGNORED = {"is_causal", "position_ids", "cache_position", "use_cache", "output_attentions", "sliding_window"}


@dataclass(eq=False)
class _ActivePrefix:
    states: PrefixStates
    calls: list[int] = field(default_factory=list)  # the layers that used it


_active: ContextVar[_ActivePrefix | None] = ContextVar("prefix", default=None)


class UnsupportedAttentionError(Exception):
    """The model's attention is not the usual one; its prefix goes into a cache instead."""


@contextmanager
def shared_prefix(config: Any, states: PrefixStates) -> Iterator[None]:
    """Inside the block, every layer of the model of this configuration attends to these states, too.

    Raises UnsupportedAttentionError for models in which a layer did not, or that have another attention function.
    """
    from transformers import AttentionInterface

    if getattr(config, "_attn_implementation", None) not in ("sdpa", "eager", "flash_attention_2", NAME):
        raise UnsupportedAttentionError(f"attention {getattr(config, '_attn_implementation', None)}")
    AttentionInterface.register(NAME, attend)
    active = _ActivePrefix(states)
    token = _active.set(active)
    try:
        with attribute_set(config, "_attn_implementation", NAME):
            yield
    finally:
        _active.reset(token)
    if sorted(active.calls) != list(range(len(states.keys))):
        raise UnsupportedAttentionError("layers with an attention of their own")


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """(R, heads, T, size), twice (R, groups, T, size) -> (R, T, heads, size); `attention_mask` is additive.

    The mask is (1 or R, 1, T, T), or (1 or R, 1, T, P + T) where it also masks the prefix.
    """
    active, scaling = _active.get(), options.pop("scaling", None)
    unknown = [name for name, option in options.items() if name not in _IGNORED and option]
    layer = getattr(module, "layer_idx", None)
    if active is None or attention_mask is None or unknown or layer is None:
        raise UnsupportedAttentionError(f"{type(module).__name__} with {', '.join(unknown)}")
    active.calls.append(layer)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    prefix_key, prefix_value = active.states.keys[layer][0], active.states.values[layer][0]
    attended = _SharedPrefixAttention.apply(query, key, value, prefix_key, prefix_value, attention_mask, scale)  # type: ignore[no-untyped-call]
    return cast("Tensor", attended).transpose(1, 2), None


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
        log_normaliser = torch.empty(query.shape[:-1], dtype=torch.float32, device=query.device)
        for ranges in _blocks(query, key, prefix_key):
            block = _Block(query, key, prefix_key, mask, scale, ranges)
            row_weights, prefix_weights = block.scores()
            peak = (
                torch.maximum(row_weights.amax(-1), prefix_weights.amax(-1))
                if prefix_weights.shape[-1]
                else row_weights.amax(-1)
            )
            row_weights, prefix_weights = (
                row_weights.sub_(peak[..., None]).exp_(),
                prefix_weights.sub_(peak[..., None]).exp_(),
            )
            total = row_weights.sum(-1) + prefix_weights.sum(-1)
            mixed = block.times_rows(row_weights, value) + block.times_prefix(prefix_weights, prefix_value)
            block.write(attended, mixed / total[..., None].to(mixed.dtype))
            block.write(log_normaliser, peak + total.log())
        ctx.save_for_backward(query, key, value, prefix_key, prefix_value, mask, attended, log_normaliser)
        ctx.scale = scale
        return attended

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, prefix_key, prefix_value, mask, attended, log_normaliser = ctx.saved_tensors
        to_query, to_key, to_value = torch.empty_like(query), torch.zeros_like(key), torch.zeros_like(value)
        for ranges in _blocks(query, key, prefix_key):
            block = _Block(query, key, prefix_key, mask, ctx.scale, ranges)
            outer = block.read(gradient)
            row_weights, prefix_weights = block.scores()
            normaliser = block.read(log_normaliser)[..., None]
            row_weights, prefix_weights = row_weights.sub_(normaliser).exp_(), prefix_weights.sub_(normaliser).exp_()
            change = (outer * block.read(attended)).sum(-1, keepdim=True).float()
            to_value[block.rows] += block.onto_rows(row_weights, outer)
            row_weights.mul_(block.against_rows(outer, value).float().sub_(change))
            prefix_weights.mul_(block.against_prefix(outer, prefix_value).float().sub_(change))
            mixed = block.times_rows(row_weights, key) + block.times_prefix(prefix_weights, prefix_key)
            block.write(to_query, mixed * ctx.scale)
            to_key[block.rows] += block.onto_rows(row_weights, block.query) * ctx.scale
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
    """Some rows and queries; tensors over queries are (groups, r, heads per group, t, ...)."""

    def __init__(
        self, query: Tensor, key: Tensor, prefix_key: Tensor, mask: Tensor, scale: float, block: tuple[slice, slice]
    ) -> None:
        self.rows, self.tokens = block
        self.groups = key.shape[1]
        self.key, self.prefix_key, self.scale = key, prefix_key, scale
        self.query = self.read(query)
        of_rows = mask if len(mask) == 1 else mask[self.rows]
        self.mask = of_rows[:, 0, self.tokens][None, :, None]  # (1, 1 or r, 1, t, T or P + T)

    def read(self, values: Tensor) -> Tensor:
        """(R, heads, T, ...) -> (groups, r, heads per group, t, ...)."""
        selected = values[self.rows, :, self.tokens]
        return _unflatten(selected, 1, (self.groups, -1)).transpose(0, 1)

    def write(self, target: Tensor, values: Tensor) -> None:
        """The inverse of `read`."""
        target[self.rows, :, self.tokens] = values.transpose(0, 1).flatten(1, 2).to(target.dtype)

    def scores(self) -> tuple[Tensor, Tensor]:
        """Masked scores of the rows' own keys (..., T) and of the prefix (..., P), in single precision."""
        row_scores = self.against_rows(self.query, self.key).float().mul_(self.scale)
        prefix_scores = self.against_prefix(self.query, self.prefix_key).float().mul_(self.scale)
        prefix = self.mask.shape[-1] - row_scores.shape[-1]
        row_scores += self.mask[..., prefix:]
        if prefix:
            prefix_scores += self.mask[..., :prefix]
        return row_scores, prefix_scores

    def against_rows(self, left: Tensor, right: Tensor) -> Tensor:
        """(groups, r, h, t, size), (R, groups, T, size) -> (groups, r, h, t, T): products with every token of a row."""
        per_row = right[self.rows].transpose(0, 1).transpose(-1, -2)  # (groups, r, size, T)
        return _unflatten(left.flatten(2, 3) @ per_row, 2, left.shape[2:4])

    def against_prefix(self, left: Tensor, right: Tensor) -> Tensor:
        """(groups, r, h, t, size), (groups, P, size) -> (groups, r, h, t, P)."""
        return _unflatten(left.flatten(1, 3) @ right.transpose(-1, -2), 1, left.shape[1:4])

    def times_rows(self, weights: Tensor, values: Tensor) -> Tensor:
        """(groups, r, h, t, T), (R, groups, T, size) -> (groups, r, h, t, size): weighted sums over a row's tokens."""
        per_row = values[self.rows].transpose(0, 1)
        return _unflatten(weights.flatten(2, 3).to(values.dtype) @ per_row, 2, weights.shape[2:4])

    def times_prefix(self, weights: Tensor, values: Tensor) -> Tensor:
        """(groups, r, h, t, P), (groups, P, size) -> (groups, r, h, t, size)."""
        return _unflatten(weights.flatten(1, 3).to(values.dtype) @ values, 1, weights.shape[1:4])

    def onto_rows(self, weights: Tensor, values: Tensor) -> Tensor:
        """(groups, r, h, t, T), (groups, r, h, t, size) -> (r, groups, T, size): sums over heads and queries."""
        flat = weights.flatten(2, 3).to(values.dtype).transpose(-1, -2)
        return (flat @ values.flatten(2, 3)).transpose(0, 1)


def _unflatten(values: Tensor, axis: int, sizes: Sequence[int]) -> Tensor:
    """`Tensor.unflatten`, which has no types."""
    unflatten: Any = values.unflatten
    unflattened: Tensor = unflatten(axis, tuple(sizes))
    return unflattened
