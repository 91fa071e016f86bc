"""The field of MaRC as Eq. 5 and 6 write it: one word at a time, in Python's own numbers, derivatives by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence


def field(w: Sequence[float], sigma: Sequence[float], position: Sequence[float], power: int) -> list[float]:
    """z_j = sum_i w_i exp(-(x_i - x_j)^2 / sigma_i^power)."""
    return [
        sum(w[i] * _kernel(sigma[i], position[i] - position[j], power) for i in range(len(w)))
        for j in range(len(position))
    ]


def gradients(
    w: Sequence[float], sigma: Sequence[float], position: Sequence[float], power: int, weight: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Derivatives of sum_j weight_j z_j by every w_i and every sigma_i."""
    by_w, by_sigma = [], []
    for i in range(len(w)):
        total_w = total_sigma = 0.0
        for j in range(len(position)):
            distance = position[i] - position[j]
            kernel = _kernel(sigma[i], distance, power)
            total_w += weight[j] * kernel
            total_sigma += weight[j] * w[i] * kernel * power * distance**2 / sigma[i] ** (power + 1)
        by_w.append(total_w)
        by_sigma.append(total_sigma)
    return by_w, by_sigma


def smooth(scores: Sequence[float], position: Sequence[float], width: float) -> list[float]:
    """Each score becomes the mean of all, weighted by exp(-d^2 / width^2)."""
    smoothed = []
    for here in position:
        weights = [_kernel(width, there - here, 2) for there in position]
        smoothed.append(sum(a * b for a, b in zip(weights, scores, strict=True)) / sum(weights))
    return smoothed


def _kernel(sigma: float, distance: float, power: int) -> float:
    return math.exp(-(distance**2) / sigma**power)
