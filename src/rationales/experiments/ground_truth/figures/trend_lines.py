"""What Figures 6, 7 and 8 share: Attr% along an axis such as the accuracy, with one line per run or group of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rationales.evaluation.tables.statistics import Estimate, estimate
from rationales.evaluation.tables.table import Table
from rationales.experiments.ground_truth.experiment import GroundTruthExperiment, Sections
from rationales.experiments.ground_truth.figures import fig5
from rationales.experiments.ground_truth.method_rows import MARC, PICTURE_METHODS
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.reporting.paper_claims import (
    PaperClaim,
    claims_markdown,
    format_estimate,
    format_number,
    table_markdown,
)
from rationales.experiments.ground_truth.reporting.run_statistics import (
    WITH,
    WITHOUT,
    finite_mean,
    rank_correlation,
    regression_slope,
    run_mean,
)
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns, results_table
from rationales.experiments.ground_truth.row_choices import Dimension, method_dimension
from rationales.experiments.ground_truth.runs.run_record import RunRecord

CLEAR_TREND = 0.5  # a mean rank correlation of at least this size counts as a clear trend
SIDES = (WITH, WITHOUT)


@dataclass(frozen=True, eq=False)
class TrendLine:
    """Attr% of one run, or of several that differ only in their position on the axis."""

    plant: str
    title: str
    x: tuple[float, ...]
    y: Callable[[str, str], tuple[float, ...]]  # method, side -> Attr% at every x
    dashed: bool = False

    def trend(self, method: str, side: str) -> float:
        """Spearman's rank correlation of Attr% with the axis; NaN with fewer than three points."""
        return rank_correlation(self.x, self.y(method, side))

    def slope(self, method: str, side: str) -> float:
        """Increase of Attr% per unit of the axis, by least squares."""
        return regression_slope(self.x, self.y(method, side))


def group_runs(
    runs: ExperimentRuns, axis: Callable[[RunRecord], float], dashed: Callable[[RunRecord], bool]
) -> list[TrendLine]:
    """One line per plant, network and run number, over the runs that differ in the axis; at least two points each."""
    groups: dict[tuple[str, str, int], list[RunRecord]] = {}
    for run in runs.successful:
        groups.setdefault((run.spec.plant, run.spec.network, run.spec.run), []).append(run)
    return [
        _group_line(plant, f"{plant}, {network}, run {number + 1}", sorted(group, key=axis), axis, dashed(group[0]))
        for (plant, network, number), group in groups.items()
        if len(group) > 1
    ]


def _group_line(
    plant: str, title: str, group: Sequence[RunRecord], axis: Callable[[RunRecord], float], dashed: bool
) -> TrendLine:
    def y(method: str, side: str) -> tuple[float, ...]:
        return tuple(run_mean(run, method, side=side) for run in group)

    return TrendLine(plant, title, tuple(axis(run) for run in group), y, dashed)


def mean_trend(lines: Sequence[TrendLine], method: str, side: str | None = None, plant: str | None = None) -> Estimate:
    """The mean trend over lines with its interval; `side` None: mean of both sides."""
    values = [
        finite_mean([line.trend(method, line_side) for line_side in ((side,) if side else SIDES)])
        for line in lines
        if plant in (None, line.plant)
    ]
    return estimate(np.array(values)) if values else Estimate(float("nan"), float("nan"), float("nan"), 0)


def plant_trends(
    runs: ExperimentRuns, lines: Sequence[TrendLine], methods: Sequence[str]
) -> dict[tuple[str, str], Estimate]:
    """(method, plant) -> mean trend, for the pairs that have lines."""
    trends = {(key, plant): mean_trend(lines, key, plant=plant) for key in methods for plant in runs.plants}
    return {pair: trend for pair, trend in trends.items() if trend.n}


def trend_table(
    runs: ExperimentRuns, lines: Sequence[TrendLine], axis_name: str, remarks: Sequence[str]
) -> tuple[Table, tuple[str, ...]]:
    """Methods by the trend and slope of Attr% along the axis, with one value per line."""
    metrics = ("trend-with", "trend-without", "slope-with", "slope-without")

    def value(key: str, i: int, metric: str) -> float:
        statistic, side = metric.split("-")
        return lines[i].trend(key, side) if statistic == "trend" else lines[i].slope(key, side)

    table = results_table(
        runs,
        {key: runs.method_title(key) for key in runs.methods},
        [line.title for line in lines],
        metrics,
        value,
        recipe=f"Trend: Spearman's rank correlation of Attr% with {axis_name}, of each line; slope: how far Attr% "
        f"rises over one unit of it. With: pictures with the plant, without: those of the other class.",
        unit="lines",
        remarks=remarks,
    )
    return table, metrics


def trend_sections(
    runs: ExperimentRuns, lines: Sequence[TrendLine], claims: Sequence[PaperClaim], axis_name: str
) -> Sections:
    """The claims, and the trends along the axis for each plant."""
    return [
        ("The paper's claims", claims_markdown(claims)),
        (f"Trend of Attr% with {axis_name}, pictures with the plant", trends_markdown(runs, lines, WITH)),
        (f"Trend of Attr% with {axis_name}, pictures without it", trends_markdown(runs, lines, WITHOUT)),
    ]


def trends_markdown(runs: ExperimentRuns, lines: Sequence[TrendLine], side: str) -> str:
    """Methods by plants: mean trends with intervals over lines."""
    heads = ["method", *runs.plants, "all"]
    rows = [
        [runs.method_title(key), *(format_estimate(mean_trend(lines, key, side, plant)) for plant in runs.plants),
         format_estimate(mean_trend(lines, key, side))]
        for key in runs.methods
    ]  # fmt: skip
    counts = ["lines", *(str(sum(line.plant == plant for line in lines)) for plant in runs.plants), str(len(lines))]
    return table_markdown(heads, [*rows, counts])


def points_markdown(runs: ExperimentRuns, lines: Sequence[TrendLine], side: str, axis_name: str) -> str:
    """Methods by points on the axis: mean Attr% over all lines."""
    points = sorted({x for line in lines for x in line.x})
    rows = [
        [runs.method_title(key), *(format_number(finite_mean(_values_at(lines, key, side, x))) for x in points)]
        for key in runs.methods
    ]
    return table_markdown([f"method, {axis_name}", *(f"{x:g}" for x in points)], rows)


def _values_at(lines: Sequence[TrendLine], method: str, side: str, point: float) -> list[float]:
    return [y for line in lines for x, y in zip(line.x, line.y(method, side), strict=True) if x == point]


def draw_lines(
    runs: ExperimentRuns,
    lines: Sequence[TrendLine],
    path: Path,
    *,
    x: str,
    xlim: tuple[float, float],
    caption: str,
    draw_background: Callable[[Any], None] | None = None,
) -> list[Path]:
    """Write a figure with one panel per method and plant; blue with the plant, orange without."""
    if not lines:
        return []

    def panel(axes: Any, method: str, plant: str) -> None:
        if draw_background is not None:
            draw_background(axes)
        for line in lines:
            if line.plant == plant:
                for side, colour in ((WITH, plots.BLUE), (WITHOUT, plots.ORANGE)):
                    style = "--" if line.dashed else "-"
                    axes.plot(line.x, line.y(method, side), style, color=colour, linewidth=1, marker=".", markersize=3)

    figure = plots.grid(
        path,
        [(key, runs.method_title(key)) for key in runs.methods],
        [(plant, plant) for plant in runs.plants],
        panel,
        x=x,
        y="Attr%",
        xlim=xlim,
        caption=caption,
    )
    return [figure]


def trend_experiment(*axis: Dimension, **fields: Any) -> GroundTruthExperiment:
    """Figure 5's experiment with fewer methods; `axis`: further dimensions, `fields`: fields that are replaced."""
    dimensions = (*fig5.DIMENSIONS[:2], *axis, method_dimension(PICTURE_METHODS, ("paper", "chance"), (MARC,)))
    return replace(fig5.EXPERIMENT, dimensions=dimensions, **fields)
