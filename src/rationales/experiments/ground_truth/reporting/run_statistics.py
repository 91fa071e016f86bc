"""Numbers over runs and inputs: means with nested bootstrap intervals, trends, and what of a run a figure needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rationales.evaluation.statistics import DRAWS, Estimate
from rationales.experiments.ground_truth.runs.run_record import Record, Told

INNER = 200  # resamples of a run's inputs that the bootstrap chooses from
BOTH, WITH, WITHOUT = "all", "with", "without"
SIDES = {BOTH: (0, 1), WITH: (1,), WITHOUT: (0,)}  # which inputs: those of class 1 have the plant

Floats = NDArray[np.float64]


def nested(parts: Sequence[Floats], wholes: Sequence[Floats] | None = None, seed: int = 0) -> Estimate:
    """Mean over inputs of all runs with a 95 % interval: runs are drawn, then inputs of each; n inputs have a value.

    `parts`: (inputs,) of each run, NaN where there is no value. `wholes`: for pooled shares, sum of parts / sum of
    wholes. A single run has an interval over its inputs alone.
    """
    pairs = [_defined(own, None if wholes is None else wholes[number]) for number, own in enumerate(parts)]
    pairs = [pair for pair in pairs if len(pair)]
    n = sum(len(pair) for pair in pairs)
    total = np.concatenate(pairs).sum(0) if pairs else np.zeros(2)
    if not total[1] > 0:
        return Estimate(math.nan, math.nan, math.nan, n)
    mean = float(total[0] / total[1])
    if n < 2:
        return Estimate(mean, math.nan, math.nan, n)
    random = np.random.default_rng(seed)
    inner = np.stack(
        [pair[random.integers(0, len(pair), (INNER, len(pair)))].sum(1) for pair in pairs]
    )  # (runs, INNER, 2)
    runs = random.integers(0, len(pairs), (DRAWS, len(pairs)))
    drawn = inner[runs, random.integers(0, INNER, runs.shape)].sum(1)  # (DRAWS, 2)
    drawn = drawn[drawn[:, 1] > 0]
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return Estimate(mean, float(low), float(high), n)


def _defined(part: Floats, whole: Floats | None) -> Floats:
    """(n, 2): part and whole of the inputs that have both."""
    both = np.stack([part, np.ones_like(part) if whole is None else whole], 1)
    return both[np.isfinite(both).all(1)]


def inputs_of(record: Record, side: str) -> NDArray[np.bool_]:
    """(inputs,): those with the plant, without, or all."""
    return np.isin(np.array(record.which), SIDES[side])


def values_of(record: Record, told: Told | None, measure: str = "region", side: str = BOTH) -> Floats:
    """(inputs of that side,): what a method reaches on each; NaN where it has no scores."""
    chosen = inputs_of(record, side)
    if told is None or measure not in told.values:
        return np.full(int(chosen.sum()), math.nan)
    return np.array(told.values[measure], dtype=np.float64)[chosen]


def mean_of(record: Record, method: str, measure: str = "region", side: str = BOTH) -> float:
    """The mean over a run's inputs; NaN where there is none."""
    return plain_mean(values_of(record, record.told.get(method), measure, side))


def plain_mean(values: Sequence[float] | Floats) -> float:
    """The mean of those that are no NaN; NaN where there is none."""
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    return float(known.mean()) if len(known) else math.nan


def over(records: Sequence[Record], method: str, measure: str = "region", side: str = BOTH) -> Estimate:
    """The mean over all inputs of these runs, with its nested interval."""
    return nested([values_of(one, one.told.get(method), measure, side) for one in records])


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's, with mean ranks for ties; NaN with fewer than three points or where one side is all the same."""
    given = np.array([x, y], dtype=np.float64)
    given = given[:, np.isfinite(given).all(0)]
    if given.shape[1] < 3:
        return math.nan
    ranks = np.stack([_ranks(one) for one in given])
    spread = ranks.std(1)
    if not (spread > 0).all():
        return math.nan
    return float(np.mean((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())) / (spread[0] * spread[1]))


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    made: Floats = (last - (counts - 1) / 2)[inverse]
    return made


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the line through the points by least squares; NaN with fewer than two different x."""
    given = np.array([x, y], dtype=np.float64)
    given = given[:, np.isfinite(given).all(0)]
    if len(np.unique(given[0])) < 2:
        return math.nan
    return float(np.polyfit(given[0], given[1], 1)[0])
