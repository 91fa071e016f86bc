"""From scores to strength of colour: one scale for keeps in [0, 1] and for scores of any size and sign."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rationales.rationale import Rationale


@dataclass(frozen=True)
class Scale:
    """The range that is shown. Strength is score / peak: 1 is the strongest colour, below 0 the other hue."""

    low: float
    high: float
    peak: float
    keeps: bool  # scores are keeps: 1 means kept whatever the other units got

    def strength(self, scores: np.ndarray) -> np.ndarray:
        """(n,) in [-1, 1]; what is not a number gets no colour."""
        finite = np.nan_to_num(scores.astype(np.float64), nan=0.0, posinf=self.peak, neginf=-self.peak)
        return np.clip(finite / self.peak, -1.0, 1.0)

    def number(self, score: float) -> str:
        """A score as people read it."""
        return f"{score:.2f}" if self.keeps else f"{score:.3g}"


def scale_of(rationale: Rationale) -> Scale:
    """Keeps are shown as they are; other scores relative to the strongest of this input.

    Keeps are told from scores that only happen to lie in [0, 1] by the rule: a fixed threshold in that range means
    that the numbers have a meaning of their own.
    """
    finite = rationale.scores[np.isfinite(rationale.scores)].astype(np.float64)
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    threshold = rationale.rule.threshold
    if low >= 0 and high <= 1 and threshold is not None and 0 < threshold < 1:
        return Scale(0.0, 1.0, 1.0, keeps=True)
    peak = max(abs(low), abs(high)) or 1.0
    low, high = min(low, 0.0), max(high, 0.0)
    return Scale(low, high if high > low else low + 1.0, peak, keeps=False)


def start_of(rationale: Rationale, scale: Scale) -> float:
    """The threshold that the method's own rule amounts to."""
    own, chosen = rationale.rule.threshold, rationale.rule.select(rationale.scores)
    if own is not None:
        return float(own)
    if not chosen.any():
        return scale.high
    scores = np.nan_to_num(rationale.scores, posinf=scale.high, neginf=scale.low)
    least = float(scores[chosen].min())
    below = scores[scores < least]
    return (least + float(below.max())) / 2 if len(below) else scale.low
