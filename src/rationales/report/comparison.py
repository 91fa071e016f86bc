"""How far several methods agree on one input, for the comparisons in the terminal and on a page."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from rationales.evaluation.agreement.human_marks import HumanMarks
from rationales.evaluation.agreement.overlap import precision, recall
from rationales.evaluation.stability.agreement import selection_iou
from rationales.evaluation.tables.statistics import rank_correlation
from rationales.rationale import Rationale
from rationales.report.wording import input_noun, percent, selection_size, unit_name

HEADINGS = (
    *("", "selected", "alone", "without", "sufficiency ↓", "comprehensiveness ↑"),
    *("rank corr.", "overlap", "precision", "recall", "seconds"),
)


NOT_APPLICABLE = "n/a"


@dataclass(frozen=True)
class MethodSummary:
    """The row of one method in the comparison; all fields are formatted text, in the order of `HEADINGS`."""

    title: str
    selected: str  # how much of the input
    alone: str  # the target's probability, given the rationale alone
    without: str  # and given everything but the rationale
    sufficiency: str  # mean loss of the target's probability over selections of all sizes alone; empty without a curve
    comprehensiveness: str  # mean loss over all sizes when the selection is removed
    rank_correlation: str  # with the first method's scores
    overlap: str  # units that both methods select over units that either selects
    precision: str  # share of the selected units that people marked; empty without people's marks
    recall: str  # share of the marked units that are selected
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
            *_areas_in_words(rationale),
            "" if rationale is first else _number(rank_correlation(first.scores, rationale.scores)),
            "" if rationale is first else _number(selection_iou(first.selected(), rationale.selected())),
            *_against_marks(first, rationale),
            f"{rationale.seconds:.2f}" if rationale.seconds else "",
        )
        for rationale, title in zip(rationales, titles, strict=True)
    ]


def comparison_table(
    rationales: Sequence[Rationale], titles: Sequence[str], not_applicable: Collection[str] = ()
) -> tuple[list[str], list[list[str]]]:
    """Headings and a row for each method, without the columns that are empty for all of them.

    `not_applicable`: titles of methods without a rationale, which have a row of n/a at the end.
    """
    rows = [summary.cells() for summary in summarize(rationales, titles)]
    filled = [number for number in range(len(HEADINGS)) if number == 0 or any(row[number] for row in rows)]
    lines = [[row[number] for number in filled] for row in rows]
    gaps = [[title, *[NOT_APPLICABLE] * (len(filled) - 1)] for title in not_applicable]
    return [HEADINGS[number] for number in filled], lines + gaps


def gap_notes(not_applicable: Mapping[str, str]) -> list[str]:
    """'grad-cam: n/a (it has no feature maps).' for every method without a rationale, by title and reason."""
    return [f"{title}: {NOT_APPLICABLE} ({reason.rstrip('.')})." for title, reason in not_applicable.items()]


def curve_areas(rationale: Rationale) -> tuple[float, float] | None:
    """Sufficiency and comprehensiveness over selections of all sizes, from none to all units; None without a curve.

    The mean over sizes of p(full) - p(selection alone) and of p(full) - p(everything else), for the target: areas
    between the curves, by trapezoids over the share of the units.
    """
    curve = rationale.curve
    full = rationale.probabilities.get("full", {}).get(rationale.target)
    if curve is None or full is None or len(curve.shares) < 2 or curve.shares[-1] <= curve.shares[0]:
        return None
    width = curve.shares[-1] - curve.shares[0]
    sufficiency, comprehensiveness = (
        float(np.trapezoid(full - np.asarray(by_label[rationale.target]), curve.shares)) / width
        for by_label in (curve.rationale, curve.complement)
    )
    return sufficiency, comprehensiveness


def legend(first: Rationale, title: str) -> str:
    """How to read the summaries."""
    marks = (
        " Overlap is the intersection over the union with what they marked; precision: the share of the selected "
        f"{unit_name(first)}s that they marked; recall: the share of the marked ones that are selected."
    )
    areas = "Sufficiency and comprehensiveness: what the probability loses, mean over selections of all sizes. "
    return (
        f"Alone: the probability of {first.target} given only the selected {unit_name(first)}s; without: given the "
        f"{input_noun(first)} without them. {areas if first.curve is not None else ''}"
        f"Rank correlation and overlap are with {title}.{marks if first.method == HumanMarks.name else ''}"
    )


def _against_marks(first: Rationale, rationale: Rationale) -> tuple[str, str]:
    """Precision and recall of a selection against people's marks, where these come first; else empty."""
    if rationale is first or first.method != HumanMarks.name:
        return "", ""
    marked, selected = first.selected(), rationale.selected()
    return _number(precision(marked, selected)), _number(recall(marked, selected))


def _areas_in_words(rationale: Rationale) -> tuple[str, str]:
    areas = curve_areas(rationale)
    return ("", "") if areas is None else (_number(areas[0]), _number(areas[1]))


def _target_probability(rationale: Rationale, key: str) -> str:
    value = rationale.probabilities.get(key, {}).get(rationale.target)
    return "" if value is None else percent(value)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")
