"""How simple a rationale is to read: its spans, and how decided its keeps are. Pure functions over arrays."""

from __future__ import annotations

import math

import numpy as np

from rationales.evaluation.agreement.overlap import as_keeps, runs


def spans(selected: np.ndarray) -> float:
    """Number of connected stretches of chosen units; 0 if nothing is chosen."""
    return float(len(runs(selected)))


def span_length(selected: np.ndarray) -> float:
    """Mean length of the stretches, in units; NaN if nothing is chosen."""
    stretches = runs(selected)
    return float((stretches[:, 1] - stretches[:, 0]).mean()) if len(stretches) else math.nan


def share(selected: np.ndarray) -> float:
    """Share of the units that is chosen; NaN of no units."""
    return float(np.mean(selected)) if len(selected) else math.nan


def keep_entropy(scores: np.ndarray) -> float:
    """Mean entropy in bits of keeping each unit or not: 0 if every keep is 0 or 1, 1 if every keep is 0.5.

    Scores within [0, 1] are read as keeps; others are first normalised (the positive part over the largest).
    """
    keep = as_keeps(scores)
    if not keep.size:
        return math.nan
    safe, safe_complement = np.clip(keep, 1e-300, 1.0), np.clip(1 - keep, 1e-300, 1.0)
    return float(np.mean(-(keep * np.log2(safe) + (1 - keep) * np.log2(safe_complement))))


def score_entropy(scores: np.ndarray) -> float:
    """Entropy of how the scores' size is spread over the units, 0 (all on one) to 1 (even) (Bhatt et al. 2020).

    NaN where all scores are 0 or there is one unit alone.
    """
    size = np.abs(np.asarray(scores, dtype=np.float64))
    total = size.sum()
    if len(size) < 2 or not total > 0:
        return math.nan
    fraction = size / total
    return float(-(fraction * np.log(np.clip(fraction, 1e-300, 1.0))).sum() / math.log(len(size)))
