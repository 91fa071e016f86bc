"""Deletion and Deletion-BERT of Pham et al. (2022, section 3.3): words in lists, one text at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise


def deletion(classifier: Callable[[Sequence[str]], float], words: Sequence[str], scores: Sequence[float]) -> float:
    """Area under p while the best word is deleted, then the next, until 20 % of the words (at least one) are gone."""
    order = sorted(range(len(words)), key=lambda index: (-scores[index], index))
    steps = max(1, len(words) // 5)
    curve = [
        classifier([word for index, word in enumerate(words) if index not in order[:step]]) for step in range(steps + 1)
    ]
    return _area(curve)


def deletion_bert(
    classifier: Callable[[Sequence[str]], float],
    language_model: Callable[[Sequence[str | None]], list[Mapping[str, float]]],
    words: Sequence[str],
    scores: Sequence[float],
) -> float:
    """The same with each word replaced by the likeliest one, given the text as it is after the earlier steps."""
    order = sorted(range(len(words)), key=lambda index: (-scores[index], index))
    current = list(words)
    curve = [classifier(current)]
    for index in order[: max(1, len(words) // 5)]:
        (likelihoods,) = language_model([None if position == index else word for position, word in enumerate(current)])
        current[index] = max(likelihoods, key=lambda word: likelihoods[word])
        curve.append(classifier(current))
    return _area(curve)


def _area(curve: Sequence[float]) -> float:
    """Trapezoids of equal width, divided by the range."""
    return sum((first + second) / 2 for first, second in pairwise(curve)) / (len(curve) - 1)
