"""From (w, sigma) to keep: Gaussian fields over a line of units (MaRC, Eq. 5 and 6)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d
from torch.utils.checkpoint import checkpoint

from rationales.masks.grid import grid_field
from rationales.models.batch import Batch

BLOCK = 1024  # targets at a time: a longer line never holds its whole n x n kernel
ENTRIES = 2**26  # of kernels at a time, where nothing has to be kept for a backward pass


def line_field(w: Tensor, sigma: Tensor, position: Tensor, power: int) -> Tensor:
    """z (M, n) with z_j = sum_i w_i exp(-(x_i - x_j)^2 / sigma_i^power); keep is its sigmoid.

    w, sigma, position: (M, n), w = 0 where there is no unit. power 1 is Eq. 5 as printed, 2 what the published text
    results used.
    """
    some = max(1, ENTRIES // w.shape[1] ** 2)  # lines at a time
    if len(w) > some and not (torch.is_grad_enabled() and (w.requires_grad or sigma.requires_grad)):
        lines = zip(torch.split(w, some), torch.split(sigma, some), torch.split(position, some), strict=True)
        return torch.cat([line_field(*one, power) for one in lines])
    spread = sigma**power
    if w.shape[1] <= BLOCK:
        return _towards(w, spread, position, position)
    parts = [
        checkpoint(_towards, w, spread, position, some, use_reentrant=False, preserve_rng_state=False)
        for some in torch.split(position, BLOCK, dim=1)
    ]
    return torch.cat(parts, dim=1)


def _towards(w: Tensor, spread: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """(M, n) sources, (M, m) targets -> (M, m)."""
    distance = source[:, :, None] - target[:, None, :]
    kernel = torch.exp(distance.square().neg_() / spread[:, :, None])
    return torch.einsum("mi,mij->mj", w, kernel)


def field(batch: Batch, w: Tensor, sigma: Tensor, power: int, every: int = 1) -> Tensor:
    """z (M, n) over whatever the batch's units lie on: a line, or the pixels of a grid.

    w, sigma: (M, s), one for each source. On a line every unit is a source; on a grid every cell of `every` x `every`
    pixels has one.
    """
    real = sources(batch, every)
    if batch.grid is None:
        return line_field(w * real, sigma, batch.rows.position[: batch.masks], power)
    cells = (batch.masks, *(-(-side // every) for side in batch.grid))
    found = grid_field(w.view(cells), sigma.view(cells), power, real.view(cells), every=every, size=batch.grid)
    return found.flatten(1)


def sources(batch: Batch, every: int = 1) -> Tensor:
    """(M, s) booleans: the sources that exist; a cell of a grid exists if one of its pixels does."""
    real = batch.rows.real[: batch.masks]
    if batch.grid is None or every == 1:
        return real
    pixels = real.view(batch.masks, 1, *batch.grid).to(batch.dtype)
    return max_pool2d(pixels, every, ceil_mode=True).flatten(1) > 0


def smooth(scores: Tensor, batch: Batch, width: float) -> Tensor:
    """(S, n) scores averaged over their neighbours with weights exp(-d^2 / width^2): compactness for any method."""
    real = batch.rows.real
    reach = torch.full_like(scores, max(width, 1e-3))  # less changes nothing, and its square could vanish

    def spread(values: Tensor) -> Tensor:
        if batch.grid is None:
            return line_field(values, reach, batch.rows.position, power=2)
        shape = (len(values), *batch.grid)
        return grid_field(values.view(shape), reach.view(shape), power=2).flatten(1)

    total, weight = spread(scores * real), spread(real.to(scores.dtype))
    return torch.where(real, total / weight.clamp(min=1e-12), torch.zeros_like(scores))
