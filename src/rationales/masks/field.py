"""From (w, sigma) to keep: Gaussian fields over a line of units (MaRC, Eq. 5, 6), smoothing, and a mask's roughness."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d, max_pool2d
from torch.utils.checkpoint import checkpoint

from rationales.masks.grid import grid_field
from rationales.models.batch import Batch

BLOCK = 1024  # targets at a time, so that the n x n kernel of a long line is never in memory at once
MIN_VISIBLE_DEVIATION = 0.02  # standard deviation of the keeps below which a mask has no visible structure
ENTRIES = 2**26  # kernel entries at a time, where nothing is stored for a backward pass


def line_field(w: Tensor, sigma: Tensor, position: Tensor, power: int) -> Tensor:
    """z (M, n) with z_j = sum_i w_i exp(-(x_i - x_j)^2 / sigma_i^power); keep is its sigmoid.

    w, sigma, position: (M, n), w = 0 where there is no unit. power 1 is Eq. 5 as printed, 2 is what
    the published text results used.
    """
    lines_at_once = max(1, ENTRIES // w.shape[1] ** 2)
    if len(w) > lines_at_once and not (torch.is_grad_enabled() and (w.requires_grad or sigma.requires_grad)):
        lines = zip(*(torch.split(values, lines_at_once) for values in (w, sigma, position)), strict=True)
        return torch.cat([line_field(w_part, s_part, p_part, power) for w_part, s_part, p_part in lines])
    spread = sigma**power
    if w.shape[1] <= BLOCK:
        return _field_at_targets(w, spread, position, position)
    blocks = [
        checkpoint(_field_at_targets, w, spread, position, targets, use_reentrant=False, preserve_rng_state=False)
        for targets in torch.split(position, BLOCK, dim=1)
    ]
    return torch.cat(blocks, dim=1)


def _field_at_targets(w: Tensor, spread: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Field (M, m) at the targets (M, m) from the sources (M, n)."""
    distance = source[:, :, None] - target[:, None, :]
    kernel = torch.exp(distance.square().neg_() / spread[:, :, None])
    return torch.einsum("mi,mij->mj", w, kernel)


def field(batch: Batch, w: Tensor, sigma: Tensor, power: int, cell: int = 1) -> Tensor:
    """Field z (M, n) of a batch whose units lie on a line or are the pixels of a grid.

    w, sigma: (M, s), one for each source. On a line every unit is a source; on a grid every cell of `cell` x `cell`
    pixels has one.
    """
    real = sources(batch, cell)
    if batch.grid is None:
        return line_field(w * real, sigma, batch.rows.position[: batch.masks], power)
    cells = (batch.masks, *(-(-side // cell) for side in batch.grid))
    z = grid_field(w.view(cells), sigma.view(cells), power, real.view(cells), cell=cell, size=batch.grid)
    return z.flatten(1)


def sources(batch: Batch, cell: int = 1) -> Tensor:
    """(M, s) booleans: the sources that exist; a cell exists if one of its pixels does."""
    real = batch.rows.real[: batch.masks]
    if batch.grid is None or cell == 1:
        return real
    pixels = real.view(batch.masks, 1, *batch.grid).to(batch.dtype)
    return max_pool2d(pixels, cell, ceil_mode=True).flatten(1) > 0


def smooth(scores: Tensor, batch: Batch, width: float) -> Tensor:
    """(S, n) scores averaged over their neighbours with weights exp(-d^2 / width^2)."""
    real = batch.rows.real
    sigma = torch.full_like(scores, max(width, 1e-3))  # a smaller width changes nothing, and its square could underflow

    def spread(values: Tensor) -> Tensor:
        if batch.grid is None:
            return line_field(values, sigma, batch.rows.position, power=2)
        shape = (len(values), *batch.grid)
        return grid_field(values.view(shape), sigma.view(shape), power=2).flatten(1)

    total, weight = spread(scores * real), spread(real.to(scores.dtype))
    return torch.where(real, total / weight.clamp(min=1e-12), torch.zeros_like(scores))


def roughness(keep: Tensor, real: Tensor, grid: tuple[int, int] | None, cell: int = 1) -> Tensor:
    """(M, n) keeps, (M, n) bool -> (M,): mean squared difference to the mean of the neighbours, over the variance.

    On a grid a unit has four neighbours, after averaging over cells of `cell` x `cell` units, within which a mask
    cannot vary by itself; on a line it has two. 0: constant or smooth; about 1.25 on a grid and 1.5 on a line: white
    noise, or a single unit that differs; 4: a checkerboard. Masks that hardly vary (`MIN_VISIBLE_DEVIATION`) get 0.
    """
    height, width = grid if grid is not None else (1, keep.shape[1])
    weight = real.to(keep).view(-1, 1, height, width)
    values = keep.view(-1, 1, height, width) * weight
    if grid is not None and cell > 1:
        share = avg_pool2d(weight, cell, ceil_mode=True)
        values = avg_pool2d(values, cell, ceil_mode=True) / share.clamp(min=1e-6)
        weight = (share > 0).to(keep)
    rows = (0.0, 1.0, 0.0) if grid is not None else (0.0, 0.0, 0.0)
    cross = torch.tensor([rows, (1.0, 0.0, 1.0), rows], device=keep.device, dtype=keep.dtype)[None, None]
    neighbours = conv2d(weight, cross, padding=1)
    compared = weight * (neighbours > 0)
    difference = (values - conv2d(values * weight, cross, padding=1) / neighbours.clamp(min=1)) * compared
    count = weight.sum((1, 2, 3)).clamp(min=1)
    mean = (values * weight).sum((1, 2, 3)) / count
    variance = ((values - mean[:, None, None, None]).square() * weight).sum((1, 2, 3)) / count
    energy = difference.square().sum((1, 2, 3)) / compared.sum((1, 2, 3)).clamp(min=1)
    return torch.where(
        variance > MIN_VISIBLE_DEVIATION**2, energy / variance.clamp(min=1e-12), torch.zeros_like(variance)
    )
