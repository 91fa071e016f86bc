"""Long inputs in segments that fit the model: overlapping windows between units, blended linearly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Window:
    """Units first..last-1 of an input and their weights when windows are blended; a unit's weights sum to 1."""

    first: int
    last: int
    weight: tuple[float, ...]


def windows(lengths: Sequence[int], capacity: int, overlap: int) -> list[Window]:
    """Divide units of `lengths` tokens into windows of at most `capacity` tokens that share about `overlap` tokens.

    Windows have about equal length, so that each has enough context and a batch has little padding. No unit may be
    longer than the capacity.
    """
    if max(lengths, default=0) > capacity:
        raise ValueError(f"a unit of {max(lengths)} tokens in windows of {capacity}")
    remaining = sum(lengths)  # tokens from the window's first unit to the end
    if remaining <= capacity:
        return [Window(0, len(lengths), (1.0,) * len(lengths))]
    overlap = min(overlap, capacity // 4)
    bounds: list[tuple[int, int]] = []
    first = 0
    while True:
        number = max(-(-(remaining - overlap) // (capacity - overlap)), 1)  # windows still needed
        even = -(-(remaining + (number - 1) * overlap) // number)
        last, size = first, 0
        while last < len(lengths) and size < even and size + lengths[last] <= capacity:
            size += lengths[last]
            last += 1
        bounds.append((first, last))
        if last == len(lengths):
            return _weigh(bounds, len(lengths))
        first, shared = last, 0
        max_shared = min(overlap, capacity - lengths[last])  # every window has at least one new unit
        while first - 1 > bounds[-1][0] and shared + lengths[first - 1] <= max_shared:
            first -= 1
            shared += lengths[first]
        remaining -= size - shared


def _weigh(bounds: Sequence[tuple[int, int]], units: int) -> list[Window]:
    """In an overlap of m units the later window's weight rises as 1/(m+1), 2/(m+1), ... and the earlier one's falls."""
    raw = [np.ones(last - first) for first, last in bounds]
    for number in range(1, len(bounds)):
        first, end = bounds[number][0], bounds[number - 1][1]
        share = np.arange(1, end - first + 1) / (end - first + 1)
        raw[number][: end - first] *= share
        raw[number - 1][len(raw[number - 1]) - (end - first) :] *= 1 - share
    total = np.zeros(units)
    for (first, last), weights in zip(bounds, raw, strict=True):
        total[first:last] += weights
    return [
        Window(first, last, tuple((weights / total[first:last]).tolist()))
        for (first, last), weights in zip(bounds, raw, strict=True)
    ]
