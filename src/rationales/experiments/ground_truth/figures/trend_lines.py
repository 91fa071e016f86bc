"""What Figures 6, 7 and 8 share: Attr% along something, as a line for every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rationales.evaluation.statistics import Estimate, estimate
from rationales.evaluation.table import Table
from rationales.experiments.ground_truth.experiment import Sections, Study
from rationales.experiments.ground_truth.figures import fig5
from rationales.experiments.ground_truth.method_rows import MARC, PICTURES, Dimension, method_dimension
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.reporting.paper_claims import Claim, cell, claim_list, markdown, number
from rationales.experiments.ground_truth.reporting.run_statistics import (
    WITH,
    WITHOUT,
    mean_of,
    plain_mean,
    rank_correlation,
    slope,
)
from rationales.experiments.ground_truth.reporting.run_tables import Results, table
from rationales.experiments.ground_truth.runs.run_record import Record

CLEAR = 0.5  # a mean rank correlation of this size is a clear trend
SIDES = (WITH, WITHOUT)


@dataclass(frozen=True, eq=False)
class Line:
    """One run, or several that differ in one thing: where it stands on the axis, and Attr% there."""

    plant: str
    title: str
    x: tuple[float, ...]
    y: Callable[[str, str], tuple[float, ...]]  # method, side -> Attr% at every x
    dashed: bool = False

    def trend(self, method: str, side: str) -> float:
        """Spearman's rank correlation of Attr% with the axis; NaN with fewer than three points."""
        return rank_correlation(self.x, self.y(method, side))

    def slope(self, method: str, side: str) -> float:
        """How far Attr% rises over one unit of the axis."""
        return slope(self.x, self.y(method, side))


def grouped(results: Results, axis: Callable[[Record], float], distinct: Callable[[Record], bool]) -> list[Line]:
    """Runs of the same plant, network and number, which differ in the axis alone, as lines; two points at least."""
    groups: dict[tuple[str, str, int], list[Record]] = {}
    for one in results.good:
        groups.setdefault((one.plan.plant, one.plan.network, one.plan.run), []).append(one)
    return [
        _line(plant, f"{plant}, {network}, run {run + 1}", sorted(own, key=axis), axis, distinct(own[0]))
        for (plant, network, run), own in groups.items()
        if len(own) > 1
    ]


def _line(plant: str, title: str, own: Sequence[Record], axis: Callable[[Record], float], dashed: bool) -> Line:
    def y(method: str, side: str) -> tuple[float, ...]:
        return tuple(mean_of(one, method, side=side) for one in own)

    return Line(plant, title, tuple(axis(one) for one in own), y, dashed)


def over_lines(lines: Sequence[Line], method: str, side: str | None = None, plant: str | None = None) -> Estimate:
    """The mean trend over lines with its interval; of both sides together where none is named."""
    values = [
        plain_mean([line.trend(method, own) for own in ((side,) if side else SIDES)])
        for line in lines
        if plant in (None, line.plant)
    ]
    return estimate(np.array(values)) if values else Estimate(float("nan"), float("nan"), float("nan"), 0)


def trend_table(
    results: Results, lines: Sequence[Line], along: str, remarks: Sequence[str]
) -> tuple[Table, tuple[str, ...]]:
    """Methods by the trend and the slope of Attr% along something; a value is a line's."""
    metrics = ("trend-with", "trend-without", "slope-with", "slope-without")

    def value(key: str, place: int, metric: str) -> float:
        kind, side = metric.split("-")
        return lines[place].trend(key, side) if kind == "trend" else lines[place].slope(key, side)

    made = table(
        results,
        {key: results.title(key) for key in results.methods},
        [line.title for line in lines],
        metrics,
        value,
        recipe=f"Trend: Spearman's rank correlation of Attr% with {along}, of each line; slope: how far Attr% rises "
        f"over one unit of it. With: pictures with the plant, without: those of the other class.",
        unit="lines",
        remarks=remarks,
    )
    return made, metrics


def trend_sections(results: Results, lines: Sequence[Line], claims: Sequence[Claim], along: str) -> Sections:
    """The claims, and the trends along something for each manipulation."""
    return [
        ("The paper's claims", claim_list(claims)),
        (f"Trend of Attr% with {along}, pictures with the plant", trend_section(results, lines, WITH)),
        (f"Trend of Attr% with {along}, pictures without it", trend_section(results, lines, WITHOUT)),
    ]


def trend_section(results: Results, lines: Sequence[Line], side: str) -> str:
    """Methods by manipulations: mean trends with intervals over lines. Markdown."""
    heads = ["method", *results.plants, "all"]
    rows = [
        [results.title(key), *(cell(over_lines(lines, key, side, plant)) for plant in results.plants),
         cell(over_lines(lines, key, side))]
        for key in results.methods
    ]  # fmt: skip
    counts = ["lines", *(str(sum(line.plant == plant for line in lines)) for plant in results.plants), str(len(lines))]
    return markdown(heads, [*rows, counts])


def point_section(results: Results, lines: Sequence[Line], side: str, head: str) -> str:
    """Methods by places on the axis: mean Attr% over all lines. Markdown."""
    places = sorted({place for line in lines for place in line.x})
    rows = [
        [results.title(key), *(number(plain_mean(_at(lines, key, side, place))) for place in places)]
        for key in results.methods
    ]
    return markdown([f"method, {head}", *(f"{place:g}" for place in places)], rows)


def _at(lines: Sequence[Line], method: str, side: str, place: float) -> list[float]:
    return [y for line in lines for x, y in zip(line.x, line.y(method, side), strict=True) if x == place]


def draw_lines(
    results: Results,
    lines: Sequence[Line],
    path: Path,
    *,
    x: str,
    xlim: tuple[float, float],
    caption: str,
    behind: Callable[[Any], None] | None = None,
) -> list[Path]:
    """A panel for each method and manipulation; blue with the plant, orange without."""
    if not lines:
        return []

    def panel(axes: Any, method: str, plant: str) -> None:
        if behind is not None:
            behind(axes)
        for line in lines:
            if line.plant == plant:
                for side, colour in ((WITH, plots.BLUE), (WITHOUT, plots.ORANGE)):
                    style = "--" if line.dashed else "-"
                    axes.plot(line.x, line.y(method, side), style, color=colour, linewidth=1, marker=".", markersize=3)

    made = plots.grid(
        path,
        [(key, results.title(key)) for key in results.methods],
        [(plant, plant) for plant in results.plants],
        panel,
        x=x,
        y="Attr%",
        xlim=xlim,
        caption=caption,
    )
    return [made]


def study_along(*axis: Dimension, **own: Any) -> Study:
    """Figure 5's experiment on fewer methods; `axis`: what its runs differ in besides; `own`: a figure's own parts."""
    dimensions = (*fig5.DIMENSIONS[:2], *axis, method_dimension(PICTURES, ("paper", "chance"), (MARC,)))
    return replace(fig5.STUDY, dimensions=dimensions, **own)
