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
FORWARD = {"block": 64, "inner": 64, "num_warps": 4, "num_stages": 3}
BACKWARD = {"block": 128, "inner": 32, "num_warps": 4, "num_stages": 3}


def forward(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int, scale: float
) -> tuple[Tensor, Tensor]:
    """(N, heads, size) three times -> (N, heads, size), and the softmax's log-sum-exp in base 2 (heads, N)."""
    attended = torch.empty_like(query)
    logsumexp = torch.empty((query.shape[1], len(query)), device=query.device, dtype=torch.float32)
    with torch.cuda.device_of(query):
        _forward[_blocks(query, ends, longest, FORWARD)](
            query,
            key,
            value,
            attended,
            logsumexp,
            ends,
            scale * LOG2E,
            len(query),
            query.shape[1],
            size=query.shape[2],
            **FORWARD,
        )
    return attended, logsumexp


def backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attended: Tensor,
    logsumexp: Tensor,
    ends: Tensor,
    longest: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradient of `attended` -> gradients of query, key and value."""
    gradient = gradient.contiguous()
    by_query, by_key, by_value = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
    delta = torch.empty_like(logsumexp)
    tokens, heads, size = query.shape
    with torch.cuda.device_of(query):
        _delta[(triton.cdiv(tokens, 64), heads)](gradient, attended, delta, tokens, heads, size=size, block=64)
        _backward_queries[_blocks(query, ends, longest, BACKWARD)](
            query, key, value, gradient, logsumexp, delta, by_query, ends, scale, tokens, heads, size=size, **BACKWARD
        )
        _backward_keys[_blocks(query, ends, longest, BACKWARD)](
            query,
            key,
            value,
            gradient,
            logsumexp,
            delta,
            by_key,
            by_value,
            ends,
            scale,
            tokens,
            heads,
            size=size,
            **BACKWARD,
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
    logsumexp,
    ends,
    scale,
    tokens,
    heads,
    size: tl.constexpr,
    block: tl.constexpr,
    inner: tl.constexpr,
):
    block_index, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = tl.load(ends + row)
    length = tl.load(ends + row + 1) - begin
    if block_index * block >= length:
        return
    step = heads * size
    start = begin.to(tl.int64) * step + head * size
    lane, outer, chunk = tl.arange(0, size), block_index * block + tl.arange(0, block), tl.arange(0, inner)
    inside = (outer < length)[:, None]
    at = start + outer[:, None] * step + lane[None, :]
    queries = tl.load(query + at, inside, 0.0)
    keys = key + start + chunk[None, :] * step + lane[:, None]  # (size, inner)
    values = value + start + chunk[:, None] * step + lane[None, :]  # (inner, size)
    maximum = tl.full([block], float("-inf"), tl.float32)
    weight = tl.zeros([block], tl.float32)
    sums = tl.zeros([block, size], tl.float32)
    full = length // inner * inner
    for first in range(0, full, inner):
        logits = tl.dot(queries, tl.load(keys + first * step)) * scale
        new_maximum = tl.maximum(maximum, tl.max(logits, 1))
        share = tl.math.exp2(logits - new_maximum[:, None])
        shrunk = tl.math.exp2(maximum - new_maximum)
        weight = weight * shrunk + tl.sum(share, 1)
        sums = tl.dot(share.to(value.dtype.element_ty), tl.load(values + first * step), sums * shrunk[:, None])
        maximum = new_maximum
    if full < length:
        valid = full + chunk < length
        logits = tl.dot(queries, tl.load(keys + full * step, valid[None, :], 0.0)) * scale
        logits = tl.where(valid[None, :], logits, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(logits, 1))
        share = tl.math.exp2(logits - new_maximum[:, None])
        shrunk = tl.math.exp2(maximum - new_maximum)
        weight = weight * shrunk + tl.sum(share, 1)
        last = tl.load(values + full * step, valid[:, None], 0.0)
        sums = tl.dot(share.to(value.dtype.element_ty), last, sums * shrunk[:, None])
        maximum = new_maximum
    tl.store(attended + at, (sums / weight[:, None]).to(attended.dtype.element_ty), inside)
    tl.store(logsumexp + head * tokens + begin + outer, maximum + tl.math.log2(weight), outer < length)


@triton.jit
def _delta(gradient, attended, delta, tokens, heads, size: tl.constexpr, block: tl.constexpr):
    """(heads, N): the dot product of each token's gradient with its attention output."""
    token, head, lane = tl.program_id(0) * block + tl.arange(0, block), tl.program_id(1), tl.arange(0, size)
    inside = token < tokens
    at = token[:, None].to(tl.int64) * heads * size + head * size + lane[None, :]
    both = tl.load(gradient + at, inside[:, None], 0.0).to(tl.float32) * tl.load(
        attended + at, inside[:, None], 0.0
    ).to(tl.float32)
    tl.store(delta + head * tokens + token, tl.sum(both, 1), inside)


@triton.jit
def _backward_queries(
    query,
    key,
    value,
    gradient,
    logsumexp,
    delta,
    by_query,
    ends,
    scale,
    tokens,
    heads,
    size: tl.constexpr,
    block: tl.constexpr,
    inner: tl.constexpr,
):
    block_index, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = tl.load(ends + row)
    length = tl.load(ends + row + 1) - begin
    if block_index * block >= length:
        return
    step = heads * size
    start = begin.to(tl.int64) * step + head * size
    lane, outer, chunk = tl.arange(0, size), block_index * block + tl.arange(0, block), tl.arange(0, inner)
    inside = outer < length
    at = start + outer[:, None] * step + lane[None, :]
    queries, dout = tl.load(query + at, inside[:, None], 0.0), tl.load(gradient + at, inside[:, None], 0.0)
    lse = tl.load(logsumexp + head * tokens + begin + outer, inside, 0.0)[:, None]
    delta_own = tl.load(delta + head * tokens + begin + outer, inside, 0.0)[:, None]
    keys, values = start + chunk[:, None] * step + lane[None, :], start + chunk[None, :] * step + lane[:, None]
    sums = tl.zeros([block, size], tl.float32)
    base: tl.constexpr = 1.4426950408889634
    full = length // inner * inner
    for first in range(0, full, inner):
        key_rows = tl.load(key + keys + first * step)  # (inner, size)
        share = tl.math.exp2(tl.dot(queries, tl.trans(key_rows)) * (scale * base) - lse)
        dlogits = share * (tl.dot(dout, tl.load(value + values + first * step)) - delta_own)
        sums = tl.dot(dlogits.to(key.dtype.element_ty), key_rows, sums)
    if full < length:
        valid = full + chunk < length
        key_rows = tl.load(key + keys + full * step, valid[:, None], 0.0)
        share = tl.math.exp2(tl.dot(queries, tl.trans(key_rows)) * (scale * base) - lse)
        share = tl.where(valid[None, :], share, 0.0)
        dlogits = share * (tl.dot(dout, tl.load(value + values + full * step, valid[None, :], 0.0)) - delta_own)
        sums = tl.dot(dlogits.to(key.dtype.element_ty), key_rows, sums)
    tl.store(by_query + at, (sums * scale).to(by_query.dtype.element_ty), inside[:, None])


@triton.jit
def _backward_keys(
    query,
    key,
    value,
    gradient,
    logsumexp,
    delta,
    by_key,
    by_value,
    ends,
    scale,
    tokens,
    heads,
    size: tl.constexpr,
    block: tl.constexpr,
    inner: tl.constexpr,
):
    block_index, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = tl.load(ends + row)
    length = tl.load(ends + row + 1) - begin
    if block_index * block >= length:
        return
    step = heads * size
    start = begin.to(tl.int64) * step + head * size
    lane, outer, chunk = tl.arange(0, size), block_index * block + tl.arange(0, block), tl.arange(0, inner)
    inside = (outer < length)[:, None]
    at = start + outer[:, None] * step + lane[None, :]
    own_keys, own_values = tl.load(key + at, inside, 0.0), tl.load(value + at, inside, 0.0)
    query_index = start + chunk[:, None] * step + lane[None, :]  # (inner, size)
    lines = head * tokens + begin + chunk
    dkey, dvalue = tl.zeros([block, size], tl.float32), tl.zeros([block, size], tl.float32)
    base: tl.constexpr = 1.4426950408889634
    full = length // inner * inner
    for first in range(0, full, inner):
        queries = tl.load(query + query_index + first * step)
        share = tl.math.exp2(
            tl.dot(own_keys, tl.trans(queries)) * (scale * base) - tl.load(logsumexp + lines + first)[None, :]
        )
        dout = tl.load(gradient + query_index + first * step)
        dvalue = tl.dot(share.to(value.dtype.element_ty), dout, dvalue)
        dlogits = share * (tl.dot(own_values, tl.trans(dout)) - tl.load(delta + lines + first)[None, :])
        dkey = tl.dot(dlogits.to(key.dtype.element_ty), queries, dkey)
    if full < length:
        valid = full + chunk < length
        queries = tl.load(query + query_index + full * step, valid[:, None], 0.0)
        lse = tl.load(logsumexp + lines + full, valid, 0.0)
        share = tl.math.exp2(tl.dot(own_keys, tl.trans(queries)) * (scale * base) - lse[None, :])
        share = tl.where(valid[None, :], share, 0.0)
        dout = tl.load(gradient + query_index + full * step, valid[:, None], 0.0)
        dvalue = tl.dot(share.to(value.dtype.element_ty), dout, dvalue)
        dlogits = share * (tl.dot(own_values, tl.trans(dout)) - tl.load(delta + lines + full, valid, 0.0)[None, :])
        dkey = tl.dot(dlogits.to(key.dtype.element_ty), queries, dkey)
    tl.store(by_key + at, (dkey * scale).to(by_key.dtype.element_ty), inside)
    tl.store(by_value + at, dvalue.to(by_value.dtype.element_ty), inside)
