"""How far the scores of one input change: share of changed signs, mean change, rank correlation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rationales.errors import InputError
from rationales.evaluation.tables.statistics import rank_correlation


@dataclass(frozen=True)
class ScoreChange:
    """Figures of one input; higher sign and size changes mean that the method looks at the weights."""

    sign: float  # share of the units whose score turns from positive to negative or the reverse
    size: float  # mean absolute difference of the scores, each set divided by its largest absolute score
    rank: float  # Spearman's correlation; NaN for one unit or constant scores


def score_change(before: np.ndarray, after: np.ndarray) -> ScoreChange:
    """Compare (n,) scores before and after; a score of 0 has no sign, so it does not change it.

    Scores are divided by the input's largest absolute score, since methods differ in scale and a model with a random
    head gives smaller differences throughout (Pham et al. 2022 report scores in [-1, 1], Table A5).
    """
    first, second = (np.asarray(values, dtype=np.float64) for values in (before, after))
    if first.shape != second.shape or first.ndim != 1 or not first.size:
        raise InputError(f"scores of the shapes {first.shape} and {second.shape} cannot be compared")
    sign = float((np.sign(first) * np.sign(second) < 0).mean())
    size = float(np.abs(_unit_scale(first) - _unit_scale(second)).mean())
    return ScoreChange(sign, size, rank_correlation(first, second) if first.size > 1 else math.nan)


def _unit_scale(scores: np.ndarray) -> np.ndarray:
    largest = float(np.abs(scores).max())
    return scores / largest if largest > 0 else scores
