"""Attention within packed rows of unequal length, forward and backward, without atomic additions.

Blocks are small enough that rows of a few hundred tokens fill them. The gradients of queries and those of keys and
values are computed by separate kernels in a fixed order: two more products, and the same bits every time.
"""
# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, no-untyped-def, untyped-decorator"
# Triton has no types, is not installed on most machines, and its kernels are not Python functions.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2E = 1.4426950408889634
# Tokens per block, tokens of the inner loop per step, and Triton's launch options.
FORWARD_BLOCKS = {"block": 64, "inner_block": 64, "num_warps": 4, "num_stages": 3}
BACKWARD_BLOCKS = {"block": 128, "inner_block": 32, "num_warps": 4, "num_stages": 3}


def forward(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int, scale: float
) -> tuple[Tensor, Tensor]:
    """(N, heads, size) three times -> (N, heads, size), and log2 of the softmax normaliser (heads, N)."""
    attended = torch.empty_like(query)
    log_normaliser = torch.empty((query.shape[1], len(query)), device=query.device, dtype=torch.float32)
    with torch.cuda.device_of(query):
        _forward[_blocks(query, ends, longest, FORWARD_BLOCKS)](
            query,
            key,
            value,
            attended,
            log_normaliser,
            ends,
            scale * LOG2E,
            len(query),
            query.shape[1],
            size=query.shape[2],
            **FORWARD_BLOCKS,
        )
    return attended, log_normaliser


def backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attended: Tensor,
    log_normaliser: Tensor,
    ends: Tensor,
    longest: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradient of `attended` -> gradients of query, key and value."""
    gradient = gradient.contiguous()
    by_query, by_key, by_value = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
    gradient_dot_output = torch.empty_like(log_normaliser)
    tokens, heads, size = query.shape
    with torch.cuda.device_of(query):
        _gradient_dot_output[(triton.cdiv(tokens, 64), heads)](
            gradient, attended, gradient_dot_output, tokens, heads, size=size, block=64
        )
        _backward_queries[_blocks(query, ends, longest, BACKWARD_BLOCKS)](
            query,
            key,
            value,
            gradient,
            log_normaliser,
            gradient_dot_output,
            by_query,
            ends,
            scale,
            tokens,
            heads,
            size=size,
            **BACKWARD_BLOCKS,
        )
        _backward_keys[_blocks(query, ends, longest, BACKWARD_BLOCKS)](
            query,
            key,
            value,
            gradient,
            log_normaliser,
            gradient_dot_output,
            by_key,
            by_value,
            ends,
            scale,
            tokens,
            heads,
            size=size,
            **BACKWARD_BLOCKS,
        )
    return by_query, by_key, by_value


def _blocks(query: Tensor, ends: Tensor, longest: int, options: dict[str, int]) -> tuple[int, int, int]:
    """Grid: for every row and head as many blocks as the longest row needs; blocks beyond a row's end do nothing."""
    return triton.cdiv(longest, options["block"]), query.shape[1], len(ends) - 1


@triton.jit
def _forward(
    query,
    key,
    value,
    attended,
    log_normaliser,
    ends,
    scale,
    tokens,
    heads,
    size: tl.constexpr,
    block: tl.constexpr,
    inner_block: tl.constexpr,
):
    block_index, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = tl.load(ends + row)
    length = tl.load(ends + row + 1) - begin
    if block_index * block >= length:
        return
    step = heads * size
    start = begin.to(tl.int64) * step + head * size
    lane, own_tokens, key_tokens = (
        tl.arange(0, size),
        block_index * block + tl.arange(0, block),
        tl.arange(0, inner_block),
    )
    inside = (own_tokens < length)[:, None]
    at = start + own_tokens[:, None] * step + lane[None, :]
    queries = tl.load(query + at, inside, 0.0)
    keys = key + start + key_tokens[None, :] * step + lane[:, None]  # (size, other)
    values = value + start + key_tokens[:, None] * step + lane[None, :]  # (other, size)
    maximum = tl.full([block], float("-inf"), tl.float32)
    weight = tl.zeros([block], tl.float32)
    sums = tl.zeros([block, size], tl.float32)
    full_length = length // inner_block * inner_block
    for first in range(0, full_length, inner_block):
        logits = tl.dot(queries, tl.load(keys + first * step)) * scale
        new_maximum = tl.maximum(maximum, tl.max(logits, 1))
        share = tl.math.exp2(logits - new_maximum[:, None])
        shrunk = tl.math.exp2(maximum - new_maximum)
        weight = weight * shrunk + tl.sum(share, 1)
        sums = tl.dot(share.to(value.dtype.element_ty), tl.load(values + first * step), sums * shrunk[:, None])
        maximum = new_maximum
    if full_length < length:
        valid = full_length + key_tokens < length
        logits = tl.dot(queries, tl.load(keys + full_length * step, valid[None, :], 0.0)) * scale
        logits = tl.where(valid[None, :], logits, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(logits, 1))
        share = tl.math.exp2(logits - new_maximum[:, None])
        shrunk = tl.math.exp2(maximum - new_maximum)
        weight = weight * shrunk + tl.sum(share, 1)
        last = tl.load(values + full_length * step, valid[:, None], 0.0)
        sums = tl.dot(share.to(value.dtype.element_ty), last, sums * shrunk[:, None])
        maximum = new_maximum
    tl.store(attended + at, (sums / weight[:, None]).to(attended.dtype.element_ty), inside)
    tl.store(log_normaliser + head * tokens + begin + own_tokens, maximum + tl.math.log2(weight), own_tokens < length)


@triton.jit
def _gradient_dot_output(
    gradient, attended, gradient_dot_output, tokens, heads, size: tl.constexpr, block: tl.constexpr
):
    """(heads, N): the dot product of each token's gradient with its attention output."""
    token, head, lane = tl.program_id(0) * block + tl.arange(0, block), tl.program_id(1), tl.arange(0, size)
    inside = token < tokens
    at = token[:, None].to(tl.int64) * heads * size + head * size + lane[None, :]
    both = tl.load(gradient + at, inside[:, None], 0.0).to(tl.float32) * tl.load(
        attended + at, inside[:, None], 0.0
    ).to(tl.float32)
    tl.store(gradient_dot_output + head * tokens + token, tl.sum(both, 1), inside)


@triton.jit
def _backward_queries(
    query,
    key,
    value,
    gradient,
    log_normaliser,
    gradient_dot_output,
    by_query,
    ends,
    scale,
    tokens,
    heads,
    size: tl.constexpr,
    block: tl.constexpr,
    inner_block: tl.constexpr,
):
    block_index, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = tl.load(ends + row)
    length = tl.load(ends + row + 1) - begin
    if block_index * block >= length:
        return
    step = heads * size
    start = begin.to(tl.int64) * step + head * size
    lane, own_tokens, key_tokens = (
        tl.arange(0, size),
        block_index * block + tl.arange(0, block),
        tl.arange(0, inner_block),
    )
    inside = own_tokens < length
    at = start + own_tokens[:, None] * step + lane[None, :]
    queries, output_gradient = tl.load(query + at, inside[:, None], 0.0), tl.load(gradient + at, inside[:, None], 0.0)
    normaliser = tl.load(log_normaliser + head * tokens + begin + own_tokens, inside, 0.0)[:, None]
    projection = tl.load(gradient_dot_output + head * tokens + begin + own_tokens, inside, 0.0)[:, None]
    keys, values = (
        start + key_tokens[:, None] * step + lane[None, :],
        start + key_tokens[None, :] * step + lane[:, None],
    )
    sums = tl.zeros([block, size], tl.float32)
    base: tl.constexpr = 1.4426950408889634
    full_length = length // inner_block * inner_block
    for first in range(0, full_length, inner_block):
        key_chunk = tl.load(key + keys + first * step)  # (other, size)
        weight = tl.math.exp2(tl.dot(queries, tl.trans(key_chunk)) * (scale * base) - normaliser)
        logit_gradient = weight * (tl.dot(output_gradient, tl.load(value + values + first * step)) - projection)
        sums = tl.dot(logit_gradient.to(key.dtype.element_ty), key_chunk, sums)
    if full_length < length:
        valid = full_length + key_tokens < length
        key_chunk = tl.load(key + keys + full_length * step, valid[:, None], 0.0)
        weight = tl.math.exp2(tl.dot(queries, tl.trans(key_chunk)) * (scale * base) - normaliser)
        weight = tl.where(valid[None, :], weight, 0.0)
        logit_gradient = weight * (
            tl.dot(output_gradient, tl.load(value + values + full_length * step, valid[None, :], 0.0)) - projection
        )
        sums = tl.dot(logit_gradient.to(key.dtype.element_ty), key_chunk, sums)
    tl.store(by_query + at, (sums * scale).to(by_query.dtype.element_ty), inside[:, None])


@triton.jit
def _backward_keys(
    query,
    key,
    value,
    gradient,
    log_normaliser,
    gradient_dot_output,
    by_key,
    by_value,
    ends,
    scale,
    tokens,
    heads,
    size: tl.constexpr,
    block: tl.constexpr,
    inner_block: tl.constexpr,
):
    block_index, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = tl.load(ends + row)
    length = tl.load(ends + row + 1) - begin
    if block_index * block >= length:
        return
    step = heads * size
    start = begin.to(tl.int64) * step + head * size
    lane, own_tokens, query_tokens = (
        tl.arange(0, size),
        block_index * block + tl.arange(0, block),
        tl.arange(0, inner_block),
    )
    inside = (own_tokens < length)[:, None]
    at = start + own_tokens[:, None] * step + lane[None, :]
    own_keys, own_values = tl.load(key + at, inside, 0.0), tl.load(value + at, inside, 0.0)
    query_offsets = start + query_tokens[:, None] * step + lane[None, :]  # (other, size)
    lines = head * tokens + begin + query_tokens
    key_gradient, value_gradient = tl.zeros([block, size], tl.float32), tl.zeros([block, size], tl.float32)
    base: tl.constexpr = 1.4426950408889634
    full_length = length // inner_block * inner_block
    for first in range(0, full_length, inner_block):
        queries = tl.load(query + query_offsets + first * step)
        weight = tl.math.exp2(
            tl.dot(own_keys, tl.trans(queries)) * (scale * base) - tl.load(log_normaliser + lines + first)[None, :]
        )
        output_gradient = tl.load(gradient + query_offsets + first * step)
        value_gradient = tl.dot(weight.to(value.dtype.element_ty), output_gradient, value_gradient)
        logit_gradient = weight * (
            tl.dot(own_values, tl.trans(output_gradient)) - tl.load(gradient_dot_output + lines + first)[None, :]
        )
        key_gradient = tl.dot(logit_gradient.to(key.dtype.element_ty), queries, key_gradient)
    if full_length < length:
        valid = full_length + query_tokens < length
        queries = tl.load(query + query_offsets + full_length * step, valid[:, None], 0.0)
        normaliser = tl.load(log_normaliser + lines + full_length, valid, 0.0)
        weight = tl.math.exp2(tl.dot(own_keys, tl.trans(queries)) * (scale * base) - normaliser[None, :])
        weight = tl.where(valid[None, :], weight, 0.0)
        output_gradient = tl.load(gradient + query_offsets + full_length * step, valid[:, None], 0.0)
        value_gradient = tl.dot(weight.to(value.dtype.element_ty), output_gradient, value_gradient)
        logit_gradient = weight * (
            tl.dot(own_values, tl.trans(output_gradient))
            - tl.load(gradient_dot_output + lines + full_length, valid, 0.0)[None, :]
        )
        key_gradient = tl.dot(logit_gradient.to(key.dtype.element_ty), queries, key_gradient)
    tl.store(by_key + at, (key_gradient * scale).to(by_key.dtype.element_ty), inside)
    tl.store(by_value + at, value_gradient.to(by_value.dtype.element_ty), inside)
