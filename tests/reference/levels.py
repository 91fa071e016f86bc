"""A mask of a given size from a field, one unit at a time, the threshold by halving an interval many times."""

from __future__ import annotations

import math
from collections.abc import Sequence


def at_level(z: Sequence[float], level: float, softness: float) -> list[float]:
    """keep_j = sigmoid((z_j - q) / tau) whose mean is `level`; tau is softness times the standard deviation of z."""
    mean = sum(z) / len(z)
    tau = softness * max(1e-4, math.sqrt(sum((value - mean) ** 2 for value in z) / len(z)))
    low, high = min(z) - 40 * tau, max(z) + 40 * tau
    for _ in range(200):
        q = (low + high) / 2
        kept = [_sigmoid((value - q) / tau) for value in z]
        if sum(kept) / len(z) > level:
            low = q
        else:
            high = q
    return kept


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > 0 else math.exp(value) / (1 + math.exp(value))
