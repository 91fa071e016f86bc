"""Scores of words, and the order and number of spans, one unit at a time (docs/marc.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


def word_scores(standardized: Sequence[float]) -> list[float]:
    """Softplus of slope 3 of each value, relative to the highest, squared."""
    positive = [math.log(1 + math.exp(3 * value)) / 3 for value in standardized]
    return [(value / max(positive)) ** 2 for value in positive]


def standardize(values: Sequence[float]) -> list[float]:
    """Mean 0 and standard deviation 1."""
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / max(deviation, 1e-4) for value in values]


def smooth(values: Sequence[float], width: float) -> list[float]:
    """Mean over all units with weights exp(-d^2 / width^2)."""
    smoothed = []
    for here in range(len(values)):
        weights = [math.exp(-((index - here) ** 2) / width**2) for index in range(len(values))]
        smoothed.append(sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights))
    return smoothed


def longness(units: int) -> float:
    """0 up to 40 units, 1 from 120 units on, linear between."""
    return min(1.0, max(0.0, (units - 40) / 80))


def by_text(function: Callable[[list[float]], list[float]], values: list[float], border: int | None) -> list[float]:
    """`function` of all values, or of those of each text of a pair whose second text begins at `border`."""
    return function(values) if border is None else function(values[:border]) + function(values[border:])


def clause_order(
    values: Sequence[float],
    *,
    halo: float,
    halo_sigma: float,
    shrink: float,
    closing: int,
    border: int | None = None,
) -> list[float]:
    """Values shaped by clauses: soft threshold, the mean positive value around added, gaps filled."""
    standardized, weight = standardize(values), longness(len(values))
    positive = [max(value, 0.0) for value in standardized]
    around = by_text(lambda text: smooth(text, halo_sigma), positive, border)
    order = []
    for value, mean in zip(standardized, around, strict=True):
        inside = min(max(value, -shrink), shrink)  # what a soft threshold removes
        order.append(value - 0.98 * weight * inside + halo * weight * mean)
    closed = by_text(lambda text: close_gaps(text, closing), order, border)
    return [value + 0.99 * weight * (filled - value) for value, filled in zip(order, closed, strict=True)]


def close_gaps(values: Sequence[float], size: int) -> list[float]:
    """The minimum, over all windows of `size` units around a unit, of their maximum."""
    count, closed = len(values), []
    for here in range(count):
        windows = [range(begin, begin + size) for begin in range(here - size + 1, here + 1)]
        closed.append(min(max(values[unit] for unit in window if 0 <= unit < count) for window in windows))
    return closed


def growth_order(
    values: Sequence[float], sides: Sequence[float], border: int | None = None, reach: float = 4.0
) -> list[int]:
    """n for the highest value, then one less for each unit that joins its span, on the side that counts more.

    In a pair whose second text begins at `border`, a span has units of one text; the other text's come after them all.
    """
    count = len(values)
    order, rank = [0] * count, count
    texts = [range(count)] if border is None else [range(min(border, count)), range(border, count)]
    for text in sorted(texts, key=lambda text: max((values[unit] for unit in text), default=-math.inf), reverse=True):
        if not text:
            continue
        top = max(text, key=lambda unit: values[unit])
        members = [top]
        while True:
            order[members[-1]] = rank
            rank -= 1
            outside = [unit for unit in (max(members) + 1, min(members) - 1) if unit in text]
            if not outside:
                break
            members.append(max(outside, key=lambda unit: sides[unit] / (1 + abs(unit - top) / reach)))
    return order


def span_order(
    field: Sequence[float],
    warmup_gradient: Sequence[float],
    *,
    span_sigma: float,
    anchor: float,
    anchor_sigma: float,
    **shaping: float,
) -> list[float]:
    """Short texts: roots of the smoothed word scores; long ones: smoothed field and gradient; then clauses."""
    words, weight = standardize(field), longness(len(field))
    near = standardize(smooth(words, span_sigma))
    gradient = standardize(smooth(warmup_gradient, anchor_sigma))
    spread = [value + anchor * far for value, far in zip(near, gradient, strict=True)]
    short = standardize([math.sqrt(value) for value in smooth(word_scores(words), 0.6)])
    mixed = [value + weight * (far - value) for value, far in zip(short, spread, strict=True)]
    return clause_order(mixed, **shaping)  # type: ignore[arg-type]


def span_count(selected: Sequence[bool], border: int | None = None) -> int:
    """Number of connected runs; the second text of a pair begins at `border`."""
    return sum(
        1 for index, here in enumerate(selected) if here and (index == 0 or index == border or not selected[index - 1])
    )
