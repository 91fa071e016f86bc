"""From (w, sigma) to z over a grid of pixels (MaRC, Eq. 5 and 6), in memory that grows with the pixels alone.

Only w and sigma are stored for the backward pass; kernel values are computed again, distance by distance, and those
below exp(-CUTOFF) are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, hypot
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from rationales.masks.kernels import grid_kernel

# The radius of a source is sqrt(CUTOFF sigma^power) pixels. exp(-13) = 2e-6 is about the error of a sum; the derivative
# by sigma, whose terms grow with the distance, has an error of 4e-5 where all gradients are equal (with 12, 1e-4).
CUTOFF = 13.0
BLOCK = 1 << 16  # cells at a time: small masks share the cost of a call, large ones singly fit the CPU cache
TINY = -60.0  # smallest exponent: exp(-60) = 9e-27 changes no sum, but denormal numbers (below 1e-38) are slow on a CPU
COARSE = 4  # cell size from which the separable form is used: few sources, each with many pixels in its radius
MISSING_SIGMA = 0.1  # sigma of a cell that is not real: small enough not to widen the radius

_Ring = tuple[float, tuple[tuple[int, int], ...]]  # squared distance; (plane, shift) of the targets at it


class Kernel(Protocol):
    """Computes the sums; exponent = -1 / sigma^power, radii (M,) is the radius of each mask in pixels."""

    def forward(self, w: Tensor, exponent: Tensor, radii: Tensor, cell: int, size: tuple[int, int]) -> Tensor:
        """(M, H, W) sources -> (M, h, w): sum_i w_i exp(d^2 exponent_i)."""

    def backward(self, exponent: Tensor, gradient: Tensor, radii: Tensor, cell: int) -> tuple[Tensor, Tensor]:
        """(M, h, w) gradient g -> twice (M, H, W): sum_j g_j k_ij and sum_j g_j d^2 k_ij, k = exp(d^2 exponent)."""


def grid_field(
    w: Tensor,
    sigma: Tensor,
    power: int = 1,
    real: Tensor | None = None,
    *,
    radius: int | None = None,
    cell: int = 1,
    size: tuple[int, int] | None = None,
) -> Tensor:
    """z (M, h, w) with z_j = sum_i w_i exp(-d(i, j)^2 / sigma_i^power), d in pixels; keep is its sigmoid.

    w, sigma: (M, H, W) in float32 or float64, sigma > 0. With cell = 1 a cell is a pixel; otherwise it covers
    cell x cell pixels, its source lies at the centre, and size = (h, w) may cut the last cells. real: (M, H, W), False
    for sources that do not exist: they contribute nothing and get no gradient. radius: of every source; by default
    derived from each mask's largest sigma.
    """
    cells = (w.shape[1], w.shape[2])
    size = size or (cells[0] * cell, cells[1] * cell)
    if cells != (ceil(size[0] / cell), ceil(size[1] / cell)):
        raise ValueError(f"{cells[0]} x {cells[1]} cells of {cell} pixels do not cover {size[0]} x {size[1]} pixels")
    if real is not None:
        w, sigma = torch.where(real, w, 0.0), torch.where(real, sigma, MISSING_SIGMA)
    if cell >= COARSE and radius is None:
        return _separable(w, sigma**power, cell, size)
    z = _Field.apply(w, sigma, _GridShape(power, radius, cell, size))  # type: ignore[no-untyped-call]  # torch has no types for it
    return cast("Tensor", z)


def _separable(w: Tensor, spread: Tensor, cell: int, size: tuple[int, int]) -> Tensor:
    """Same sum without a cut-off: exp(-(y^2 + x^2) / s) = exp(-y^2 / s) exp(-x^2 / s), a matrix product."""
    exponent = -1 / spread.flatten(1)[..., None]  # (M, cells, 1)
    sides = []
    for axis, pixels in enumerate(size):
        centre = torch.arange(w.shape[1 + axis], device=w.device, dtype=w.dtype) * cell + (cell - 1) / 2
        square = (centre[:, None] - torch.arange(pixels, device=w.device, dtype=w.dtype)).square()  # (H or W, pixels)
        square = square[:, None] if axis == 0 else square[None, :]
        square = square.expand(w.shape[1], w.shape[2], pixels).reshape(-1, pixels)  # (cells, pixels)
        sides.append((exponent * square).clamp(min=TINY / 2).exp())  # (M, cells, pixels); products are above exp(TINY)
    return (w.flatten(1)[..., None] * sides[0]).transpose(1, 2) @ sides[1]


def neighbour_difference(keep: Tensor, real: Tensor | None = None) -> Tensor:
    """(M, h, w) -> (M,): Omega_NB of Eq. 9 without its weight.

    Squared differences to the right, below and along both diagonals, summed and divided by the number of pixels. A
    pair counts if both of its pixels are real; real is (M, h, w) or (h, w).
    """
    exists = torch.ones_like(keep, dtype=torch.bool) if real is None else real.expand_as(keep)
    total = keep.new_zeros(len(keep))
    for first, second in (
        ((slice(None), slice(None, -1)), (slice(None), slice(1, None))),
        ((slice(None, -1), slice(None)), (slice(1, None), slice(None))),
        ((slice(None, -1), slice(None, -1)), (slice(1, None), slice(1, None))),
        ((slice(None, -1), slice(1, None)), (slice(1, None), slice(None, -1))),
    ):
        first_pixels, second_pixels = (slice(None), *first), (slice(None), *second)
        pair = exists[first_pixels] & exists[second_pixels]
        total = total + torch.where(pair, keep[first_pixels] - keep[second_pixels], 0.0).square().sum((1, 2))
    return total / exists.sum((1, 2)).clamp(min=1)


@dataclass(frozen=True)
class _GridShape:
    power: int
    radius: int | None
    cell: int
    size: tuple[int, int]

    def radii(self, spread: Tensor) -> Tensor:
        """(M, H, W) -> (M,): radius of each mask, without reading from the device."""
        largest = ceil(hypot(*self.size)) + self.cell  # the diagonal, plus a source's offset within its cell
        if self.radius is not None:
            return torch.full((len(spread),), min(self.radius, largest), dtype=torch.int32, device=spread.device)
        corner = (self.cell - 1) ** 2 / 2  # squared distance from a source to the corner of its cell
        radius = (CUTOFF * spread.flatten(1).amax(1) + corner).sqrt().ceil()
        return radius.nan_to_num(nan=0.0, posinf=largest).clamp(max=largest).to(torch.int32)


class _Field(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, w: Tensor, sigma: Tensor, shape: _GridShape) -> Tensor:
        ctx.save_for_backward(w, sigma)
        ctx.shape = shape
        spread = sigma**shape.power
        return _kernel(w).forward(w, -1 / spread, shape.radii(spread), shape.cell, shape.size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        w, sigma = ctx.saved_tensors
        shape = ctx.shape
        spread = sigma**shape.power
        exponent = -1 / spread
        by_w, by_exponent = _kernel(w).backward(exponent, gradient, shape.radii(spread), shape.cell)
        by_sigma = by_exponent.mul_(w).mul_(exponent).mul_(exponent)
        if shape.power != 1:
            by_sigma.mul_(shape.power * sigma ** (shape.power - 1))
        return by_w, by_sigma, None


def _kernel(tensor: Tensor) -> Kernel:
    fast = grid_kernel(tensor)
    return TorchKernel() if fast is None else cast("Kernel", fast)


class TorchKernel:
    """Any device, in torch operations: one exponential per distinct distance, shared by all shifts of that length.

    A row of cells is followed by as many zeros as the radius spans cells, so that a shift in the plane is a shift in
    memory: values shifted beyond a row fall on zeros that are not read. Targets lie in cell x cell planes, one for each
    offset within a cell.
    """

    def forward(self, w: Tensor, exponent: Tensor, radii: Tensor, cell: int, size: tuple[int, int]) -> Tensor:
        z = w.new_empty((len(w), *size))
        for radius, masks in _groups(radii, w[0].numel()):
            guard, rings = _rings(radius, w.shape[1], w.shape[2], cell)
            source, exponents = _lines(w[masks], guard), _lines(exponent[masks], guard)
            planes = source.new_zeros((cell * cell, *source.shape))
            influence = torch.empty_like(source)
            for square, steps in rings:
                _kernel_at(exponents, square, influence).mul_(source)
                for plane, shift in steps:
                    _add(planes[plane], influence, shift)
            z[masks] = _pixels(planes, w.shape[1], w.shape[2], cell)[:, : size[0], : size[1]]
        return z

    def backward(self, exponent: Tensor, gradient: Tensor, radii: Tensor, cell: int) -> tuple[Tensor, Tensor]:
        height, width = exponent.shape[1:]
        by_w, by_exponent = torch.empty_like(exponent), torch.empty_like(exponent)
        for radius, masks in _groups(radii, height * width):
            guard, rings = _rings(radius, height, width, cell)
            exponents = _lines(exponent[masks], guard)
            planes = _planes(gradient[masks], height, width, cell, guard)
            total, total_square = torch.zeros_like(exponents), torch.zeros_like(exponents)
            influence, gathered = torch.empty_like(exponents), torch.empty_like(exponents)
            for square, steps in rings:
                gathered.zero_()
                for plane, shift in steps:
                    _add(gathered, planes[plane], -shift)
                gathered.mul_(_kernel_at(exponents, square, influence))
                total.add_(gathered)
                total_square.add_(gathered, alpha=square)
            by_w[masks] = total.view(len(masks), height, width + guard)[..., :width]
            by_exponent[masks] = total_square.view(len(masks), height, width + guard)[..., :width]
        return by_w, by_exponent


def _groups(radii: Tensor, cells: int) -> Iterator[tuple[int, Tensor]]:
    """(radius, masks that have it), so that masks do not influence each other. Reads once from the device."""
    members = defaultdict(list)
    for mask, radius in enumerate(radii.tolist()):
        members[radius].append(mask)
    for radius, masks in members.items():
        for members_at_once in torch.split(torch.tensor(masks, device=radii.device), max(1, BLOCK // cells)):
            yield radius, members_at_once


@lru_cache(maxsize=32)
def _rings(radius: int, height: int, width: int, cell: int) -> tuple[int, list[_Ring]]:
    """Number of zeros after each row, and the targets at each distance within the radius."""
    down, right = _steps(radius, height, cell), _steps(radius, width, cell)
    guard = max((abs(x // cell) for x in right), default=0)
    rings = defaultdict(list)
    for y in down:
        for x in right:
            square = (2 * y - cell + 1) ** 2 + (2 * x - cell + 1) ** 2  # (2 d)^2, an integer
            if square <= 4 * radius**2:
                plane, shift = y % cell * cell + x % cell, y // cell * (width + guard) + x // cell
                rings[square].append((plane, shift))
    return guard, [(square / 4, tuple(rings[square])) for square in sorted(rings)]


def _steps(radius: int, cells: int, cell: int) -> list[int]:
    """Pixels within the radius of a cell's centre along one axis, counted from the cell's first pixel."""
    return [t for t in range((1 - cells) * cell, cells * cell) if abs(2 * t - cell + 1) <= 2 * radius]


def _kernel_at(exponents: Tensor, square: float, out: Tensor) -> Tensor:
    """Write exp(d^2 exponent) into `out`."""
    return torch.mul(exponents, square, out=out).clamp_(min=TINY).exp_()


def _add(total: Tensor, influence: Tensor, shift: int) -> None:
    """total[:, i + shift] += influence[:, i] wherever both exist."""
    count = influence.shape[1] - abs(shift)
    total.narrow(1, max(shift, 0), count).add_(influence.narrow(1, max(-shift, 0), count))


def _lines(cells: Tensor, guard: int) -> Tensor:
    """(m, H, W) -> (m, H * (W + guard)), zeros after each row."""
    return pad(cells, (0, guard)).flatten(1)


def _planes(pixels: Tensor, height: int, width: int, cell: int, guard: int) -> Tensor:
    """(m, h, w) -> (cell * cell, m, H * (W + guard))."""
    padded = pad(pixels, (0, width * cell - pixels.shape[2], 0, height * cell - pixels.shape[1]))
    planes = padded.reshape(-1, height, cell, width, cell).permute(2, 4, 0, 1, 3)
    return pad(planes, (0, guard)).reshape(cell * cell, len(pixels), -1)


def _pixels(planes: Tensor, height: int, width: int, cell: int) -> Tensor:
    """(cell * cell, m, H * (W + guard)) -> (m, H * cell, W * cell)."""
    by_offset = planes.view(cell, cell, planes.shape[1], height, -1)[..., :width]
    return by_offset.permute(2, 3, 0, 4, 1).reshape(-1, height * cell, width * cell)
