"""Does an explanation agree with what people marked? Pure functions over arrays.

`gold` is (n,) bool, what people marked; `chosen` (n,) bool, what a rule selected; `scores` (n,) numbers.

Conventions, the same everywhere:
- Nothing marked (gold all False): the value is NaN. There is no agreement to measure; tables count such inputs out.
- Nothing chosen: precision, recall and every F1 are 0.
- Equal scores: the left one first where a number of units is chosen; in average precision, AUPRC, pointing and the top
  share they come together, so that the order of equal scores never matters there.
- NaN or infinite scores are an error: no order can be given to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rationales.errors import InputError

OVERLAP = 0.5  # a span counts as found from this intersection over union
THRESHOLDS = tuple(number / 20 for number in range(1, 20))  # of the best-threshold IoU (0.05 ... 0.95)
TOP_SHARE = 0.15  # of the pixels


def precision(gold: np.ndarray, chosen: np.ndarray) -> float:
    """Share of the chosen units that people marked."""
    hits, wanted, had = _overlap(gold, chosen)
    return _ratio(hits, had) if wanted else math.nan


def recall(gold: np.ndarray, chosen: np.ndarray) -> float:
    """Share of the marked units that are chosen."""
    hits, wanted, _ = _overlap(gold, chosen)
    return _ratio(hits, wanted) if wanted else math.nan


def token_f1(gold: np.ndarray, chosen: np.ndarray) -> float:
    """2 |gold and chosen| / (|gold| + |chosen|): the harmonic mean of precision and recall."""
    hits, wanted, had = _overlap(gold, chosen)
    return _ratio(2 * hits, wanted + had) if wanted else math.nan


def token_iou(gold: np.ndarray, chosen: np.ndarray) -> float:
    """|gold and chosen| / |gold or chosen|."""
    hits, wanted, had = _overlap(gold, chosen)
    return _ratio(hits, wanted + had - hits) if wanted else math.nan


def micro_f1(golds: Sequence[np.ndarray], chosen: Sequence[np.ndarray]) -> float:
    """F1 of all inputs' units thrown together; the mean of `token_f1` weighted with |gold| + |chosen|."""
    sums = np.sum([_overlap(gold, own) for gold, own in zip(golds, chosen, strict=True)], axis=0)
    hits, wanted, had = sums
    return _ratio(2 * hits, wanted + had) if wanted else math.nan


def top_k_f1(gold: np.ndarray, scores: np.ndarray, k: int) -> float:
    """F1 of the k units with the highest scores."""
    return token_f1(gold, top(scores, k))


def f1_at_gold_length(gold: np.ndarray, scores: np.ndarray) -> float:
    """F1 when as many units are chosen as people marked; precision and recall are then the same."""
    return top_k_f1(gold, scores, int(np.sum(gold)))


def precision_at(gold: np.ndarray, scores: np.ndarray, k: int = 1) -> float:
    """Share of the k highest scores that people marked; k = 1 asks for the best unit alone."""
    return precision(gold, top(scores, k))


def iou_f1(gold: np.ndarray, chosen: np.ndarray, least: float = OVERLAP) -> float:
    """F1 of spans: a span is found if one of the other side overlaps it with an IoU of at least `least`.

    Recall is the share of marked spans that are found, precision the share of chosen spans that are right. Above 0.5 a
    span has one partner at most; at exactly 0.5 it may have two, and each counts.
    """
    wanted, had = runs(gold), runs(chosen)
    _same(gold, chosen)
    if not len(wanted):
        return math.nan
    if not len(had):
        return 0.0
    matched = span_iou(wanted, had) >= least - 1e-12
    found, right = matched.any(1).mean(), matched.any(0).mean()
    return _ratio(2 * found * right, found + right)


def average_precision(gold: np.ndarray, scores: np.ndarray) -> float:
    """Sum over the thresholds of (rise in recall) x precision, equal scores together."""
    _checked(gold, scores)
    if not gold.any():
        return math.nan
    precisions, recalls = _steps(gold, scores)
    return float(np.sum(np.diff(recalls, prepend=0.0) * precisions))


def auprc(gold: np.ndarray, scores: np.ndarray) -> float:
    """Area under precision over recall by trapezoids, from precision 1 at recall 0 (as ERASER measures it)."""
    _checked(gold, scores)
    if not gold.any():
        return math.nan
    precisions, recalls = _steps(gold, scores)
    heights, places = np.append(1.0, precisions), np.append(0.0, recalls)
    return float(np.sum(np.diff(places) * (heights[1:] + heights[:-1]) / 2))


def best_threshold_iou(
    golds: Sequence[np.ndarray], scores: Sequence[np.ndarray], thresholds: Sequence[float] = THRESHOLDS
) -> tuple[float, np.ndarray]:
    """The threshold with the best mean IoU over all inputs, and every input's IoU there.

    Negative scores become 0, the rest is divided by the input's largest; a unit is chosen from the threshold on (Pham
    et al. 2022, section 5.2). The threshold is fitted to the marks it is judged by: a ceiling, not a forecast.
    """
    ious = np.array(
        [
            [token_iou(gold, own >= threshold - 1e-12) for threshold in thresholds]
            for gold, own in zip(golds, map(normalised, scores), strict=True)
        ]
    ).reshape(len(golds), len(thresholds))
    defined = ~np.isnan(ious).any(1)
    if not defined.any():
        return math.nan, np.full(len(golds), np.nan)
    best = int(np.argmax(ious[defined].mean(0)))
    return float(thresholds[best]), ious[:, best]


# -- pictures: `gold` is (h, w) bool, inside the boxes; `scores` (h, w) -----------------------------------------------


def pointing(gold: np.ndarray, scores: np.ndarray) -> float:
    """1 if the highest score lies inside, else 0; of several highest the share that does (Zhang et al. 2016)."""
    _checked(gold, scores)
    return float(gold[scores == scores.max()].mean()) if gold.any() else math.nan


def inside_energy(gold: np.ndarray, scores: np.ndarray, absolute: bool = False) -> float:
    """Share of the positive scores' sum that lies inside (Wang et al. 2020); `absolute`: of all scores' size.

    NaN where no score is positive.
    """
    _checked(gold, scores)
    energy = np.abs(scores).astype(np.float64) if absolute else np.maximum(scores, 0).astype(np.float64)
    total = energy.sum()
    return float(energy[gold].sum() / total) if gold.any() and total > 0 else math.nan


def inside_top(gold: np.ndarray, scores: np.ndarray, share: float = TOP_SHARE) -> float:
    """Share of the highest `share` of the pixels that lies inside; scores equal to the lowest of them count in part."""
    _checked(gold, scores)
    if not gold.any():
        return math.nan
    flat, inside = scores.ravel(), gold.ravel()
    count = max(1, math.ceil(share * flat.size - 1e-9))
    edge = np.partition(flat, flat.size - count)[flat.size - count]
    above, tied = flat > edge, flat == edge
    return float((inside[above].sum() + (count - above.sum()) * inside[tied].mean()) / count)


# -- parts ------------------------------------------------------------------------------------------------------------


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """(n,) bool: the k highest scores, equal ones from the left; all where there are no more than k."""
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")[: max(k, 0)]] = True
    return chosen


def normalised(scores: np.ndarray) -> np.ndarray:
    """(n,) in [0, 1]: the positive part divided by the input's largest score; zeros where no score is positive."""
    positive = np.maximum(np.asarray(scores, dtype=np.float64), 0.0)
    most = positive.max(initial=0.0)
    return positive / most if most > 0 else positive


def runs(chosen: np.ndarray) -> np.ndarray:
    """(spans, 2): first and one past the last of each stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8)))
    return edges.reshape(-1, 2)


def span_iou(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(a, 2) and (b, 2) spans -> (a, b): shared length over joint length."""
    shared = np.minimum(one[:, None, 1], other[None, :, 1]) - np.maximum(one[:, None, 0], other[None, :, 0])
    shared = np.maximum(shared, 0)
    joint = (one[:, 1] - one[:, 0])[:, None] + (other[:, 1] - other[:, 0])[None] - shared
    iou: np.ndarray = shared / np.maximum(joint, 1)
    return iou


def _overlap(gold: np.ndarray, chosen: np.ndarray) -> tuple[int, int, int]:
    """How many are marked and chosen, how many marked, how many chosen."""
    _same(gold, chosen)
    return int(np.sum(gold & chosen)), int(np.sum(gold)), int(np.sum(chosen))


def _steps(gold: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Precision and recall after each run of equal scores, highest first."""
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")
    hits, ordered = np.cumsum(gold[order]), np.asarray(scores, dtype=np.float64)[order]
    last = np.append(np.diff(ordered) != 0, True)
    return hits[last] / (np.flatnonzero(last) + 1), hits[last] / gold.sum()


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _same(gold: np.ndarray, other: np.ndarray) -> None:
    if np.shape(gold) != np.shape(other):
        raise InputError(f"people marked {np.shape(gold)} units, but {np.shape(other)} are given")
    for values in (gold, other):
        if values.dtype != np.bool_:
            raise InputError(f"marked and chosen units are True or False, not {values.dtype}")


def _checked(gold: np.ndarray, scores: np.ndarray) -> None:
    if np.shape(gold) != np.shape(scores):
        raise InputError(f"people marked {np.shape(gold)} units, but there are {np.shape(scores)} scores")
    if gold.dtype != np.bool_:
        raise InputError(f"marked units are True or False, not {gold.dtype}")
    if not np.isfinite(scores).all():
        raise InputError("scores hold NaN or infinity, which cannot be ranked; leave the input out")
