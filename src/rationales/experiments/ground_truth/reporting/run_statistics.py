"""Statistics over runs and their inputs: means with nested bootstrap intervals, rank correlations, slopes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rationales.evaluation.tables.statistics import DRAWS, Estimate
from rationales.experiments.ground_truth.runs.run_record import BOTH, SIDES, MethodMeasures, RunRecord

INPUT_RESAMPLES = 200  # resamples of a run's inputs from which the bootstrap over runs draws

Floats = NDArray[np.float64]


def nested_estimate(numerators: Sequence[Floats], denominators: Sequence[Floats] | None = None) -> Estimate:
    """Mean over the inputs of all runs with a 95 % bootstrap interval that resamples runs, then inputs of each.

    `numerators`: (inputs,) of each run, NaN where there is no value. `denominators`: for pooled shares, sum of
    numerators / sum of denominators. With a single run the interval is over its inputs alone. n: inputs with a value.
    """
    pairs = [
        _defined_pairs(values, None if denominators is None else denominators[number])
        for number, values in enumerate(numerators)
    ]
    pairs = [pair for pair in pairs if len(pair)]
    n = sum(len(pair) for pair in pairs)
    total = np.concatenate(pairs).sum(0) if pairs else np.zeros(2)
    if not total[1] > 0:
        return Estimate(math.nan, math.nan, math.nan, n)
    mean = float(total[0] / total[1])
    if n < 2:
        return Estimate(mean, math.nan, math.nan, n)
    random = np.random.default_rng(0)
    resampled_inputs = np.stack(
        [pair[random.integers(0, len(pair), (INPUT_RESAMPLES, len(pair)))].sum(1) for pair in pairs]
    )  # (runs, INPUT_RESAMPLES, 2)
    resampled_runs = random.integers(0, len(pairs), (DRAWS, len(pairs)))
    resample = random.integers(0, INPUT_RESAMPLES, resampled_runs.shape)
    sums = resampled_inputs[resampled_runs, resample].sum(1)  # (DRAWS, 2)
    sums = sums[sums[:, 1] > 0]
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [0.025, 0.975])
    return Estimate(mean, float(low), float(high), n)


def _defined_pairs(numerator: Floats, denominator: Floats | None) -> Floats:
    """(n, 2): numerator and denominator of the inputs that have both."""
    pairs = np.stack([numerator, np.ones_like(numerator) if denominator is None else denominator], 1)
    return pairs[np.isfinite(pairs).all(1)]


def input_values(run: RunRecord, measures: MethodMeasures | None, measure: str = "region", side: str = BOTH) -> Floats:
    """(inputs of that side,): a measure of each input; NaN where the method has no scores."""
    selected = np.isin(np.array(run.manipulations), SIDES[side])
    if measures is None or measure not in measures.values:
        return np.full(int(selected.sum()), math.nan)
    return np.array(measures.values[measure], dtype=np.float64)[selected]


def run_mean(run: RunRecord, method: str, measure: str = "region", side: str = BOTH) -> float:
    """Mean of a measure over the inputs of a run; NaN if there is none."""
    return finite_mean(input_values(run, run.measures.get(method), measure, side))


def finite_mean(values: Sequence[float] | Floats) -> float:
    """Mean of the finite values; NaN if there is none."""
    array = np.asarray(values, dtype=np.float64)
    array = array[np.isfinite(array)]
    return float(array.mean()) if len(array) else math.nan


def pooled_mean(runs: Sequence[RunRecord], method: str, measure: str = "region", side: str = BOTH) -> Estimate:
    """Mean of a measure over all inputs of these runs, with its nested interval."""
    return nested_estimate([input_values(run, run.measures.get(method), measure, side) for run in runs])


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's rank correlation with mean ranks for ties; NaN with fewer than three points or constant values."""
    from scipy.stats import rankdata  # imported here: it takes longer than all of `import rationales`

    points = _finite_points(x, y)
    if points.shape[1] < 3:
        return math.nan
    ranks = rankdata(points, axis=1)
    std = ranks.std(1)
    if not (std > 0).all():
        return math.nan
    return float(np.mean((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())) / (std[0] * std[1]))


def regression_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of the least-squares line through the points; NaN with fewer than two different x."""
    points = _finite_points(x, y)
    if len(np.unique(points[0])) < 2:
        return math.nan
    return float(np.polyfit(points[0], points[1], 1)[0])


def _finite_points(x: Sequence[float], y: Sequence[float]) -> Floats:
    """(2, n): the points without NaN or infinite coordinates."""
    points = np.array([x, y], dtype=np.float64)
    return points[:, np.isfinite(points).all(0)]
