"""Agreement of an explanation with what people marked. Pure functions over arrays.

`gold` is (n,) bool, what people marked; `selected` (n,) bool, what a rule selected; `scores` (n,) numbers.

Conventions, the same everywhere:
- Nothing marked (gold all False): the value is NaN. There is no agreement to measure; tables count such inputs out.
- Nothing selected: precision, recall and every F1 are 0.
- Equal scores: the left one first where a number of units is selected; in average precision, AUPRC, pointing and the
  top share they count together, so that the order of equal scores never matters there.
- NaN or infinite scores are an error: no order can be given to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rationales.errors import InputError
from rationales.rationale import Rule

MIN_SPAN_IOU = 0.5  # a span counts as found from this intersection over union
THRESHOLDS = tuple(number / 20 for number in range(1, 20))  # of the best-threshold IoU (0.05 ... 0.95)
TOP_SHARE = 0.15  # of the pixels


def precision(gold: np.ndarray, selected: np.ndarray) -> float:
    """Share of the selected units that people marked."""
    hits, marked, selected_count = _overlap(gold, selected)
    return _ratio(hits, selected_count) if marked else math.nan


def recall(gold: np.ndarray, selected: np.ndarray) -> float:
    """Share of the marked units that are selected."""
    hits, marked, _ = _overlap(gold, selected)
    return _ratio(hits, marked) if marked else math.nan


def token_f1(gold: np.ndarray, selected: np.ndarray) -> float:
    """2 |gold and selected| / (|gold| + |selected|): the harmonic mean of precision and recall."""
    hits, marked, selected_count = _overlap(gold, selected)
    return _ratio(2 * hits, marked + selected_count) if marked else math.nan


def token_iou(gold: np.ndarray, selected: np.ndarray) -> float:
    """|gold and selected| / |gold or selected|."""
    hits, marked, selected_count = _overlap(gold, selected)
    return _ratio(hits, marked + selected_count - hits) if marked else math.nan


def micro_f1(golds: Sequence[np.ndarray], selected: Sequence[np.ndarray]) -> float:
    """F1 of the units of all inputs pooled; the mean of `token_f1` weighted with |gold| + |selected|."""
    overlaps = [_overlap(gold, input_selected) for gold, input_selected in zip(golds, selected, strict=True)]
    hits, marked, selected_count = np.sum(overlaps, axis=0)
    return _ratio(2 * hits, marked + selected_count) if marked else math.nan


def top_k_f1(gold: np.ndarray, scores: np.ndarray, k: int) -> float:
    """F1 of the k units with the highest scores."""
    return token_f1(gold, top(scores, k))


def f1_at_gold_length(gold: np.ndarray, scores: np.ndarray) -> float:
    """F1 when as many units are selected as people marked; precision and recall are then the same."""
    return top_k_f1(gold, scores, int(np.sum(gold)))


def precision_at(gold: np.ndarray, scores: np.ndarray, k: int = 1) -> float:
    """Share of the k highest scores that people marked; k = 1 asks for the best unit alone."""
    return precision(gold, top(scores, k))


def iou_f1(gold: np.ndarray, selected: np.ndarray, min_iou: float = MIN_SPAN_IOU) -> float:
    """F1 of spans: a span is found if one of the other side overlaps it with an IoU of at least `min_iou`.

    Recall is the share of marked spans that are found, precision the share of selected spans that are right. Above 0.5
    a span has at most one partner; at exactly 0.5 it may have two, and each counts.
    """
    marked_spans, selected_spans = runs(gold), runs(selected)
    _check_selected(gold, selected)
    if not len(marked_spans):
        return math.nan
    if not len(selected_spans):
        return 0.0
    matched = span_iou(marked_spans, selected_spans) >= min_iou - 1e-12
    span_recall, span_precision = matched.any(1).mean(), matched.any(0).mean()
    return _ratio(2 * span_recall * span_precision, span_recall + span_precision)


def average_precision(gold: np.ndarray, scores: np.ndarray) -> float:
    """Sum over the thresholds of (rise in recall) x precision, equal scores together."""
    _check_scores(gold, scores)
    if not gold.any():
        return math.nan
    precisions, recalls = _precision_recall(gold, scores)
    return float(np.sum(np.diff(recalls, prepend=0.0) * precisions))


def auprc(gold: np.ndarray, scores: np.ndarray) -> float:
    """Area under precision over recall by trapezoids, from precision 1 at recall 0 (as ERASER measures it)."""
    _check_scores(gold, scores)
    if not gold.any():
        return math.nan
    precisions, recalls = _precision_recall(gold, scores)
    heights, recalls_from_zero = np.append(1.0, precisions), np.append(0.0, recalls)
    return float(np.sum(np.diff(recalls_from_zero) * (heights[1:] + heights[:-1]) / 2))


def best_threshold_iou(
    golds: Sequence[np.ndarray], scores: Sequence[np.ndarray], thresholds: Sequence[float] = THRESHOLDS
) -> tuple[float, np.ndarray]:
    """The threshold with the best mean IoU over all inputs, and every input's IoU there.

    Negative scores become 0, the rest is divided by the input's largest; a unit is selected from the threshold on (Pham
    et al. 2022, section 5.2). The threshold is fitted to the marks it is judged by: a ceiling, not a forecast.
    """
    pairs = list(zip(golds, map(normalised, scores), strict=True))
    ious_of_inputs = [[token_iou(gold, keeps >= edge - 1e-12) for edge in thresholds] for gold, keeps in pairs]
    ious = np.array(ious_of_inputs).reshape(len(golds), len(thresholds))
    defined = ~np.isnan(ious).any(1)
    if not defined.any():
        return math.nan, np.full(len(golds), np.nan)
    best = int(np.argmax(ious[defined].mean(0)))
    return float(thresholds[best]), ious[:, best]


# -- images: `gold` is (h, w) bool, inside the boxes; `scores` (h, w) -----------------------------------------------


def pointing(gold: np.ndarray, scores: np.ndarray) -> float:
    """1 if the highest score lies inside, else 0; of several highest the share that does (Zhang et al. 2016)."""
    _check_scores(gold, scores)
    return float(gold[scores == scores.max()].mean()) if gold.any() else math.nan


def inside_energy(gold: np.ndarray, scores: np.ndarray, absolute: bool = False) -> float:
    """Share of the positive scores' sum that lies inside (Wang et al. 2020); `absolute`: of all scores' size.

    NaN where no score is positive.
    """
    _check_scores(gold, scores)
    energy = np.abs(scores).astype(np.float64) if absolute else np.maximum(scores, 0).astype(np.float64)
    total = energy.sum()
    return float(energy[gold].sum() / total) if gold.any() and total > 0 else math.nan


def inside_top(gold: np.ndarray, scores: np.ndarray, share: float = TOP_SHARE) -> float:
    """Share of the highest `share` of the pixels that lies inside; scores equal to the lowest of them count in part."""
    _check_scores(gold, scores)
    if not gold.any():
        return math.nan
    flat, inside = scores.ravel(), gold.ravel()
    count = max(1, math.ceil(share * flat.size - 1e-9))
    edge = np.partition(flat, flat.size - count)[flat.size - count]
    above, tied = flat > edge, flat == edge
    return float((inside[above].sum() + (count - above.sum()) * inside[tied].mean()) / count)


def human_ceiling(golds: Sequence[np.ndarray | None], people: Sequence[Sequence[np.ndarray]]) -> dict[str, np.ndarray]:
    """What people reach against the marks that methods are judged by: per input, the mean over its further people.

    golds: (n,) bool per input; people: for each input what every further person marked of it, (n,) bool each. NaN where
    there is no gold or nobody else.
    """
    measures = {"token-f1": token_f1, "iou-f1": iou_f1, "token-precision": precision, "token-recall": recall}
    reached = {name: np.full(len(golds), np.nan) for name in measures}
    for number, (gold, marks) in enumerate(zip(golds, people, strict=True)):
        if gold is not None and len(marks):
            for name, measure in measures.items():
                reached[name][number] = float(np.mean([measure(gold, annotation) for annotation in marks]))
    return reached


# -- building blocks ---------------------------------------------------------------------------------------------------


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """(n,) bool: the k highest scores, equal ones from the left; all where there are no more than k."""
    return Rule(top=max(k, 0)).select(np.asarray(scores, dtype=np.float64))


def normalised(scores: np.ndarray) -> np.ndarray:
    """(n,) in [0, 1]: the positive part divided by the input's largest score; zeros where no score is positive."""
    positive = np.maximum(np.asarray(scores, dtype=np.float64), 0.0)
    largest = positive.max(initial=0.0)
    return positive / largest if largest > 0 else positive


def as_keeps(scores: np.ndarray) -> np.ndarray:
    """Scores in [0, 1]: as they are if they lie there, else the positive part over the input's largest."""
    values = np.asarray(scores, dtype=np.float64)
    return values if values.size and values.min() >= 0 and values.max() <= 1 else normalised(values)


def runs(selected: np.ndarray) -> np.ndarray:
    """(spans, 2): first and one past the last of each stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], selected, [False]]).astype(np.int8)))
    return edges.reshape(-1, 2)


def span_iou(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(a, 2) and (b, 2) spans -> (a, b): shared length over joint length."""
    shared = np.minimum(first[:, None, 1], second[None, :, 1]) - np.maximum(first[:, None, 0], second[None, :, 0])
    shared = np.maximum(shared, 0)
    joint = (first[:, 1] - first[:, 0])[:, None] + (second[:, 1] - second[:, 0])[None] - shared
    iou: np.ndarray = shared / np.maximum(joint, 1)
    return iou


def _overlap(gold: np.ndarray, selected: np.ndarray) -> tuple[int, int, int]:
    """How many are marked and selected, how many marked, how many selected."""
    _check_selected(gold, selected)
    return int(np.sum(gold & selected)), int(np.sum(gold)), int(np.sum(selected))


def _precision_recall(gold: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Precision and recall after each run of equal scores, highest first."""
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")
    hits, ordered = np.cumsum(gold[order]), np.asarray(scores, dtype=np.float64)[order]
    last = np.append(np.diff(ordered) != 0, True)
    return hits[last] / (np.flatnonzero(last) + 1), hits[last] / gold.sum()


def _ratio(numerator: float, denominator: float) -> float:
    return float(numerator / denominator) if denominator else 0.0


def _check_selected(gold: np.ndarray, selected: np.ndarray) -> None:
    if np.shape(gold) != np.shape(selected):
        raise InputError(f"people marked {np.shape(gold)} units, but {np.shape(selected)} are given")
    for values in (gold, selected):
        if values.dtype != np.bool_:
            raise InputError(f"marked and selected units are True or False, not {values.dtype}")


def _check_scores(gold: np.ndarray, scores: np.ndarray) -> None:
    if np.shape(gold) != np.shape(scores):
        raise InputError(f"people marked {np.shape(gold)} units, but there are {np.shape(scores)} scores")
    if gold.dtype != np.bool_:
        raise InputError(f"marked units are True or False, not {gold.dtype}")
    if not np.isfinite(scores).all():
        raise InputError("scores hold NaN or infinity, which cannot be ranked; leave the input out")
