"""Rankings of rows, and how far two rankings agree: mean ranks, Kendall's tau-b and Spearman's rho."""

from __future__ import annotations

import math

import numpy as np

from rationales.evaluation.tables.statistics import NUMBERS_AT_ONCE, rank_correlation

DRAWS = 1000  # resamples of the inputs


def rank_rows(values: np.ndarray, higher: bool) -> np.ndarray:
    """(R,) values -> (R,) ranks from 1, the best; equal values share the mean of their ranks; NaN has no rank."""
    ordered = -np.asarray(values, dtype=np.float64) if higher else np.asarray(values, dtype=np.float64)
    better = (ordered[None, :] < ordered[:, None]).sum(1)
    equal = (ordered[None, :] == ordered[:, None]).sum(1)
    return np.where(np.isnan(ordered), np.nan, 1 + better + (equal - 1) / 2)


def kendall(first: np.ndarray, second: np.ndarray) -> float:
    """Kendall's tau-b of two (R,) arrays over the rows that have both values; NaN if one of them is constant."""
    both = ~(np.isnan(first) | np.isnan(second))
    return float(_tau(np.asarray(first)[both], np.asarray(second)[both]))


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rho of two (R,) arrays over the rows that have both values; NaN if one of them is constant."""
    both = ~(np.isnan(first) | np.isnan(second))
    return rank_correlation(np.asarray(first)[both], np.asarray(second)[both]) if both.sum() > 1 else math.nan


def kendall_interval(
    first: np.ndarray, second: np.ndarray, *, seed: int = 0, draws: int = DRAWS
) -> tuple[float, float]:
    """95 % bootstrap interval of tau-b between the means of two (R, inputs) arrays, over the inputs that have values.

    The inputs are resampled together: an input that is drawn is drawn for all rows and for both arrays.
    """
    defined = ~(np.isnan(first).any(0) | np.isnan(second).any(0))
    if defined.sum() < 2:
        return math.nan, math.nan
    arrays = [np.asarray(array)[:, defined] for array in (first, second)]
    n, random, taus = int(defined.sum()), np.random.default_rng(seed), []
    at_once = max(1, NUMBERS_AT_ONCE // (n * len(first)))
    for begin in range(0, draws, at_once):
        indices = random.integers(0, n, (min(at_once, draws - begin), n))
        means = [array[:, indices].mean(-1).T for array in arrays]  # (draws, R)
        taus.append(_tau(*means))
    known = np.concatenate(taus)
    known = known[~np.isnan(known)]
    if not len(known):
        return math.nan, math.nan
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)


def _tau(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(..., R) twice -> (...): concordant minus discordant pairs over the geometric mean of the untied pairs."""
    signs = [np.sign(array[..., :, None] - array[..., None, :]) for array in (first, second)]
    agreement = (signs[0] * signs[1]).sum((-2, -1))
    untied = np.sqrt((signs[0] ** 2).sum((-2, -1)) * (signs[1] ** 2).sum((-2, -1)))
    return np.where(untied > 0, agreement / np.where(untied > 0, untied, 1.0), np.nan)
