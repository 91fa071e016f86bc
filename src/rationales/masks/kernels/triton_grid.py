"""The field over a grid as Triton kernels: each lane computes one sum in a fixed order, so that results are
reproducible and nothing larger than a mask is written.

Each mask's radius is read on the device: no step waits for the host, and a CUDA graph can record it.
"""
# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, no-untyped-def, untyped-decorator"
# Triton has no types and is not installed on most machines, and its kernels are not Python functions.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LANES = 128


def forward(w: Tensor, exponent: Tensor, radii: Tensor, cell: int, size: tuple[int, int]) -> Tensor:
    """(M, H, W) sources -> (M, h, w): sum_i w_i exp(d^2 exponent_i)."""
    z = w.new_empty((len(w), *size))
    blocks = (triton.cdiv(size[0] * size[1], LANES), len(w))
    with torch.cuda.device_of(w):
        _forward[blocks](w.contiguous(), exponent.contiguous(), radii, z, *w.shape[1:], *size, cell, LANES)
    return z


def backward(exponent: Tensor, gradient: Tensor, radii: Tensor, cell: int) -> tuple[Tensor, Tensor]:
    """(M, h, w) gradient g -> twice (M, H, W): sum_j g_j k_ij and sum_j g_j d^2 k_ij, k = exp(d^2 exponent)."""
    by_w, by_exponent = torch.empty_like(exponent.contiguous()), torch.empty_like(exponent.contiguous())
    blocks = (triton.cdiv(exponent[0].numel(), LANES), len(exponent))
    with torch.cuda.device_of(exponent):
        _backward[blocks](
            exponent.contiguous(),
            gradient.contiguous(),
            radii,
            by_w,
            by_exponent,
            *exponent.shape[1:],
            *gradient.shape[1:],
            cell,
            LANES,
        )
    return by_w, by_exponent


@triton.jit
def _forward(
    w,
    exponent,
    radii,
    z,
    rows,
    columns,
    height,
    width,
    cell: tl.constexpr,
    lanes: tl.constexpr,
):
    """One lane per target pixel, over the cells within the radius."""
    mask = tl.program_id(1)
    here = tl.program_id(0) * lanes + tl.arange(0, lanes)
    inside = here < height * width
    y, x = here // width, here % width
    source = mask.to(tl.int64) * rows * columns
    radius = tl.load(radii + mask)
    span = (2 * radius + cell - 1) // (2 * cell)  # cells
    down, right = tl.minimum(span, rows - 1), tl.minimum(span, columns - 1)
    total = tl.zeros([lanes], dtype=z.dtype.element_ty)
    for a in range(-down, down + 1):
        row = y // cell + a
        dy = 2 * (row * cell - y) + cell - 1  # twice the distance, an integer
        for b in range(-right, right + 1):
            column = x // cell + b
            dx = 2 * (column * cell - x) + cell - 1
            square = dy * dy + dx * dx
            near = inside & (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            near = near & (square <= 4 * radius * radius)
            at = source + row * columns + column
            exponents = tl.load(exponent + at, mask=near, other=0.0)
            weight = tl.load(w + at, mask=near, other=0.0)
            total += weight * tl.exp(exponents * (0.25 * square.to(z.dtype.element_ty)))
    tl.store(z + mask.to(tl.int64) * height * width + here, total, mask=inside)


@triton.jit
def _backward(
    exponent,
    gradient,
    radii,
    by_w,
    by_exponent,
    rows,
    columns,
    height,
    width,
    cell: tl.constexpr,
    lanes: tl.constexpr,
):
    """One lane per source cell, over the pixels within the radius."""
    mask = tl.program_id(1)
    here = tl.program_id(0) * lanes + tl.arange(0, lanes)
    inside = here < rows * columns
    row, column = here // columns, here % columns
    at = mask.to(tl.int64) * rows * columns + here
    target = mask.to(tl.int64) * height * width
    radius = tl.load(radii + mask)
    exponents = tl.load(exponent + at, mask=inside, other=0.0)
    down, right = tl.minimum(radius, height), tl.minimum(radius, width)
    total = tl.zeros([lanes], dtype=exponent.dtype.element_ty)
    total_square = tl.zeros([lanes], dtype=exponent.dtype.element_ty)
    for a in range(-down, down + cell):
        y = row * cell + a
        dy = 2 * a - cell + 1
        for b in range(-right, right + cell):
            x = column * cell + b
            dx = 2 * b - cell + 1
            square = dy * dy + dx * dx
            near = inside & (y >= 0) & (y < height) & (x >= 0) & (x < width) & (square <= 4 * radius * radius)
            gathered = tl.load(gradient + target + y * width + x, mask=near, other=0.0)
            distance = 0.25 * square.to(exponent.dtype.element_ty)
            gathered = gathered * tl.exp(exponents * distance)
            total += gathered
            total_square += gathered * distance
    tl.store(by_w + at, total, mask=inside)
    tl.store(by_exponent + at, total_square, mask=inside)
