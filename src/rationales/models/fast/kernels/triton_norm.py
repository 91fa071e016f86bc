"""A sum and the layer norm after it in one kernel, and its gradient, which is the same for both summands.

Every row is read and written once. Sums are in single precision, whatever the precision of the rows.
"""
# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, no-untyped-def, untyped-decorator"
# Triton has no types, is not installed on most machines, and its kernels are not Python functions.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def forward(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(N, n) twice -> x + y (N, n), the mean and 1 / standard deviation of its rows (N,), and its layer norm (N, n)."""
    x, y = x.contiguous(), y.contiguous()
    total, normed = torch.empty_like(x), torch.empty_like(x)
    mean, scale = torch.empty((2, len(x)), device=x.device, dtype=torch.float32)
    width, warps = _shape(x)
    with torch.cuda.device_of(x):
        _forward[(len(x),)](
            x, y, weight, bias, total, mean, scale, normed, x.shape[1], eps, width=width, num_warps=warps
        )
    return total, mean, scale, normed


def backward(gradient: Tensor, total: Tensor, mean: Tensor, scale: Tensor, weight: Tensor) -> Tensor:
    """(N, n) gradient of the layer norm -> (N, n) gradient of the sum."""
    gradient, input_gradient = gradient.contiguous(), torch.empty_like(total)
    width, warps = _shape(total)
    with torch.cuda.device_of(total):
        _backward[(len(total),)](
            gradient, total, mean, scale, weight, input_gradient, total.shape[1], width=width, num_warps=warps
        )
    return input_gradient


def _shape(x: Tensor) -> tuple[int, int]:
    """Lanes per row, and warps that share them."""
    width = triton.next_power_of_2(x.shape[1])
    return width, min(max(width // 256, 1), 16)


@triton.jit
def _forward(x, y, weight, bias, total, mean, scale, normed, size, eps, width: tl.constexpr):
    line = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, width)
    inside = lane < size
    at = line * size + lane
    value = tl.load(x + at, inside, 0.0).to(tl.float32) + tl.load(y + at, inside, 0.0).to(tl.float32)
    row_mean = tl.sum(value, 0) / size
    centred = tl.where(inside, value - row_mean, 0.0)
    factor = 1 / tl.sqrt(tl.sum(centred * centred, 0) / size + eps)
    gain = tl.load(weight + lane, inside, 0.0).to(tl.float32)
    shift = tl.load(bias + lane, inside, 0.0).to(tl.float32)
    tl.store(total + at, value, inside)
    tl.store(normed + at, centred * factor * gain + shift, inside)
    tl.store(mean + line, row_mean)
    tl.store(scale + line, factor)


@triton.jit
def _backward(gradient, total, mean, scale, weight, input_gradient, size, width: tl.constexpr):
    line = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, width)
    inside = lane < size
    at = line * size + lane
    factor = tl.load(scale + line)
    value = tl.load(total + at, inside, 0.0).to(tl.float32)
    normed = tl.where(inside, (value - tl.load(mean + line)) * factor, 0.0)
    scaled_gradient = tl.load(gradient + at, inside, 0.0).to(tl.float32) * tl.load(weight + lane, inside, 0.0).to(
        tl.float32
    )
    projection = tl.sum(scaled_gradient * normed, 0) / size
    tl.store(
        input_gradient + at,
        factor * (scaled_gradient - tl.sum(scaled_gradient, 0) / size - normed * projection),
        inside,
    )
