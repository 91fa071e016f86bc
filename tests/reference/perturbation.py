"""Fong and Vedaldi (2017) and Fong et al. (2019), literally: one mask, loops over cells and units, float64."""

from __future__ import annotations

import math

import numpy as np


def upsampled(cells: np.ndarray, size: tuple[int, int], cell: int, blur: float) -> np.ndarray:
    """(H, W): bilinear between the centres of cells, then a Gaussian of standard deviation `blur` pixels."""
    rows, columns = cells.shape
    fine = np.zeros(size)
    for y in range(size[0]):
        for x in range(size[1]):
            v, u = ((y + 0.5) / cell - 0.5, (x + 0.5) / cell - 0.5)
            v, u = min(max(v, 0), rows - 1), min(max(u, 0), columns - 1)
            for i in range(rows):
                for j in range(columns):
                    fine[y, x] += max(0, 1 - abs(v - i)) * max(0, 1 - abs(u - j)) * cells[i, j]
    if blur == 0:
        return fine
    blurred = np.zeros(size)
    v, u = np.ogrid[: size[0], : size[1]]
    for y in range(size[0]):
        for x in range(size[1]):
            weights = np.exp(-((y - v) ** 2 + (x - u) ** 2) / (2 * blur**2))
            blurred[y, x] = (weights * fine).sum() / weights.sum()
    return blurred


def total_variation(cells: np.ndarray, power: float) -> float:
    """Sum over neighbours of |difference|^power."""
    rows, columns = cells.shape
    total = 0.0
    for i in range(rows):
        for j in range(columns):
            total += abs(cells[i + 1, j] - cells[i, j]) ** power if i + 1 < rows else 0.0
            total += abs(cells[i, j + 1] - cells[i, j]) ** power if j + 1 < columns else 0.0
    return total


def smooth_maximum(cells: np.ndarray, sigma: float, radius: float, temperature: float) -> np.ndarray:
    """smax over the cells within `radius` of k(distance) m, k a Gaussian of standard deviation `sigma` cells."""
    rows, columns = cells.shape
    result = np.zeros_like(cells)
    for i in range(rows):
        for j in range(columns):
            values = []
            for v in range(rows):
                for u in range(columns):
                    square = (i - v) ** 2 + (j - u) ** 2
                    if square <= radius**2:
                        values.append(math.exp(-square / (2 * sigma**2)) * cells[v, u])
            weights = [math.exp(value / temperature) for value in values]
            result[i, j] = sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)
    return result


def area_penalty(keep: np.ndarray, area: float) -> float:
    """||vecsort(m) - r_a||^2 / n, for an area of a whole number of units."""
    kept = round(area * len(keep))
    ranked = sorted(keep)
    reference = [0.0] * (len(keep) - kept) + [1.0] * kept
    return sum((value - target) ** 2 for value, target in zip(ranked, reference, strict=True)) / len(keep)
