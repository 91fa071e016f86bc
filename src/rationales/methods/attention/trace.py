"""What happens inside an encoder in one forward pass, recorded by hooks.

Attention weights are computed from the recorded queries and keys, so that they are the same whichever attention the
model runs with (eager, SDPA, flash), and nothing about the model has to be switched. That they, times the recorded
values, are what the model's own attention returned is verified every time; a model with another attention (relative
positions, a sliding window) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from itertools import chain, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.methods.attention.architectures import INSTEAD, Encoder
from rationales.models.batch import Batch
from rationales.models.batch.rows import Block
from rationales.models.encoder_layers import EncoderLayer
from rationales.models.text.batch import TextBatch

# largest difference between the attention's output and ours, relative to the largest value
MAX_DIFFERENCE = {torch.float64: 1e-4, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """One layer's pass over R rows of T tokens; d: hidden size, H: heads."""

    layer: EncoderLayer
    states: Tensor  # (R, T, d): its input
    attention: Tensor  # (R, H, T, T): weights of the tokens (last axis) that each token attends to
    value: Tensor  # (R, H, T, d / H): value vectors
    context: Tensor  # (R, T, d) in the model's precision: the attention's output, before its linear layer
    attention_norm_input: Tensor  # (R, T, d)
    attention_norm_output: Tensor  # (R, T, d)
    activation_slope: Tensor  # (R, T, inner): activation(z) / z in the feed-forward network
    output_norm_input: Tensor  # (R, T, d)
    result: Tensor  # (R, T, d): its output


@dataclass(frozen=True, eq=False)
class EncoderTrace:
    """A forward pass of R rows; tensors are in single precision at least."""

    method: str  # that reads it
    encoder: Encoder
    layers: Sequence[LayerTrace]
    tokens: Tensor  # (R, T) bool: tokens, not padding
    head_slopes: Sequence[Sequence[Tensor]]  # (R, width): activation(z) / z after the linear layers of each readout
    final_norm_input: Tensor | None  # (R, T, d)
    logits: Tensor  # (R, classes) of the batch

    def check_sum(self, total: Tensor, actual: Tensor, terms: Tensor, name: str) -> None:
        """Raise a ModelError unless a decomposition's `total` is what the model computed, the `actual` values.

        terms: what differences are measured by: the largest of these values.
        """
        if not _is_close(total, actual, terms, self.layers[0].context.dtype):
            raise ModelError(
                f"{self.method} takes a model apart by its weights, and the sum is not {name} (quantised or "
                "adapted layers, a hook that changes what a module returns, or a forward function of its own?); load "
                f"the plain model, or {INSTEAD}"
            )


def trace_encoder(method: str, batch: Batch, block: Block, encoder: Encoder, values: Tensor) -> EncoderTrace:
    """A forward pass of the block's rows from the input `values` (R, *read), in whatever gradient mode is on."""
    calls = _Calls(method)
    with _recorded(encoder, calls.record):
        logits = batch.forward_from(block.piece(1), values)
    if not encoder.is_stock:
        _check_read_tokens(method, batch, block, encoder, values, logits)
    rows, count = calls.input(encoder.layers[0].module).shape[:2]
    if isinstance(batch, TextBatch):
        tokens = batch.attention[block.row, :count].bool()
    else:
        tokens = torch.ones(rows, count, dtype=torch.bool, device=batch.device)
    return EncoderTrace(
        method=method,
        encoder=encoder,
        layers=[_layer_trace(calls, layer, tokens, encoder.heads) for layer in encoder.layers],
        tokens=tokens,
        head_slopes=[
            [slope(calls.output(before), calls.input(after)) for before, after in pairwise(readout)]
            for readout in encoder.readouts
        ],
        final_norm_input=None if encoder.final_norm is None else calls.input(encoder.final_norm),
        logits=logits,
    )


def slope(before: Tensor, after: Tensor) -> Tensor:
    """after / before, and 0 where `before` is 0: an activation as a line through the origin."""
    return torch.where(before == 0, torch.zeros_like(after), after / torch.where(before == 0, 1, before))


def norm_scale(norm: nn.LayerNorm, states: Tensor) -> Tensor:
    """(..., 1): the reciprocal of the standard deviation that a layer norm divides `states` by."""
    return torch.rsqrt(states.var(-1, unbiased=False, keepdim=True) + norm.eps)


def by_head(vectors: Tensor, heads: int) -> Tensor:
    """(R, T, d) -> (R, H, T, d / H)."""
    return vectors.view(*vectors.shape[:2], heads, -1).transpose(1, 2)


def _layer_trace(calls: _Calls, layer: EncoderLayer, tokens: Tensor, heads: int) -> LayerTrace:
    query, key, value = (by_head(calls.output(linear), heads) for linear in (layer.query, layer.key, layer.value))
    logits = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    attention = logits.masked_fill(~tokens[:, None, None, :], -torch.inf).softmax(-1)
    context = calls.recorded[layer.attention_output][0]
    _check_attention(calls.method, attention @ value, context, tokens)
    return LayerTrace(
        layer=layer,
        states=calls.input(layer.module),
        attention=attention,
        value=value,
        context=context,
        attention_norm_input=calls.input(layer.attention_norm),
        attention_norm_output=calls.output(layer.attention_norm),
        activation_slope=slope(calls.output(layer.intermediate), calls.input(layer.output)),
        output_norm_input=calls.input(layer.output_norm),
        result=calls.output(layer.module),
    )


def _check_attention(method: str, ours: Tensor, context: Tensor, tokens: Tensor) -> None:
    """Raise a ModelError unless weights times values, (R, H, T, d / H), are the attention's output (R, T, d)."""
    actual = context.to(ours.dtype) * tokens[..., None]
    if not _is_close(ours.transpose(1, 2).flatten(2) * tokens[..., None], actual, actual, context.dtype):
        raise ModelError(
            f"{method} computes attention as softmax(Q K^T / sqrt(d)) V, and this model's attention returns "
            f"something else (relative positions, a sliding window or an attention of its own?); {INSTEAD}"
        )


def _check_read_tokens(
    method: str, batch: Batch, block: Block, encoder: Encoder, values: Tensor, logits: Tensor
) -> None:
    """Raise a ModelError unless the logits stay the same when all states but the read tokens' are lost at the end."""
    count = encoder.read_tokens

    def keep_first(_module: nn.Module, _arguments: Any, output: Any) -> Any:
        states = output[0] if isinstance(output, tuple) else output
        first = torch.cat([states[:, :count], torch.zeros_like(states[:, count:])], 1)
        return (first, *output[1:]) if isinstance(output, tuple) else first

    with ExitStack() as stack, torch.no_grad():
        stack.callback(encoder.layers[-1].module.register_forward_hook(keep_first).remove)
        reduced = batch.forward_from(block.piece(1), values)
    if not _is_close(reduced, logits, logits, logits.dtype):
        read = "token" if count == 1 else f"{count} tokens"
        raise ModelError(
            f"{method} is about the state of the first {read}, and this {type(batch.modules[block.view]).__name__} "
            f"reads others, too (a mean over tokens, or a head of its own?); {INSTEAD}"
        )


def _is_close(ours: Tensor, actual: Tensor, terms: Tensor, dtype: torch.dtype) -> bool:
    """Whether values are equal up to the rounding of the model's precision, relative to the largest of the `terms`."""
    with torch.no_grad():
        largest = MAX_DIFFERENCE[dtype] * terms.abs().amax()
        return not bool((ours - actual).abs().amax() > largest)  # NaN is reported with the scores


class _Calls:
    """The first argument and the output of every recorded module."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.recorded: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def record(self, module: nn.Module, arguments: Any, keywords: Any, output: Any) -> None:
        """A forward hook."""
        if module in self.recorded:
            raise ModelError(
                f"{self.method} expects every layer to run once in a forward pass, and a {type(module).__name__} ran "
                f"twice (shared layers, or chunk_size_feed_forward?); {INSTEAD}"
            )
        first = arguments[0] if arguments else next(iter(keywords.values()))
        self.recorded[module] = (first, output[0] if isinstance(output, tuple) else output)

    def input(self, module: nn.Module) -> Tensor:
        """Its first argument, in single precision at least."""
        return self._tensors(module)[0]

    def output(self, module: nn.Module) -> Tensor:
        """Its output, in single precision at least."""
        return self._tensors(module)[1]

    def _tensors(self, module: nn.Module) -> tuple[Tensor, Tensor]:
        if module not in self.recorded:
            raise ModelError(
                f"{self.method} reads the sub-modules of the encoder, and a {type(module).__name__} did not run in the "
                f"forward pass (a fused or compiled layer?); load the plain model, or {INSTEAD}"
            )
        first, output = self.recorded[module]
        wide = torch.promote_types(first.dtype, torch.float32)
        return first.to(wide), output.to(wide)


@contextmanager
def _recorded(encoder: Encoder, record: Callable[[nn.Module, Any, Any, Any], None]) -> Iterator[None]:
    """Inside the block, `record` is called after every module of the encoder that decompositions read."""
    modules = [*chain.from_iterable(encoder.readouts), *([] if encoder.final_norm is None else [encoder.final_norm])]
    for layer in encoder.layers:
        modules += [getattr(layer, field.name) for field in fields(layer)]
    with ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_hook(record, with_kwargs=True).remove)
        yield
