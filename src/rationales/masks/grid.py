"""From (w, sigma) to z over a grid of pixels (MaRC, Eq. 5 and 6), in memory that grows with the pixels alone.

Nothing is kept for the backward pass but w and sigma; influences are computed again, distance by distance, and those
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

# A source reaches sqrt(CUTOFF sigma^power) pixels. exp(-13) is 2e-6, about what a sum loses beyond; the derivative by
# sigma, whose terms grow with the distance, loses 4e-5 where all slopes are equal. 12 would lose 1e-4 there.
CUTOFF = 13.0
BLOCK = 1 << 16  # cells at a time: small masks share the cost of a call, large ones stay in the cache one by one
TINY = -60.0  # exponents go no lower: 9e-27 changes no sum, but numbers below 1e-38 slow a processor down several times
COARSE = 4  # pixels a cell from which few sources reach many pixels: then each is a column times a row
NOWHERE = 0.1  # sigma of a cell that is not real: too small to widen the radius

Ring = tuple[float, tuple[tuple[int, int], ...]]  # squared distance; (plane, shift) of the targets that far away


class Kernel(Protocol):
    """A way to compute the sums; rate = -1 / sigma^power, reach (M,) is the radius of each mask in pixels."""

    def forward(self, w: Tensor, rate: Tensor, reach: Tensor, every: int, size: tuple[int, int]) -> Tensor:
        """(M, H, W) sources -> (M, h, w): sum_i w_i exp(d^2 rate_i)."""

    def backward(self, rate: Tensor, slope: Tensor, reach: Tensor, every: int) -> tuple[Tensor, Tensor]:
        """(M, h, w) slopes -> twice (M, H, W): sum_j slope_j exp(d^2 rate_i) and sum_j slope_j d^2 exp(d^2 rate_i)."""


def grid_field(
    w: Tensor,
    sigma: Tensor,
    power: int = 1,
    real: Tensor | None = None,
    *,
    radius: int | None = None,
    every: int = 1,
    size: tuple[int, int] | None = None,
) -> Tensor:
    """z (M, h, w) with z_j = sum_i w_i exp(-d(i, j)^2 / sigma_i^power), d in pixels; keep is its sigmoid.

    w, sigma: (M, H, W) in float32 or float64, sigma > 0. With every = 1 a cell is a pixel; otherwise a cell covers
    every x every pixels, its source stands at the centre, and size = (h, w) may cut the last cells. real: (M, H, W),
    False where a source is not there: it contributes nothing and gets no gradient. radius: how far a source reaches;
    by default each mask's own, from its largest sigma.
    """
    cells = (w.shape[1], w.shape[2])
    size = size or (cells[0] * every, cells[1] * every)
    if cells != (ceil(size[0] / every), ceil(size[1] / every)):
        raise ValueError(f"{cells[0]} x {cells[1]} cells of {every} pixels do not cover {size[0]} x {size[1]} pixels")
    if real is not None:
        w, sigma = torch.where(real, w, 0.0), torch.where(real, sigma, NOWHERE)
    if every >= COARSE and radius is None:
        return _separable(w, sigma**power, every, size)
    found = _Field.apply(w, sigma, _Shape(power, radius, every, size))  # type: ignore[no-untyped-call]  # torch's own
    return cast("Tensor", found)


def _separable(w: Tensor, spread: Tensor, every: int, size: tuple[int, int]) -> Tensor:
    """The same sum without a cut-off: exp(-(y^2 + x^2) / s) = exp(-y^2 / s) exp(-x^2 / s), a product of matrices."""
    rate = -1 / spread.flatten(1)[..., None]  # (M, cells, 1)
    sides = []
    for axis, pixels in enumerate(size):
        centre = torch.arange(w.shape[1 + axis], device=w.device, dtype=w.dtype) * every + (every - 1) / 2
        square = (centre[:, None] - torch.arange(pixels, device=w.device, dtype=w.dtype)).square()  # (H or W, pixels)
        square = square[:, None] if axis == 0 else square[None, :]
        square = square.expand(w.shape[1], w.shape[2], pixels).reshape(-1, pixels)  # (cells, pixels)
        sides.append((rate * square).clamp(min=TINY / 2).exp())  # (M, cells, pixels); two of them stay above TINY
    return (w.flatten(1)[..., None] * sides[0]).transpose(1, 2) @ sides[1]


def neighbour_difference(keep: Tensor, real: Tensor | None = None) -> Tensor:
    """(M, h, w) -> (M,): Omega_NB of Eq. 9 without its weight.

    Squared differences to the right, below and along both diagonals, summed and divided by the number of pixels. A
    pair counts if both of its pixels are real; real is (M, h, w) or (h, w).
    """
    there = torch.ones_like(keep, dtype=torch.bool) if real is None else real.expand_as(keep)
    total = keep.new_zeros(len(keep))
    for first, second in (
        ((slice(None), slice(None, -1)), (slice(None), slice(1, None))),
        ((slice(None, -1), slice(None)), (slice(1, None), slice(None))),
        ((slice(None, -1), slice(None, -1)), (slice(1, None), slice(1, None))),
        ((slice(None, -1), slice(1, None)), (slice(1, None), slice(None, -1))),
    ):
        one, other = (slice(None), *first), (slice(None), *second)
        pair = there[one] & there[other]
        total = total + torch.where(pair, keep[one] - keep[other], 0.0).square().sum((1, 2))
    return total / there.sum((1, 2)).clamp(min=1)


@dataclass(frozen=True)
class _Shape:
    power: int
    radius: int | None
    every: int
    size: tuple[int, int]

    def reach(self, spread: Tensor) -> Tensor:
        """(M, H, W) -> (M,): the radius of each mask; no host read."""
        most = ceil(hypot(*self.size)) + self.every  # from corner to corner, wherever sources stand in their cells
        if self.radius is not None:
            return torch.full((len(spread),), min(self.radius, most), dtype=torch.int32, device=spread.device)
        corner = (self.every - 1) ** 2 / 2  # of a cell: as far as a pixel is from its own source, squared
        far = (CUTOFF * spread.flatten(1).amax(1) + corner).sqrt().ceil()
        return far.nan_to_num(nan=0.0, posinf=most).clamp(max=most).to(torch.int32)


class _Field(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, w: Tensor, sigma: Tensor, shape: _Shape) -> Tensor:
        ctx.save_for_backward(w, sigma)
        ctx.shape = shape
        spread = sigma**shape.power
        kernel = _kernel(w)
        return kernel.forward(w, -1 / spread, shape.reach(spread), shape.every, shape.size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, None]:
        w, sigma = ctx.saved_tensors
        shape = ctx.shape
        spread = sigma**shape.power
        rate = -1 / spread
        by_w, by_rate = _kernel(w).backward(rate, slope, shape.reach(spread), shape.every)
        by_sigma = by_rate.mul_(w).mul_(rate).mul_(rate)
        if shape.power != 1:
            by_sigma.mul_(shape.power * sigma ** (shape.power - 1))
        return by_w, by_sigma, None


def _kernel(tensor: Tensor) -> Kernel:
    fast = grid_kernel(tensor)
    return Plain() if fast is None else cast("Kernel", fast)


class Plain:
    """Any device, in torch's own operations: one exponential per distinct distance, shared by up to 12 shifts or more.

    A row of cells is followed by as many zeros as a source reaches to the side, so that a shift in the plane is a shift
    in memory: what leaves a row lands among zeros that nobody reads. Targets lie in every x every planes, one for each
    place within a cell.
    """

    def forward(self, w: Tensor, rate: Tensor, reach: Tensor, every: int, size: tuple[int, int]) -> Tensor:
        z = w.new_empty((len(w), *size))
        for radius, masks in _groups(reach, w[0].numel()):
            guard, rings = _rings(radius, w.shape[1], w.shape[2], every)
            source, flow = _lines(w[masks], guard), _lines(rate[masks], guard)
            planes = source.new_zeros((every * every, *source.shape))
            part = torch.empty_like(source)
            for square, steps in rings:
                _influence(flow, square, part).mul_(source)
                for plane, shift in steps:
                    _add(planes[plane], part, shift)
            z[masks] = _pixels(planes, w.shape[1], w.shape[2], every)[:, : size[0], : size[1]]
        return z

    def backward(self, rate: Tensor, slope: Tensor, reach: Tensor, every: int) -> tuple[Tensor, Tensor]:
        height, width = rate.shape[1:]
        by_w, by_rate = torch.empty_like(rate), torch.empty_like(rate)
        for radius, masks in _groups(reach, height * width):
            guard, rings = _rings(radius, height, width, every)
            flow = _lines(rate[masks], guard)
            planes = _planes(slope[masks], height, width, every, guard)
            total, total_square = torch.zeros_like(flow), torch.zeros_like(flow)
            part, seen = torch.empty_like(flow), torch.empty_like(flow)
            for square, steps in rings:
                seen.zero_()
                for plane, shift in steps:
                    _add(seen, planes[plane], -shift)
                seen.mul_(_influence(flow, square, part))
                total.add_(seen)
                total_square.add_(seen, alpha=square)
            by_w[masks] = total.view(len(masks), height, width + guard)[..., :width]
            by_rate[masks] = total_square.view(len(masks), height, width + guard)[..., :width]
        return by_w, by_rate


def _groups(reach: Tensor, cells: int) -> Iterator[tuple[int, Tensor]]:
    """(radius, masks that have it): no mask pays for another's radius or changes with its company. One host read."""
    members = defaultdict(list)
    for mask, radius in enumerate(reach.tolist()):
        members[radius].append(mask)
    for radius, masks in members.items():
        for some in torch.split(torch.tensor(masks, device=reach.device), max(1, BLOCK // cells)):
            yield radius, some


@lru_cache(maxsize=32)
def _rings(radius: int, height: int, width: int, every: int) -> tuple[int, list[Ring]]:
    """The zeros after each row, and for each distance within the radius the targets that some cell has there."""
    down, right = _steps(radius, height, every), _steps(radius, width, every)
    guard = max((abs(x // every) for x in right), default=0)
    rings = defaultdict(list)
    for y in down:
        for x in right:
            square = (2 * y - every + 1) ** 2 + (2 * x - every + 1) ** 2  # of twice the distance: whole numbers
            if square <= 4 * radius**2:
                plane, shift = y % every * every + x % every, y // every * (width + guard) + x // every
                rings[square].append((plane, shift))
    return guard, [(square / 4, tuple(rings[square])) for square in sorted(rings)]


def _steps(radius: int, cells: int, every: int) -> list[int]:
    """Pixels within the radius of a cell's centre along one axis, counted from the cell's first pixel."""
    return [t for t in range((1 - cells) * every, cells * every) if abs(2 * t - every + 1) <= 2 * radius]


def _influence(flow: Tensor, square: float, out: Tensor) -> Tensor:
    """exp(d^2 rate) into `out`."""
    return torch.mul(flow, square, out=out).clamp_(min=TINY).exp_()


def _add(total: Tensor, part: Tensor, shift: int) -> None:
    """total[:, i + shift] += part[:, i] wherever both exist."""
    count = part.shape[1] - abs(shift)
    total.narrow(1, max(shift, 0), count).add_(part.narrow(1, max(-shift, 0), count))


def _lines(cells: Tensor, guard: int) -> Tensor:
    """(m, H, W) -> (m, H * (W + guard)), zeros after each row."""
    return pad(cells, (0, guard)).flatten(1)


def _planes(pixels: Tensor, height: int, width: int, every: int, guard: int) -> Tensor:
    """(m, h, w) -> (every * every, m, H * (W + guard))."""
    whole = pad(pixels, (0, width * every - pixels.shape[2], 0, height * every - pixels.shape[1]))
    apart = whole.reshape(-1, height, every, width, every).permute(2, 4, 0, 1, 3)
    return pad(apart, (0, guard)).reshape(every * every, len(pixels), -1)


def _pixels(planes: Tensor, height: int, width: int, every: int) -> Tensor:
    """(every * every, m, H * (W + guard)) -> (m, H * every, W * every)."""
    apart = planes.view(every, every, planes.shape[1], height, -1)[..., :width]
    return apart.permute(2, 3, 0, 4, 1).reshape(-1, height * every, width * every)
