"""A sum and the normalisation after it in one kernel, and its gradient, which is that of both that were added.

Every line is read and written once. Sums are in single precision, whatever the lines are in.
"""
# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, no-untyped-def, untyped-decorator"
# Triton has no types, is not there on most machines, and its kernels are no Python functions.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def forward(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(N, n) twice -> x + y (N, n), its mean and 1 / its deviation (N,) in every line, and what it is normalised to."""
    x, y = x.contiguous(), y.contiguous()
    total, normed = torch.empty_like(x), torch.empty_like(x)
    mean, scale = torch.empty((2, len(x)), device=x.device, dtype=torch.float32)
    width, warps = _shape(x)
    with torch.cuda.device_of(x):
        _forward[(len(x),)](
            x, y, weight, bias, total, mean, scale, normed, x.shape[1], eps, width=width, num_warps=warps
        )
    return total, mean, scale, normed


def backward(slope: Tensor, total: Tensor, mean: Tensor, scale: Tensor, weight: Tensor) -> Tensor:
    """(N, n) slopes of what was normalised -> (N, n): those of the sum."""
    slope, found = slope.contiguous(), torch.empty_like(total)
    width, warps = _shape(total)
    with torch.cuda.device_of(total):
        _backward[(len(total),)](slope, total, mean, scale, weight, found, total.shape[1], width=width, num_warps=warps)
    return found


def _shape(x: Tensor) -> tuple[int, int]:
    """Lanes of a line, and warps that share them."""
    width = triton.next_power_of_2(x.shape[1])
    return width, min(max(width // 256, 1), 16)


@triton.jit
def _forward(x, y, weight, bias, total, mean, scale, normed, size, eps, width: tl.constexpr):
    line = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, width)
    inside = lane < size
    at = line * size + lane
    value = tl.load(x + at, inside, 0.0).to(tl.float32) + tl.load(y + at, inside, 0.0).to(tl.float32)
    middle = tl.sum(value, 0) / size
    apart = tl.where(inside, value - middle, 0.0)
    factor = 1 / tl.sqrt(tl.sum(apart * apart, 0) / size + eps)
    gain = tl.load(weight + lane, inside, 0.0).to(tl.float32)
    shift = tl.load(bias + lane, inside, 0.0).to(tl.float32)
    tl.store(total + at, value, inside)
    tl.store(normed + at, apart * factor * gain + shift, inside)
    tl.store(mean + line, middle)
    tl.store(scale + line, factor)


@triton.jit
def _backward(slope, total, mean, scale, weight, found, size, width: tl.constexpr):
    line = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, width)
    inside = lane < size
    at = line * size + lane
    factor = tl.load(scale + line)
    value = tl.load(total + at, inside, 0.0).to(tl.float32)
    unit = tl.where(inside, (value - tl.load(mean + line)) * factor, 0.0)
    pull = tl.load(slope + at, inside, 0.0).to(tl.float32) * tl.load(weight + lane, inside, 0.0).to(tl.float32)
    along = tl.sum(pull * unit, 0) / size
    tl.store(found + at, factor * (pull - tl.sum(pull, 0) / size - unit * along), inside)
