"""From (w, sigma) to keep: Gaussian fields over a line of units (MaRC, Eq. 5, 6), smoothing, and a mask's roughness."""

from __future__ import annotations

from math import pi, prod

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d, max_pool2d
from torch.utils.checkpoint import checkpoint

from rationales.masks.grid import grid_field
from rationales.models.batch import Batch
from rationales.models.batch.rows import Part, part_weights

BLOCK = 1024  # targets at a time, so that the n x n kernel of a long line is never in memory at once
MIN_VISIBLE_DEVIATION = 0.02  # standard deviation of the keeps below which a mask has no visible structure
# Gain of a free word beside pixels: about the sum of the kernels of all cells at one pixel, at the initial sigma (pi
# times `settings.OVERLAP`), so that one step of the optimiser moves the field of words as far as that of pixels.
WORD_GAIN = 2.5 * pi
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


def field(batch: Batch, w: Tensor, sigma: Tensor, power: int, cell: int = 1, word_field: str = "gaussian") -> Tensor:
    """Field z (M, n) of a batch whose units lie on a line, are the pixels of a grid, or both in parts.

    w, sigma: (M, s), one for each source. On a line every unit is a source; on a grid every cell of `cell` x `cell`
    pixels has one. Parts do not reach into each other. `word_field`, where words are a part beside pixels: `gaussian`,
    or `free`, z = w times `WORD_GAIN`.
    """
    real = sources(batch, cell)
    fields = []
    for unit_part, where in source_slices(batch, cell):
        part_w, part_sigma, part_real = w[:, where], sigma[:, where], real[:, where]
        if unit_part.grid is not None:
            cells = (batch.masks, *(-(-side // cell) for side in unit_part.grid))
            grid_w, grid_sigma, grid_real = (values.reshape(cells) for values in (part_w, part_sigma, part_real))
            z = grid_field(grid_w, grid_sigma, power, grid_real, cell=cell, size=unit_part.grid)
            fields.append(z.flatten(1))
        elif len(batch.parts) > 1 and word_field == "free":
            fields.append(WORD_GAIN * part_w * part_real)
        else:
            position = batch.rows.position[: batch.masks, unit_part.units]
            fields.append(line_field(part_w * part_real, part_sigma, position, power))
    return fields[0] if len(fields) == 1 else torch.cat(fields, 1)


def source_slices(batch: Batch, cell: int = 1) -> list[tuple[Part, slice]]:
    """Every part with the slice of its sources among the s sources of a mask."""
    slices, first = [], 0
    for unit_part in batch.parts:
        count = unit_part.count if unit_part.grid is None else prod(-(-side // cell) for side in unit_part.grid)
        slices.append((unit_part, slice(first, first + count)))
        first += count
    return slices


def sources(batch: Batch, cell: int = 1) -> Tensor:
    """(M, s) booleans: the sources that exist; a cell exists if one of its pixels does."""
    real = batch.rows.real[: batch.masks]
    if batch.pixel_grid is None or cell == 1:
        return real
    return torch.cat([_part_sources(real[:, unit_part.units], unit_part.grid, cell) for unit_part in batch.parts], 1)


def _part_sources(real: Tensor, grid: tuple[int, int] | None, cell: int) -> Tensor:
    if grid is None:
        return real
    return max_pool2d(real.reshape(len(real), 1, *grid).float(), cell, ceil_mode=True).flatten(1) > 0


def source_weights(batch: Batch, cell: int = 1) -> Tensor:
    """(M, s): weights of the sources in means over sources; all parts of an input weigh the same."""
    parts = [Part(where.start, where.stop, unit_part.grid) for unit_part, where in source_slices(batch, cell)]
    return part_weights(sources(batch, cell), parts, batch.dtype)


def smooth(scores: Tensor, batch: Batch, width: float) -> Tensor:
    """(S, n) scores averaged over their neighbours in the same part with weights exp(-d^2 / width^2)."""
    real = batch.rows.real
    sigma = torch.full_like(scores, max(width, 1e-3))  # a smaller width changes nothing, and its square could underflow

    def spread(values: Tensor, unit_part: Part) -> Tensor:
        part_values, part_sigma = values[:, unit_part.units], sigma[:, unit_part.units]
        if unit_part.grid is None:
            return line_field(part_values, part_sigma, batch.rows.position[:, unit_part.units], power=2)
        shape = (len(values), *unit_part.grid)
        return grid_field(part_values.reshape(shape), part_sigma.reshape(shape), power=2).flatten(1)

    total, weight = (
        torch.cat([spread(values, unit_part) for unit_part in batch.parts], 1)
        for values in (scores * real, real.to(scores.dtype))
    )
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
