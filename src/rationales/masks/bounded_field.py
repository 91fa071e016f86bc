"""Masks whose parameters are the keeps of cells: up-sampled and blurred, or their smooth maximum around a unit.

Fong and Vedaldi (2017) optimise keeps on a coarse grid, up-sample them bilinearly and blur them. Fong, Patrick and
Vedaldi (2019) take a smooth maximum over neighbouring cells instead, which keeps the edges of a mask sharp, and fix the
area of the mask by a penalty on its sorted values. On a line every unit is a cell.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import unfold

from rationales.masks.field import line_field, sources
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch

TEMPERATURE = 1 / 20  # of the smooth maximum (Fong et al. 2019, section 3.2)
KERNEL_RADIUS = 3.0  # standard deviations beyond which a cell does not take part in the maximum
TINY = 1e-12
EDGE_WIDTH = 0.03  # of the step from 0 to 1 between the values that an area leaves out and those that it keeps
MEAN_WEIGHT = 100.0  # of the squared difference between the mean of a mask and its area, in the penalty of the area
BISECTIONS = 20


def bounded_keep(batch: Batch, settings: MaskSettings, w: Tensor) -> Tensor:
    """(M, s) keeps of cells in [0, 1] -> (M, n) keeps of units in [0, 1]."""
    real = sources(batch, settings.cell).to(w.dtype)
    if settings.field == "max-convolution":
        w = smooth_maximum(w, real, _sides(batch, settings.cell), settings.blur)
    if batch.grid is not None:
        blur = settings.blur * settings.cell if settings.field == "upsampled" else 0.0
        return _upsampled(w, real, batch.grid, settings.cell, blur)
    if settings.field == "upsampled" and settings.blur > 0:
        position = batch.rows.position[: batch.masks]
        sigma = torch.full_like(w, 2**0.5 * settings.blur)
        total, weight = (line_field(values, sigma, position, power=2) for values in (w * real, real))
        return total / weight.clamp(min=TINY)
    return w * real


def _upsampled(w: Tensor, real: Tensor, grid: tuple[int, int], cell: int, blur: float) -> Tensor:
    """(M, n): bilinear between the centres of existing cells, then blurred by a Gaussian of `blur` pixels."""
    down, across = (_resampling(side, cell, blur, w) for side in grid)
    cells = (len(w), down.shape[1], across.shape[1])
    total, weight = (down @ values.view(cells) @ across.T for values in (w * real, real))
    return (total / weight.clamp(min=TINY)).flatten(1)


def _resampling(size: int, cell: int, blur: float, like: Tensor) -> Tensor:
    """(size, cells): weight of every cell in every unit along one axis; computed on the device of `like`."""
    cells = -(-size // cell)
    unit = torch.arange(size, device=like.device, dtype=like.dtype)
    position = ((unit + 0.5) / cell - 0.5).clamp(0, cells - 1)
    weight = (1 - (position[:, None] - torch.arange(cells, device=like.device, dtype=like.dtype)).abs()).clamp(min=0)
    if blur == 0:
        return weight
    gaussian = torch.exp(-(unit[:, None] - unit).square() / (2 * blur**2))
    return gaussian / gaussian.sum(1, keepdim=True) @ weight


def smooth_maximum(w: Tensor, real: Tensor, sides: tuple[int, int], sigma: float) -> Tensor:
    """(M, s): smax_v k(u - v) w_v (Fong et al. 2019, Eq. 6 and 7), with k(d) = exp(-d^2 / (2 sigma^2)), d in cells.

    smax f = sum f exp(f / T) / sum exp(f / T), over the existing cells (real, (M, s)) within `KERNEL_RADIUS` sigma.
    sides: rows and columns of the s cells.
    """
    width = max(sigma, 1e-3)
    reach = [min(int(KERNEL_RADIUS * width), side - 1) for side in sides]
    down, across = (torch.arange(-steps, steps + 1, device=w.device, dtype=w.dtype) for steps in reach)
    squares = (down[:, None].square() + across.square()).flatten()[:, None]  # (window, 1)
    window = (2 * reach[0] + 1, 2 * reach[1] + 1)
    padding = (reach[0], reach[1])
    neighbour, exists = (
        unfold(cells.view(-1, 1, *sides), window, padding=padding) for cells in (w, real)
    )  # (M, window, s)
    value = torch.exp(-squares / (2 * width**2)) * neighbour
    near = (exists > 0) & (squares <= (KERNEL_RADIUS * width) ** 2)
    share = torch.where(near, value / TEMPERATURE, -torch.inf).softmax(1).nan_to_num()
    return (share * value).sum(1)


def _sides(batch: Batch, cell: int) -> tuple[int, int]:
    """Rows and columns of the cells; a line is one row."""
    if batch.grid is None:
        return 1, batch.size[1]
    return -(-batch.grid[0] // cell), -(-batch.grid[1] // cell)


def cell_terms(w: Tensor, batch: Batch, settings: MaskSettings) -> Tensor:
    """(M, s) -> (M,): l1_weight sum_u w_u + tv_weight sum_u |grad w_u|^tv_power (Fong and Vedaldi 2017, Eq. 4)."""
    real = sources(batch, settings.cell)
    total = settings.l1_weight * (w * real).sum(1)
    if settings.tv_weight == 0:
        return total
    sides = _sides(batch, settings.cell)
    cells, exists = w.view(-1, *sides), real.view(-1, *sides)
    for axis in (1, 2):
        count = cells.shape[axis] - 1
        both = exists.narrow(axis, 1, count) & exists.narrow(axis, 0, count)
        difference = (cells.narrow(axis, 1, count) - cells.narrow(axis, 0, count)).abs() * both
        total = total + settings.tv_weight * (difference**settings.tv_power).sum((1, 2))
    return total


def area_term(keep: Tensor, real: Tensor, area: float) -> Tensor:
    """(M, n) -> (M,): mean squared distance to the nearest mask that keeps `area` of the existing units.

    ||vecsort(m) - r_a||^2 / n of Fong et al. (2019, Eq. 4), which compares the highest values with 1 and all others
    with 0. Here the step between the two has the width `EDGE_WIDTH`: a constant mask prefers no unit, and a rounding
    error that exchanges two units at the edge changes nothing.
    """
    with torch.no_grad():
        reference = area_reference(keep, real, area)
    return ((keep - reference).square() * real).sum(1) / real.sum(1)


def mean_area_term(keep: Tensor, real: Tensor, area: float) -> Tensor:
    """(M, n) -> (M,): squared difference between the mean of the existing units and `area`.

    The edges of a smooth mask reach further outwards than inwards, so that the mask that is nearest to one with sharp
    edges may keep nearly twice the area.
    """
    return ((keep * real).sum(1) / real.sum(1) - area).square()


def area_reference(keep: Tensor, real: Tensor, area: float) -> Tensor:
    """(M, n): sigmoid((keep - q) / EDGE_WIDTH), with q such that its mean over the existing units is `area`."""
    lower, upper = torch.full_like(keep[:, :1], -1.0), torch.full_like(keep[:, :1], 2.0)
    count = real.sum(1, keepdim=True)
    for _ in range(BISECTIONS):
        q = (lower + upper) / 2
        too_large = (torch.sigmoid((keep - q) / EDGE_WIDTH) * real).sum(1, keepdim=True) > area * count
        lower, upper = torch.where(too_large, q, lower), torch.where(too_large, upper, q)
    return torch.sigmoid((keep - (lower + upper) / 2) / EDGE_WIDTH)


def shifted(keep: Tensor, shift: Tensor, grid: tuple[int, int] | None) -> Tensor:
    """(M, n): every mask moved by its `shift` (M, 2), down and across (on a line only across); edges are repeated."""
    height, width = grid or (1, keep.shape[1])
    row = torch.arange(height, device=keep.device)[None, :, None] - (shift[:, :1, None] if grid is not None else 0)
    column = torch.arange(width, device=keep.device)[None, None, :] - shift[:, 1:, None]
    source = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
    return keep.gather(1, source.expand(len(keep), height, width).flatten(1))
