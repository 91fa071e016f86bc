"""Table A5 of Pham et al. (2022), word by word: which attributions change their sign, and by how much they change."""

from __future__ import annotations

from collections.abc import Sequence


def sign_changes(before: Sequence[float], after: Sequence[float]) -> float:
    """Share of the words that go from positive to negative or from negative to positive."""
    changed = 0
    for first, second in zip(before, after, strict=True):
        if (first > 0 and second < 0) or (first < 0 and second > 0):
            changed += 1
    return changed / len(before)


def mean_change(before: Sequence[float], after: Sequence[float]) -> float:
    """Mean absolute difference of attributions that were brought into [-1, 1] by the largest of their text."""
    largest = [max(abs(value) for value in values) or 1.0 for values in (before, after)]
    differences = [abs(x / largest[0] - y / largest[1]) for x, y in zip(before, after, strict=True)]
    return sum(differences) / len(differences)
