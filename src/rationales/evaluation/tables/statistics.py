"""Statistics of tables: bootstrap intervals, paired tests against a reference, rank correlation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rationales.errors import OptionError

DRAWS = 2000  # of the bootstrap
SIGN_FLIPS = 10_000  # of the sign test
NUMBERS_AT_ONCE = 2_000_000  # random numbers at once


@dataclass(frozen=True)
class Estimate:
    """A mean over inputs and its 95 % bootstrap interval; n inputs had a value."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Comparison:
    """How a row differs from a reference on the n inputs that both have a value for."""

    difference: float  # row minus reference
    p: float  # two-sided, by sign flips
    n: int
    adjusted: float = math.nan  # after Holm's correction over the rows of a table


def estimate(
    values: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    recalls: np.ndarray | None = None,
    seed: int = 0,
    draws: int = DRAWS,
    level: float = 0.95,
) -> Estimate:
    """Mean and percentile bootstrap interval over inputs; NaN values are left out and not counted.

    `weights`: (n,), for a pooled value such as micro F1; then inputs are drawn together with their weights. `recalls`:
    (n,), where the values are precisions and the estimate is the harmonic mean of their mean and the mean recall.
    Fewer than two values have no interval (NaN).
    """
    array = np.asarray(values, dtype=np.float64)
    columns, statistic = _columns(array, weights, recalls)
    columns = columns[~np.isnan(array)]
    n = len(columns)
    if not n:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = float(statistic(columns.sum(0)))
    if n < 2 or math.isnan(mean):
        return Estimate(mean, math.nan, math.nan, n)
    random = np.random.default_rng(seed)
    means: list[np.ndarray] = []
    at_once = max(1, NUMBERS_AT_ONCE // n)
    for begin in range(0, draws, at_once):
        indices = random.integers(0, n, (min(at_once, draws - begin), n))
        sums = np.stack([column[indices].sum(1) for column in columns.T], -1)  # (draws, columns)
        means.append(np.nan_to_num(statistic(sums)))
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return Estimate(mean, float(low), float(high), n)


def compare(
    values: np.ndarray,
    reference: np.ndarray,
    weights: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    recalls: tuple[np.ndarray, np.ndarray] | None = None,
    seed: int = 0,
    flips: int = SIGN_FLIPS,
) -> Comparison:
    """Paired sign-flip test of the difference of the means, on the inputs where both values are defined.

    Under the null hypothesis the two rows could change places on any input. With up to 13 inputs all flips are tried,
    else `flips` random ones; p counts the observed arrangement too, so it is never 0. `weights`, `recalls`: of the
    values and of the reference, as for `estimate`; they change places with their values.
    """
    if len(values) != len(reference):
        raise OptionError(f"{len(values)} values cannot be paired with {len(reference)}")
    both = ~(np.isnan(values) | np.isnan(reference))
    n = int(both.sum())
    if n == 0:
        return Comparison(math.nan, math.nan, 0)
    weight_pair, recall_pair = weights or (None, None), recalls or (None, None)
    (first, statistic), (second, _) = (
        _columns(np.asarray(array, np.float64), weight, recall)
        for array, weight, recall in zip((values, reference), weight_pair, recall_pair, strict=True)
    )
    # a flip takes (x + y)/2 + s (x - y)/2 with s = -1 instead of 1
    middle, half = (first[both] + second[both]).sum(0) / 2, (first[both] - second[both]) / 2

    def difference(signs: np.ndarray) -> np.ndarray:
        """(flips, n) of -1 and 1 -> (flips,)."""
        moved = signs @ half
        finite: np.ndarray = np.nan_to_num(statistic(middle + moved) - statistic(middle - moved))
        return finite

    observed = float(difference(np.ones((1, n)))[0])
    edge = abs(observed) - 1e-12 * max(1.0, abs(observed))  # equal sums in another order of addition are equal
    if 2**n <= flips:
        all_signs = 1.0 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return Comparison(observed, float((np.abs(difference(all_signs)) >= edge).mean()), n)
    at_once = max(1, NUMBERS_AT_ONCE // n)
    sign_chunks = [_cached_signs(n, flips, seed)] if flips <= at_once else _sign_chunks(n, flips, seed, at_once)
    as_extreme = sum(int((np.abs(difference(signs)) >= edge).sum()) for signs in sign_chunks)
    return Comparison(observed, (as_extreme + 1) / (flips + 1), n)


Statistic = Callable[[np.ndarray], np.ndarray]  # (..., columns) of sums over inputs -> (...)


def _columns(
    values: np.ndarray, weights: np.ndarray | None, recalls: np.ndarray | None
) -> tuple[np.ndarray, Statistic]:
    """(n, columns) numbers that are summed over inputs, and what is computed from the sums; NaN where undefined."""
    count = np.ones_like(values) if weights is None else np.asarray(weights, dtype=np.float64)
    for array, name in ((count, "weights"), (values if recalls is None else np.asarray(recalls), "recalls")):
        if array.shape != values.shape or values.ndim != 1:
            raise OptionError(f"{array.shape} {name} for {values.shape} values; both must be one row of equal length")
    if recalls is None:
        return np.stack([values * count, count], -1), _ratio_of_sums
    return np.stack([values, np.asarray(recalls, dtype=np.float64), count], -1), _harmonic_mean_of_means


def _ratio_of_sums(sums: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: np.ndarray = sums[..., 0] / sums[..., 1]
    return ratio


def _harmonic_mean_of_means(sums: np.ndarray) -> np.ndarray:
    """2 P R / (P + R) of mean precision P and mean recall R; 0 where both are 0."""
    product, total = 2 * sums[..., 0] * sums[..., 1], (sums[..., 0] + sums[..., 1]) * sums[..., 2]
    return np.where(total > 0, product / np.where(total > 0, total, 1.0), 0.0)


@functools.lru_cache(2)
def _cached_signs(n: int, flips: int, seed: int) -> np.ndarray:
    """(flips, n) of -1 and 1; remembered, since all rows and metrics of a table are tested with the same ones."""
    return next(_sign_chunks(n, flips, seed, flips))


def _sign_chunks(n: int, flips: int, seed: int, at_once: int) -> Iterator[np.ndarray]:
    random = np.random.default_rng(seed)
    for begin in range(0, flips, at_once):
        yield 1.0 - 2 * random.integers(0, 2, (min(at_once, flips - begin), n), dtype=np.int8)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction of several p values; NaN (nothing compared) stays NaN and is not counted."""
    values = np.asarray(p, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    adjusted = np.full(len(values), np.nan)
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.tolist()


def welch(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Difference of the means and two-sided p of Welch's two-sample t-test; NaN p for fewer than two values each.

    Two samples without any variation differ with p = 0 or 1.
    """
    difference = float(np.mean(first) - np.mean(second))
    if min(len(first), len(second)) < 2:
        return difference, math.nan
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return difference, 0.0 if difference else 1.0
    errors = [float(np.var(values, ddof=1)) / len(values) for values in (first, second)]
    freedom = sum(errors) ** 2 / sum(
        error**2 / (len(values) - 1) for error, values in zip(errors, (first, second), strict=True)
    )
    return difference, student_p(difference / math.sqrt(sum(errors)), freedom)


def student_p(statistic: float, freedom: float) -> float:
    """Two-sided p of Student's t: the regularised incomplete beta function I_x(freedom / 2, 1 / 2), x = v / (v + t²).

    By its continued fraction (Abramowitz and Stegun 26.5.8), so that tables need no SciPy where they are computed.
    """
    x, a, b = freedom / (freedom + statistic**2), freedom / 2, 0.5
    if x >= 1:
        return 1.0
    log_factor = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):  # where the fraction converges fast
        return math.exp(log_factor) * _beta_fraction(x, a, b) / a
    return 1 - math.exp(log_factor) * _beta_fraction(1 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function by Lentz's method."""
    tiny, limit = 1e-300, 1e-15
    value = d = 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    c = 1.0
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for coefficient in (even, odd):
            d = 1 / ((1 + coefficient * d) or tiny)
            c = (1 + coefficient / c) or tiny
            value *= d * c
        if abs(d * c - 1) < limit:
            break
    return value


def rank_correlation(first: np.ndarray | Sequence[float], second: np.ndarray | Sequence[float]) -> float:
    """Spearman's rho of two (n,) arrays; NaN if one of them is constant."""
    if np.shape(first) != np.shape(second):
        raise OptionError(f"{np.shape(first)} scores cannot be compared with {np.shape(second)}")
    if len(np.unique(first)) < 2 or len(np.unique(second)) < 2:
        return math.nan
    ranks = np.stack([_mean_ranks(np.asarray(values, dtype=np.float64)) for values in (first, second)])
    return float(np.clip(np.corrcoef(ranks)[0, 1], -1.0, 1.0))


def _mean_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values share the mean of theirs."""
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    mean_rank: np.ndarray = np.cumsum(count) - (count - 1) / 2
    return mean_rank[inverse]
