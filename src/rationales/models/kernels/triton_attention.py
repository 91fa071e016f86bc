"""Attention inside rows of unequal length that stand one after the other, there and back, without atomic sums.

Blocks are small enough that rows of a few hundred tokens fill them. Slopes of queries and those of keys and values are
gathered apart, each by its own block in one order: two products more, and the same bits every time.
"""
# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, no-untyped-def, untyped-decorator"
# Triton has no types, is not there on most machines, and its kernels are no Python functions.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2E = 1.4426950408889634
# How many tokens a block gathers for, how many others it looks at at once, and how a card runs it.
AHEAD = {"block": 64, "other": 64, "num_warps": 4, "num_stages": 3}
BACK = {"block": 128, "other": 32, "num_warps": 4, "num_stages": 3}


def forward(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int, scale: float
) -> tuple[Tensor, Tensor]:
    """(N, heads, size) three times -> (N, heads, size); and log2 of what was divided by, (heads, N)."""
    found = torch.empty_like(query)
    total = torch.empty((query.shape[1], len(query)), device=query.device, dtype=torch.float32)
    with torch.cuda.device_of(query):
        _forward[_blocks(query, ends, longest, AHEAD)](
            query,
            key,
            value,
            found,
            total,
            ends,
            scale * LOG2E,
            len(query),
            query.shape[1],
            size=query.shape[2],
            **AHEAD,
        )
    return found, total


def backward(
    slope: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    found: Tensor,
    total: Tensor,
    ends: Tensor,
    longest: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Slopes of what was found -> those of query, key and value."""
    slope = slope.contiguous()
    by_query, by_key, by_value = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
    mean = torch.empty_like(total)
    tokens, heads, size = query.shape
    with torch.cuda.device_of(query):
        _along[(triton.cdiv(tokens, 64), heads)](slope, found, mean, tokens, heads, size=size, block=64)
        _back_queries[_blocks(query, ends, longest, BACK)](
            query, key, value, slope, total, mean, by_query, ends, scale, tokens, heads, size=size, **BACK
        )
        _back_keys[_blocks(query, ends, longest, BACK)](
            query, key, value, slope, total, mean, by_key, by_value, ends, scale, tokens, heads, size=size, **BACK
        )
    return by_query, by_key, by_value


def _blocks(query: Tensor, ends: Tensor, longest: int, how: dict[str, int]) -> tuple[int, int, int]:
    """Of every row and head as many as the longest row needs; those beyond a row's end do nothing."""
    return triton.cdiv(longest, how["block"]), query.shape[1], len(ends) - 1


@triton.jit
def _forward(
    query,
    key,
    value,
    found,
    total,
    ends,
    scale,
    tokens,
    heads,
    size: tl.constexpr,
    block: tl.constexpr,
    other: tl.constexpr,
):
    part, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = tl.load(ends + row)
    length = tl.load(ends + row + 1) - begin
    if part * block >= length:
        return
    step = heads * size
    start = begin.to(tl.int64) * step + head * size
    lane, mine, theirs = tl.arange(0, size), part * block + tl.arange(0, block), tl.arange(0, other)
    inside = (mine < length)[:, None]
    at = start + mine[:, None] * step + lane[None, :]
    asked = tl.load(query + at, inside, 0.0)
    keys = key + start + theirs[None, :] * step + lane[:, None]  # (size, other)
    values = value + start + theirs[:, None] * step + lane[None, :]  # (other, size)
    most = tl.full([block], float("-inf"), tl.float32)
    weight = tl.zeros([block], tl.float32)
    sums = tl.zeros([block, size], tl.float32)
    full = length // other * other
    for first in range(0, full, other):
        seen = tl.dot(asked, tl.load(keys + first * step)) * scale
        above = tl.maximum(most, tl.max(seen, 1))
        share = tl.math.exp2(seen - above[:, None])
        shrunk = tl.math.exp2(most - above)
        weight = weight * shrunk + tl.sum(share, 1)
        sums = tl.dot(share.to(value.dtype.element_ty), tl.load(values + first * step), sums * shrunk[:, None])
        most = above
    if full < length:
        left = full + theirs < length
        seen = tl.dot(asked, tl.load(keys + full * step, left[None, :], 0.0)) * scale
        seen = tl.where(left[None, :], seen, float("-inf"))
        above = tl.maximum(most, tl.max(seen, 1))
        share = tl.math.exp2(seen - above[:, None])
        shrunk = tl.math.exp2(most - above)
        weight = weight * shrunk + tl.sum(share, 1)
        last = tl.load(values + full * step, left[:, None], 0.0)
        sums = tl.dot(share.to(value.dtype.element_ty), last, sums * shrunk[:, None])
        most = above
    tl.store(found + at, (sums / weight[:, None]).to(found.dtype.element_ty), inside)
    tl.store(total + head * tokens + begin + mine, most + tl.math.log2(weight), mine < length)


@triton.jit
def _along(slope, found, mean, tokens, heads, size: tl.constexpr, block: tl.constexpr):
    """(heads, N): what each token's slope has along what was found."""
    token, head, lane = tl.program_id(0) * block + tl.arange(0, block), tl.program_id(1), tl.arange(0, size)
    inside = token < tokens
    at = token[:, None].to(tl.int64) * heads * size + head * size + lane[None, :]
    both = tl.load(slope + at, inside[:, None], 0.0).to(tl.float32) * tl.load(found + at, inside[:, None], 0.0).to(
        tl.float32
    )
    tl.store(mean + head * tokens + token, tl.sum(both, 1), inside)


@triton.jit
def _back_queries(
    query,
    key,
    value,
    slope,
    total,
    mean,
    by_query,
    ends,
    scale,
    tokens,
    heads,
    size: tl.constexpr,
    block: tl.constexpr,
    other: tl.constexpr,
):
    part, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = tl.load(ends + row)
    length = tl.load(ends + row + 1) - begin
    if part * block >= length:
        return
    step = heads * size
    start = begin.to(tl.int64) * step + head * size
    lane, mine, theirs = tl.arange(0, size), part * block + tl.arange(0, block), tl.arange(0, other)
    inside = mine < length
    at = start + mine[:, None] * step + lane[None, :]
    asked, pull = tl.load(query + at, inside[:, None], 0.0), tl.load(slope + at, inside[:, None], 0.0)
    level = tl.load(total + head * tokens + begin + mine, inside, 0.0)[:, None]
    along = tl.load(mean + head * tokens + begin + mine, inside, 0.0)[:, None]
    keys, values = start + theirs[:, None] * step + lane[None, :], start + theirs[None, :] * step + lane[:, None]
    sums = tl.zeros([block, size], tl.float32)
    base: tl.constexpr = 1.4426950408889634
    full = length // other * other
    for first in range(0, full, other):
        near = tl.load(key + keys + first * step)  # (other, size)
        share = tl.math.exp2(tl.dot(asked, tl.trans(near)) * (scale * base) - level)
        back = share * (tl.dot(pull, tl.load(value + values + first * step)) - along)
        sums = tl.dot(back.to(key.dtype.element_ty), near, sums)
    if full < length:
        left = full + theirs < length
        near = tl.load(key + keys + full * step, left[:, None], 0.0)
        share = tl.math.exp2(tl.dot(asked, tl.trans(near)) * (scale * base) - level)
        share = tl.where(left[None, :], share, 0.0)
        back = share * (tl.dot(pull, tl.load(value + values + full * step, left[None, :], 0.0)) - along)
        sums = tl.dot(back.to(key.dtype.element_ty), near, sums)
    tl.store(by_query + at, (sums * scale).to(by_query.dtype.element_ty), inside[:, None])


@triton.jit
def _back_keys(
    query,
    key,
    value,
    slope,
    total,
    mean,
    by_key,
    by_value,
    ends,
    scale,
    tokens,
    heads,
    size: tl.constexpr,
    block: tl.constexpr,
    other: tl.constexpr,
):
    part, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = tl.load(ends + row)
    length = tl.load(ends + row + 1) - begin
    if part * block >= length:
        return
    step = heads * size
    start = begin.to(tl.int64) * step + head * size
    lane, mine, theirs = tl.arange(0, size), part * block + tl.arange(0, block), tl.arange(0, other)
    inside = (mine < length)[:, None]
    at = start + mine[:, None] * step + lane[None, :]
    near, worth = tl.load(key + at, inside, 0.0), tl.load(value + at, inside, 0.0)
    askers = start + theirs[:, None] * step + lane[None, :]  # (other, size)
    lines = head * tokens + begin + theirs
    of_key, of_value = tl.zeros([block, size], tl.float32), tl.zeros([block, size], tl.float32)
    base: tl.constexpr = 1.4426950408889634
    full = length // other * other
    for first in range(0, full, other):
        asked = tl.load(query + askers + first * step)
        share = tl.math.exp2(tl.dot(near, tl.trans(asked)) * (scale * base) - tl.load(total + lines + first)[None, :])
        pull = tl.load(slope + askers + first * step)
        of_value = tl.dot(share.to(value.dtype.element_ty), pull, of_value)
        back = share * (tl.dot(worth, tl.trans(pull)) - tl.load(mean + lines + first)[None, :])
        of_key = tl.dot(back.to(key.dtype.element_ty), asked, of_key)
    if full < length:
        left = full + theirs < length
        asked = tl.load(query + askers + full * step, left[:, None], 0.0)
        level = tl.load(total + lines + full, left, 0.0)
        share = tl.math.exp2(tl.dot(near, tl.trans(asked)) * (scale * base) - level[None, :])
        share = tl.where(left[None, :], share, 0.0)
        pull = tl.load(slope + askers + full * step, left[:, None], 0.0)
        of_value = tl.dot(share.to(value.dtype.element_ty), pull, of_value)
        back = share * (tl.dot(worth, tl.trans(pull)) - tl.load(mean + lines + full, left, 0.0)[None, :])
        of_key = tl.dot(back.to(key.dtype.element_ty), asked, of_key)
    tl.store(by_key + at, (of_key * scale).to(by_key.dtype.element_ty), inside)
    tl.store(by_value + at, of_value.to(by_value.dtype.element_ty), inside)
