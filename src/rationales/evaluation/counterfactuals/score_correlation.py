"""How alike the scores of two methods are, input by input: Pearson's r (Pham et al. 2022, appendix D)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rationales.errors import InputError
from rationales.evaluation.tables.statistics import Estimate, estimate


def pearson(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's r of two (n,) arrays; NaN if one of them is constant."""
    arrays = [np.asarray(values, dtype=np.float64) for values in (first, second)]
    if arrays[0].shape != arrays[1].shape or arrays[0].ndim != 1:
        raise InputError(f"scores of the shapes {arrays[0].shape} and {arrays[1].shape} cannot be compared")
    if any(np.ptp(values) == 0 if values.size else True for values in arrays):
        return math.nan
    centred = [values - values.mean() for values in arrays]
    r = (centred[0] * centred[1]).sum() / np.sqrt((centred[0] ** 2).sum() * (centred[1] ** 2).sum())
    return float(np.clip(r, -1.0, 1.0))


def mean_pearson(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> Estimate:
    """Mean of r over inputs with its 95 % bootstrap interval; inputs of one word or with equal scores have none."""
    return estimate(np.array([pearson(a, b) for a, b in zip(first, second, strict=True)]))
