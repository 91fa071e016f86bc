"""Maps scores to colour strength: one scale for keeps in [0, 1] and for scores of any size and sign."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rationales.rationale import Rationale

HALF_KEPT = 0.5  # a mask that keeps anything keeps some unit more than this


@dataclass(frozen=True)
class Scale:
    """The displayed range of scores. Strength is score / peak: 1 is the strongest colour, negative the other hue."""

    low: float
    high: float
    peak: float
    keeps: bool  # scores are keeps: 1 means kept, whatever the scores of the other units

    def strength(self, scores: np.ndarray) -> np.ndarray:
        """(n,) in [-1, 1]; NaN gets no colour."""
        finite = np.nan_to_num(scores.astype(np.float64), nan=0.0, posinf=self.peak, neginf=-self.peak)
        return np.clip(finite / self.peak, -1.0, 1.0)

    def number(self, score: float) -> str:
        """A score as a short decimal number."""
        return f"{score:.2f}" if self.keeps else f"{score:.3g}"


def scale_of(rationale: Rationale) -> Scale:
    """The scale of a rationale: keeps are absolute, other scores relative to the strongest of this input.

    Scores in [0, 1] count as keeps where the rule is a threshold in that range and the highest score is above
    `HALF_KEPT`, or nothing is selected: the drops of a probability are in [0, 1], too, but mostly far below.
    """
    finite = rationale.scores[np.isfinite(rationale.scores)].astype(np.float64)
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    threshold = rationale.rule.threshold
    if (
        threshold is not None
        and 0 < threshold < 1
        and low >= 0
        and high <= 1
        and (high > HALF_KEPT or high <= threshold)
    ):
        return Scale(0.0, 1.0, 1.0, keeps=True)
    peak = max(abs(low), abs(high)) or 1.0
    low, high = min(low, 0.0), max(high, 0.0)
    return Scale(low, high if high > low else low + 1.0, peak, keeps=False)


def rule_threshold(rationale: Rationale, scale: Scale) -> float:
    """The threshold that selects the same units as the rationale's rule."""
    if rationale.rule.threshold is not None:
        return float(rationale.rule.threshold)
    selected = rationale.rule.select(rationale.scores)
    if not selected.any():
        return scale.high
    scores = np.nan_to_num(rationale.scores, posinf=scale.high, neginf=scale.low)
    lowest_selected = float(scores[selected].min())
    below = scores[scores < lowest_selected]
    return (lowest_selected + float(below.max())) / 2 if len(below) else scale.low
