"""ROAR (Hooker et al. 2019; Pham et al. 2022, section 5.1), literally: lists of words, and the t-test as a formula."""

from __future__ import annotations

import math
from collections.abc import Sequence


def without_best(words: Sequence[str], scores: Sequence[float], share: float) -> list[str]:
    """The words but the best N %, at least one; of equal scores the left one goes first."""
    order = sorted(range(len(words)), key=lambda index: (-scores[index], index))
    count = max(1, math.floor(share * len(words) + 1e-9))
    return [word for index, word in enumerate(words) if index not in order[:count]]


def welch_statistic(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Welch's t and the degrees of freedom after Welch and Satterthwaite."""
    means = [sum(values) / len(values) for values in (first, second)]
    errors = [
        sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)
        for values, mean in zip((first, second), means, strict=True)
    ]
    freedom = sum(errors) ** 2 / sum(
        error**2 / (len(values) - 1) for error, values in zip(errors, (first, second), strict=True)
    )
    return (means[0] - means[1]) / math.sqrt(sum(errors)), freedom
