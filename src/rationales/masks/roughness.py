"""How rough a mask is: high-frequency energy relative to its total tells noise and checkerboards from regions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d

MIN_DEVIATION = 0.02  # standard deviation of the keeps below which a mask has no visible structure


def roughness(keep: Tensor, real: Tensor, grid: tuple[int, int] | None, cell: int = 1) -> Tensor:
    """(M, n) keeps, (M, n) bool -> (M,): mean squared difference to the mean of the neighbours, over the variance.

    On a grid a unit has four neighbours, after averaging over cells of `cell` x `cell` units, within which a mask
    cannot vary by itself; on a line it has two. 0: constant or smooth; about 1.25 on a grid and 1.5 on a line: white
    noise, or a single unit that differs; 4: a checkerboard. Masks that hardly vary (`MIN_DEVIATION`) get 0.
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
    return torch.where(variance > MIN_DEVIATION**2, energy / variance.clamp(min=1e-12), torch.zeros_like(variance))
