"""The field of MaRC over pixels as Eq. 5 and 6 write it: every source to every target, in float64, nothing left out."""

from __future__ import annotations

import torch
from torch import Tensor


def field(w: Tensor, sigma: Tensor, power: int = 1, cell: int = 1, size: tuple[int, int] | None = None) -> Tensor:
    """(M, H, W) -> (M, h, w): z_j = sum_i w_i exp(-d(i, j)^2 / sigma_i^power)."""
    size = size or (w.shape[1] * cell, w.shape[2] * cell)
    square = squares((w.shape[1], w.shape[2]), cell, size)
    fields = []
    for weight, width in zip(w.double(), sigma.double(), strict=True):
        kernel = torch.exp(-square / width.flatten()[:, None] ** power)  # sources x targets
        fields.append((weight.flatten() @ kernel).view(size))
    return torch.stack(fields)


def gradients(
    w: Tensor, sigma: Tensor, weight: Tensor, power: int = 1, cell: int = 1, size: tuple[int, int] | None = None
) -> tuple[Tensor, Tensor]:
    """Derivatives of sum_j weight_j z_j by every w_i and every sigma_i, by hand."""
    size = size or (w.shape[1] * cell, w.shape[2] * cell)
    square = squares((w.shape[1], w.shape[2]), cell, size)
    by_w, by_sigma = [], []
    for mask_w, width, upstream in zip(w.double(), sigma.double(), weight.double(), strict=True):
        here = width.flatten()[:, None]
        kernel = torch.exp(-square / here**power)
        by_w.append((kernel @ upstream.flatten()).view(mask_w.shape))
        change = kernel * square * power / here ** (power + 1)
        by_sigma.append(mask_w * (change @ upstream.flatten()).view(mask_w.shape))
    return torch.stack(by_w), torch.stack(by_sigma)


def squares(cells: tuple[int, int], cell: int, size: tuple[int, int]) -> Tensor:
    """(sources, targets): squared distances between the centres of cells and of pixels, which are whole numbers."""
    sources = torch.cartesian_prod(torch.arange(cells[0]), torch.arange(cells[1])) * cell + (cell - 1) / 2
    targets = torch.cartesian_prod(torch.arange(size[0]), torch.arange(size[1]))
    return (sources[:, None].double() - targets[None].double()).square().sum(-1)


def neighbour_difference(keep: list[list[float]], real: list[list[bool]]) -> float:
    """The 8-neighbour term, one pair of pixels at a time."""
    height, width = len(keep), len(keep[0])
    total = 0.0
    for y in range(height):
        for x in range(width):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                if y + down < height and 0 <= x + right < width and real[y][x] and real[y + down][x + right]:
                    total += (keep[y][x] - keep[y + down][x + right]) ** 2
    return total / max(1, sum(map(sum, real)))
