"""The field over a grid as Triton kernels: every sum is gathered by its own lane, so that nothing is added twice or in
another order, and nothing larger than a mask is written.

Each mask's radius is read on the device: no step waits for the host, and a CUDA graph can hold it.
"""
# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, no-untyped-def, untyped-decorator"
# Triton has no types, is not there on most machines, and its kernels are no Python functions.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LANES = 128


def forward(w: Tensor, rate: Tensor, reach: Tensor, every: int, size: tuple[int, int]) -> Tensor:
    """(M, H, W) sources -> (M, h, w): sum_i w_i exp(d^2 rate_i)."""
    z = w.new_empty((len(w), *size))
    blocks = (triton.cdiv(size[0] * size[1], LANES), len(w))
    with torch.cuda.device_of(w):
        _forward[blocks](w.contiguous(), rate.contiguous(), reach, z, *w.shape[1:], *size, every, LANES)
    return z


def backward(rate: Tensor, slope: Tensor, reach: Tensor, every: int) -> tuple[Tensor, Tensor]:
    """(M, h, w) slopes -> twice (M, H, W): sum_j slope_j exp(d^2 rate_i) and sum_j slope_j d^2 exp(d^2 rate_i)."""
    by_w, by_rate = torch.empty_like(rate.contiguous()), torch.empty_like(rate.contiguous())
    blocks = (triton.cdiv(rate[0].numel(), LANES), len(rate))
    with torch.cuda.device_of(rate):
        _backward[blocks](
            rate.contiguous(),
            slope.contiguous(),
            reach,
            by_w,
            by_rate,
            *rate.shape[1:],
            *slope.shape[1:],
            every,
            LANES,
        )
    return by_w, by_rate


@triton.jit
def _forward(
    w,
    rate,
    reach,
    z,
    rows,
    columns,
    height,
    width,
    every: tl.constexpr,
    lanes: tl.constexpr,
):
    """One lane per target pixel, over the cells that may reach it."""
    mask = tl.program_id(1)
    here = tl.program_id(0) * lanes + tl.arange(0, lanes)
    inside = here < height * width
    y, x = here // width, here % width
    source = mask.to(tl.int64) * rows * columns
    radius = tl.load(reach + mask)
    span = (2 * radius + every - 1) // (2 * every)  # cells
    down, right = tl.minimum(span, rows - 1), tl.minimum(span, columns - 1)
    total = tl.zeros([lanes], dtype=z.dtype.element_ty)
    for a in range(-down, down + 1):
        row = y // every + a
        dy = 2 * (row * every - y) + every - 1  # twice the distance: a whole number
        for b in range(-right, right + 1):
            column = x // every + b
            dx = 2 * (column * every - x) + every - 1
            square = dy * dy + dx * dx
            near = inside & (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            near = near & (square <= 4 * radius * radius)
            at = source + row * columns + column
            flow = tl.load(rate + at, mask=near, other=0.0)
            weight = tl.load(w + at, mask=near, other=0.0)
            total += weight * tl.exp(flow * (0.25 * square.to(z.dtype.element_ty)))
    tl.store(z + mask.to(tl.int64) * height * width + here, total, mask=inside)


@triton.jit
def _backward(
    rate,
    slope,
    reach,
    by_w,
    by_rate,
    rows,
    columns,
    height,
    width,
    every: tl.constexpr,
    lanes: tl.constexpr,
):
    """One lane per source cell, over the pixels that it may reach."""
    mask = tl.program_id(1)
    here = tl.program_id(0) * lanes + tl.arange(0, lanes)
    inside = here < rows * columns
    row, column = here // columns, here % columns
    at = mask.to(tl.int64) * rows * columns + here
    target = mask.to(tl.int64) * height * width
    radius = tl.load(reach + mask)
    flow = tl.load(rate + at, mask=inside, other=0.0)
    down, right = tl.minimum(radius, height), tl.minimum(radius, width)
    total = tl.zeros([lanes], dtype=rate.dtype.element_ty)
    total_square = tl.zeros([lanes], dtype=rate.dtype.element_ty)
    for a in range(-down, down + every):
        y = row * every + a
        dy = 2 * a - every + 1
        for b in range(-right, right + every):
            x = column * every + b
            dx = 2 * b - every + 1
            square = dy * dy + dx * dx
            near = inside & (y >= 0) & (y < height) & (x >= 0) & (x < width) & (square <= 4 * radius * radius)
            seen = tl.load(slope + target + y * width + x, mask=near, other=0.0)
            distance = 0.25 * square.to(rate.dtype.element_ty)
            seen = seen * tl.exp(flow * distance)
            total += seen
            total_square += seen * distance
    tl.store(by_w + at, total, mask=inside)
    tl.store(by_rate + at, total_square, mask=inside)
