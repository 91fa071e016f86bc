"""The attention block of an encoder's layer as a sum over the tokens that it reads (Kobayashi et al. 2021).

The block is attention, its linear layer, the residual connection and the layer norm. With the attention weights and the
norm's standard deviation as they are in this forward pass, it is linear in the states of the tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from rationales.methods.attention.trace import EncoderTrace, LayerTrace, norm_scale

CHUNK_NUMBERS = 2**24  # numbers in the vectors that are computed at once


def block_vectors(trace: LayerTrace, count: int, value_bias: bool) -> Iterator[tuple[slice, Tensor]]:
    """Slices of the first `count` tokens i, and for each the vectors (R, I, T, d) that tokens j contribute to i.

    `value_bias`: whether the bias of the values is part of them; it is not a function of the tokens, but attended.
    """
    rows, _, tokens, size = trace.value.shape
    heads, width = trace.value.shape[1], trace.states.shape[-1]
    bias = trace.layer.value.bias
    value = trace.value
    if not value_bias and bias is not None:
        value = value - bias.to(value).view(heads, 1, size)
    weight = trace.layer.attention_output.weight.to(value).view(width, heads, size)
    projected = torch.einsum("rhjs,dhs->rhjd", value, weight)
    scale = norm_scale(trace.layer.attention_norm, trace.attention_norm_input)
    step = max(1, CHUNK_NUMBERS // (rows * tokens * width))
    for first in range(0, count, step):
        queries = slice(first, min(first + step, count))
        vectors = torch.einsum("rhij,rhjd->rijd", trace.attention[:, :, queries], projected)
        index = torch.arange(queries.start, queries.stop, device=vectors.device)
        vectors[:, index - first, index] += trace.states[:, queries]  # the residual connection: i itself
        yield queries, through_norm(trace.layer.attention_norm, vectors, scale[:, queries])


def checked_block_vectors(
    trace: EncoderTrace, layer: LayerTrace, count: int, value_bias: bool
) -> Iterator[tuple[slice, Tensor]]:
    """As `block_vectors`; a ModelError unless the vectors and the block's biases add up to what the block returned."""
    bias = block_bias(layer, value_bias)
    for queries, vectors in block_vectors(layer, count, value_bias):
        real, output = trace.tokens[:, queries, None], layer.attention_norm_output[:, queries]
        trace.check_sum((vectors.sum(2) + bias[:, queries]) * real, output * real, output * real, "an attention block")
        yield queries, vectors


def block_bias(trace: LayerTrace, value_bias: bool = False) -> Tensor:
    """(R, T, d): what the block adds to the vectors: its biases, through the layer norm.

    `value_bias`: whether the vectors have the bias of the values, which then is not added.
    """
    output, norm = trace.layer.attention_output, trace.layer.attention_norm
    bias = torch.zeros(output.in_features, device=trace.states.device, dtype=trace.states.dtype)
    bias_of_values: Tensor | None = trace.layer.value.bias
    if bias_of_values is not None and not value_bias:
        bias = bias_of_values.to(bias)  # attention weights of a token sum to 1
    added = nn.functional.linear(bias, output.weight.to(bias), output.bias.to(bias))
    scale = norm_scale(norm, trace.attention_norm_input)
    return through_norm(norm, added.expand_as(trace.states)[:, :, None], scale)[:, :, 0] + norm.bias.to(bias)


def through_norm(norm: nn.LayerNorm, vectors: Tensor, scale: Tensor) -> Tensor:
    """(R, I, T, d): a layer norm without its bias, `scale` (R, I, 1) being fixed."""
    return (vectors - vectors.mean(-1, keepdim=True)) * scale[:, :, None] * norm.weight.to(vectors)


def normalised_rows(shares: Tensor) -> Tensor:
    """(R, I, T): non-negative numbers divided by their sum over the last axis.

    A row of zeros says nothing about where a token's state comes from; the token keeps what it has.
    """
    total = shares.sum(-1, keepdim=True)
    identity = torch.eye(shares.shape[-1], device=shares.device, dtype=shares.dtype)[: shares.shape[1]]
    return torch.where(total > 0, shares / torch.where(total > 0, total, 1), identity)
