"""How sure a number is: bootstrap intervals, paired tests against a reference, and what people reach."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rationales.errors import OptionError
from rationales.evaluation.plausibility import iou_f1, precision, recall, token_f1

DRAWS = 2000  # of the bootstrap
FLIPS = 10_000  # of the sign test
BLOCK = 2_000_000  # random numbers at once


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
    values: np.ndarray, weights: np.ndarray | None = None, *, seed: int = 0, draws: int = DRAWS, level: float = 0.95
) -> Estimate:
    """Mean and percentile bootstrap interval over inputs; NaN values are left out and not counted.

    `weights`: (n,), for a pooled value such as micro F1; then inputs are drawn together with their weights. Fewer than
    two values have no interval (NaN).
    """
    values, share = _defined(values, weights)
    if not len(values):
        return Estimate(math.nan, math.nan, math.nan, 0)
    total = share.sum()
    mean = float((values * share).sum() / total) if total > 0 else math.nan
    if len(values) < 2 or not total > 0:
        return Estimate(mean, math.nan, math.nan, len(values))
    random = np.random.default_rng(seed)
    means: list[np.ndarray] = []
    at_once = max(1, BLOCK // len(values))
    for begin in range(0, draws, at_once):
        drawn = random.integers(0, len(values), (min(at_once, draws - begin), len(values)))
        own = share[drawn]
        means.append((values[drawn] * own).sum(1) / np.maximum(own.sum(1), 1e-300))
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return Estimate(mean, float(low), float(high), len(values))


def compare(
    values: np.ndarray,
    reference: np.ndarray,
    weights: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    seed: int = 0,
    flips: int = FLIPS,
) -> Comparison:
    """Paired sign-flip test of the difference of the means, on the inputs where both values are defined.

    Under the null hypothesis the two rows could change places on any input. With up to 13 inputs all flips are tried,
    else `flips` random ones; p counts the observed arrangement too, so it is never 0. `weights`: of the values and of
    the reference, for pooled values; they change places with their values.
    """
    if len(values) != len(reference):
        raise OptionError(f"{len(values)} values cannot be paired with {len(reference)}")
    both = ~(np.isnan(values) | np.isnan(reference))
    n = int(both.sum())
    if n == 0:
        return Comparison(math.nan, math.nan, 0)
    shares = [np.ones(n)] * 2 if weights is None else [np.asarray(one, dtype=np.float64)[both] for one in weights]
    sums = [
        np.asarray(one, dtype=np.float64)[both] * share for one, share in zip((values, reference), shares, strict=True)
    ]
    # a flip takes (x + y)/2 + s (x - y)/2 with s = -1 instead of 1
    middle, half = [(one + other).sum() / 2 for one, other in (sums, shares)], [(a - b) / 2 for a, b in (sums, shares)]

    def difference(signs: np.ndarray) -> np.ndarray:
        """(flips, n) of -1 and 1 -> (flips,)."""
        (top, bottom), (moved, weight) = middle, (signs @ np.stack(half, 1)).T
        with np.errstate(invalid="ignore", divide="ignore"):
            made: np.ndarray = (top + moved) / (bottom + weight) - (top - moved) / (bottom - weight)
        finite: np.ndarray = np.nan_to_num(made)
        return finite

    observed = float(difference(np.ones((1, n)))[0])
    edge = abs(observed) - 1e-12 * max(1.0, abs(observed))  # equal sums in another order of addition are equal
    if 2**n <= flips:
        every = 1.0 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return Comparison(observed, float((np.abs(difference(every)) >= edge).mean()), n)
    at_once = max(1, BLOCK // n)
    draws = [_signs(n, flips, seed)] if flips <= at_once else _many_signs(n, flips, seed, at_once)
    beyond = sum(int((np.abs(difference(drawn)) >= edge).sum()) for drawn in draws)
    return Comparison(observed, (beyond + 1) / (flips + 1), n)


@functools.lru_cache(2)
def _signs(n: int, flips: int, seed: int) -> np.ndarray:
    """(flips, n) of -1 and 1; remembered, since all rows and metrics of a table are tested with the same ones."""
    return next(_many_signs(n, flips, seed, flips))


def _many_signs(n: int, flips: int, seed: int, at_once: int) -> Iterator[np.ndarray]:
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


def human_ceiling(golds: Sequence[np.ndarray | None], people: Sequence[Sequence[np.ndarray]]) -> dict[str, np.ndarray]:
    """What people reach against the marks that methods are judged by: per input, the mean over its further people.

    golds: (n,) bool per input; people: for each input what every further person marked of it, (n,) bool each. NaN where
    there is no gold or nobody else.
    """
    measures = {"token-f1": token_f1, "iou-f1": iou_f1, "token-precision": precision, "token-recall": recall}
    found = {name: np.full(len(golds), np.nan) for name in measures}
    for number, (gold, others) in enumerate(zip(golds, people, strict=True)):
        if gold is not None and len(others):
            for name, measure in measures.items():
                found[name][number] = float(np.mean([measure(gold, other) for other in others]))
    return found


def _defined(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    given = np.asarray(values, dtype=np.float64)
    share = np.ones_like(given) if weights is None else np.asarray(weights, dtype=np.float64)
    if share.shape != given.shape or given.ndim != 1:
        raise OptionError(f"{share.shape} weights for {given.shape} values; both must be one row of the same length")
    known = ~np.isnan(given)
    return given[known], share[known]
