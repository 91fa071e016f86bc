"""Slow, literal versions of leave-one-out, Input Marginalization and LIME-BERT (Pham et al. 2022): loops and texts.

A classifier is a function from a text to the probability of the target, a masked language model a function from a list
of words in which None is masked to a dictionary of words and likelihoods for each None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import log2

import numpy as np

Words = Sequence[str]
Classifier = Callable[[Words], float]
MaskedModel = Callable[[Sequence[str | None]], list[Mapping[str, float]]]


def log2_odds(p: float) -> float:
    """Section 2, below Eq. 4; clipped, since the published code gave infinite values."""
    p = min(max(p, 1e-6), 1 - 1e-6)
    return log2(p / (1 - p))


def leave_one_out(classifier: Classifier, words: Words, replacement: str | None = None) -> np.ndarray:
    """Eq. 1 in log-odds: each word in turn is left out, or replaced."""
    scores = []
    for index in range(len(words)):
        middle = [] if replacement is None else [replacement]
        changed = [*words[:index], *middle, *words[index + 1 :]]
        scores.append(log2_odds(classifier(words)) - log2_odds(classifier(changed)))
    return np.array(scores)


def input_marginalization(
    classifier: Classifier,
    language_model: MaskedModel,
    words: Words,
    *,
    candidates: int = 10,
    threshold: float = 0.0,
    without_original: bool = False,
    phrase: int = 1,
) -> np.ndarray:
    """Eq. 3 and 4 for every phrase of `phrase` words; a word's score is the mean over the phrases that cover it.

    The likelihood of several words is the product of theirs, each given the text with all of them masked.
    """
    phrase = min(phrase, len(words))
    total, covered = np.zeros(len(words)), np.zeros(len(words))
    for first in range(len(words) - phrase + 1):
        span = slice(first, first + phrase)
        masked: list[str | None] = [*words[:first], *[None] * phrase, *words[first + phrase :]]
        by_position = language_model(masked)
        joint = {
            tuple(choice): float(
                np.prod([likelihoods[word] for word, likelihoods in zip(choice, by_position, strict=True)])
            )
            for choice in product(*by_position)
        }
        if without_original:
            joint.pop(tuple(words[span]), None)
        ranked = sorted(joint.items(), key=lambda item: -item[1])
        ranked = [item for item in ranked if item[1] >= threshold] if threshold else ranked[:candidates]
        mass = sum(likelihood for _, likelihood in ranked)
        expected = sum(
            likelihood / mass * classifier([*words[:first], *choice, *words[first + phrase :]])
            for choice, likelihood in ranked
        )
        total[span] += log2_odds(classifier(words)) - (log2_odds(expected) if ranked else log2_odds(classifier(words)))
        covered[span] += 1
    return total / covered


def fill_all_at_once(language_model: MaskedModel, words: Words, kept: Sequence[bool]) -> list[str]:
    """All words that are not kept are masked together and become the likeliest."""
    if all(kept):
        return list(words)
    predictions = iter(language_model([word if keep else None for word, keep in zip(words, kept, strict=True)]))
    return [word if keep else _likeliest(next(predictions)) for word, keep in zip(words, kept, strict=True)]


def fill_one_by_one(language_model: MaskedModel, words: Words, kept: Sequence[bool]) -> list[str]:
    """All words that are not kept are masked; the first mask becomes the likeliest word, then the next."""
    filled: list[str | None] = [word if keep else None for word, keep in zip(words, kept, strict=True)]
    for index, word in enumerate(filled):
        if word is None:
            filled[index] = _likeliest(language_model(filled)[0])
    return [str(word) for word in filled]


def _likeliest(likelihoods: Mapping[str, float]) -> str:
    return max(likelihoods, key=lambda word: likelihoods[word])
