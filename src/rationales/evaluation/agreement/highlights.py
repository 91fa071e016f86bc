"""Agreement with human highlights as Pham et al. (2022, section 5.2) compute it, with coverage and magnitude (A1, A2).

Negative scores become 0, the others are divided by the input's largest, and a unit is highlighted from a threshold on.
One threshold of 0.05, 0.10 ... 0.95 serves all inputs of a method: the best by the marks it is judged by. The figures
are therefore a ceiling, not a forecast. The paper's F1 is the harmonic mean of the *mean* precision and the *mean*
recall, which differs from the mean of each input's F1 (`token-f1`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rationales.errors import OptionError
from rationales.evaluation.agreement.overlap import THRESHOLDS, normalised, precision, recall, token_iou

CRITERIA = ("iou", "f1")  # what the best threshold is best in
_ROUNDING = 1e-12  # a score equal to the threshold is highlighted


@dataclass(frozen=True, eq=False)
class Highlights:
    """Figures of one method at one threshold; arrays are (inputs,), NaN where nobody marked anything."""

    threshold: float
    precision: np.ndarray
    recall: np.ndarray
    iou: np.ndarray
    coverage: np.ndarray  # share of the units that is highlighted
    gold_coverage: np.ndarray  # share of the units that people marked

    @property
    def f1(self) -> float:
        """Harmonic mean of the mean precision and the mean recall; 0 where both are 0, NaN without any mark."""
        return f1_of_means(self.precision, self.recall)


def f1_of_means(precisions: np.ndarray, recalls: np.ndarray) -> float:
    """2 P R / (P + R), P and R being means over the inputs where they are defined."""
    defined = ~np.isnan(precisions)
    if not defined.any():
        return math.nan
    mean_precision, mean_recall = float(precisions[defined].mean()), float(recalls[defined].mean())
    total = mean_precision + mean_recall
    return 2 * mean_precision * mean_recall / total if total else 0.0


def highlights_at(golds: Sequence[np.ndarray], scores: Sequence[np.ndarray], threshold: float) -> Highlights:
    """What is highlighted from this threshold on, beside what people marked; golds and scores: (n,) per input."""
    pairs = [
        (gold, normalised(input_scores) >= threshold - _ROUNDING)
        for gold, input_scores in zip(golds, scores, strict=True)
    ]

    def each(measure: Callable[[np.ndarray, np.ndarray], float]) -> np.ndarray:
        return np.array([measure(gold, selected) for gold, selected in pairs], dtype=np.float64)

    return Highlights(
        threshold,
        each(precision),
        each(recall),
        each(token_iou),
        each(lambda gold, selected: float(selected.mean()) if gold.any() else math.nan),
        each(lambda gold, _: float(gold.mean()) if gold.any() else math.nan),
    )


def best_highlights(
    golds: Sequence[np.ndarray],
    scores: Sequence[np.ndarray],
    thresholds: Sequence[float] = THRESHOLDS,
    criterion: str = "iou",
) -> Highlights:
    """The highlights at the threshold with the best mean IoU, or with the best F1 of means; of equals the lowest.

    The paper reports all its figures "at the optimal threshold of each explanation method" and does not say what it
    optimises; we take IoU, as `best-threshold-iou` does.
    """
    if criterion not in CRITERIA:
        raise OptionError(f"a threshold is chosen by {' or '.join(CRITERIA)}, not {criterion!r}")
    if not thresholds:
        raise OptionError("there is no threshold to choose from")
    if not any(gold.any() for gold in golds):
        return highlights_at(golds, scores, math.nan)
    candidates = [highlights_at(golds, scores, threshold) for threshold in thresholds]
    values = [item.f1 if criterion == "f1" else float(np.nanmean(item.iou)) for item in candidates]
    return candidates[int(np.argmax(values))]


def magnitude(scores: np.ndarray) -> float:
    """Mean absolute score of an input, its largest absolute score being 1 (Table A1); 0 where all scores are 0."""
    return float(magnitudes([scores]).mean())


def magnitudes(scores: Sequence[np.ndarray]) -> np.ndarray:
    """(all units,): absolute scores, each divided by the largest of its input (mean and deviation: Table A1)."""
    absolute = [np.abs(np.asarray(input_scores, dtype=np.float64)) for input_scores in scores]
    return np.concatenate([values / (values.max(initial=0.0) or 1.0) for values in absolute])
