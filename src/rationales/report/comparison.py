"""How far several methods agree on one input, for the comparisons in the terminal and on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from rationales.evaluation.stability.agreement import selection_iou
from rationales.evaluation.tables.statistics import rank_correlation
from rationales.rationale import Rationale
from rationales.report.wording import input_noun, percent, selection_size, unit_name

HEADINGS = ("", "selected", "alone", "without", "rank corr.", "overlap", "seconds")


@dataclass(frozen=True)
class MethodSummary:
    """The row of one method in the comparison; all fields are formatted text, in the order of `HEADINGS`."""

    title: str
    selected: str  # how much of the input
    alone: str  # the target's probability, given the rationale alone
    without: str  # and given everything but the rationale
    rank_correlation: str  # with the first method's scores
    overlap: str  # units that both methods select over units that either selects
    seconds: str

    def cells(self) -> tuple[str, ...]:
        """The fields in order."""
        return astuple(self)


def summarize(rationales: Sequence[Rationale], titles: Sequence[str]) -> list[MethodSummary]:
    """One summary for each method; agreement is with the first method."""
    first = rationales[0]
    return [
        MethodSummary(
            title,
            selection_size(rationale),
            _target_probability(rationale, "rationale"),
            _target_probability(rationale, "complement"),
            "" if rationale is first else _number(rank_correlation(first.scores, rationale.scores)),
            "" if rationale is first else _number(selection_iou(first.selected(), rationale.selected())),
            f"{rationale.seconds:.2f}",
        )
        for rationale, title in zip(rationales, titles, strict=True)
    ]


def legend(first: Rationale, title: str) -> str:
    """How to read the summaries."""
    return (
        f"Alone: the probability of {first.target} given only the selected {unit_name(first)}s; without: given the "
        f"{input_noun(first)} without them. Rank correlation and overlap are with {title}."
    )


def _target_probability(rationale: Rationale, key: str) -> str:
    value = rationale.probabilities.get(key, {}).get(rationale.target)
    return "" if value is None else percent(value)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")
