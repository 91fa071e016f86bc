"""What Figures 6, 7 and 8 share: Attr% along an axis such as the accuracy, with one line per run or group of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.statistics import Estimate, compare, estimate
from rationales.evaluation.tables.table import Table
from rationales.experiments.ground_truth.experiment import GroundTruthExperiment, Sections
from rationales.experiments.ground_truth.figures import fig5
from rationales.experiments.ground_truth.method_rows import MARC, PICTURE_METHODS
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.reporting.run_statistics import (
    finite_mean,
    rank_correlation,
    regression_slope,
    run_mean,
)
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns, results_table
from rationales.experiments.ground_truth.row_choices import Dimension, method_dimension
from rationales.experiments.ground_truth.runs.run_record import WITH, WITHOUT, RunRecord

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
    return [_group_line(sorted(group, key=axis), axis, dashed(group[0])) for group in groups.values() if len(group) > 1]


def _group_line(group: Sequence[RunRecord], axis: Callable[[RunRecord], float], dashed: bool) -> TrendLine:
    spec = group[0].spec

    def y(method: str, side: str) -> tuple[float, ...]:
        return tuple(run_mean(run, method, side=side) for run in group)

    title = f"{spec.plant}, {spec.network}, run {spec.run + 1}"
    return TrendLine(spec.plant, title, tuple(axis(run) for run in group), y, dashed)


def mean_trend(lines: Sequence[TrendLine], method: str, side: str | None = None, plant: str | None = None) -> Estimate:
    """The mean trend over lines with its interval; `side` None: mean of both sides."""
    values = _trends(lines, method, side, plant)
    return estimate(np.array(values)) if values else Estimate(float("nan"), float("nan"), float("nan"), 0)


def trend_p(lines: Sequence[TrendLine], method: str, side: str | None = None, plant: str | None = None) -> float:
    """p value of that mean trend's difference from 0, by sign flips over lines; NaN if there are none."""
    values = np.array(_trends(lines, method, side, plant))
    return compare(values, np.zeros(len(values))).p


def _trends(lines: Sequence[TrendLine], method: str, side: str | None, plant: str | None) -> list[float]:
    """The trend of each line of the plant (None: of all); `side` None: mean of both sides."""
    return [
        finite_mean([line.trend(method, line_side) for line_side in ((side,) if side else SIDES)])
        for line in lines
        if plant in (None, line.plant)
    ]


def plant_trends(
    runs: ExperimentRuns, lines: Sequence[TrendLine], methods: Sequence[str]
) -> dict[tuple[str, str], Estimate]:
    """(method, plant) -> mean trend, for the pairs that have lines."""
    trends = {(key, plant): mean_trend(lines, key, plant=plant) for key in methods for plant in runs.plants}
    return {pair: trend for pair, trend in trends.items() if trend.n}


def trend_table(
    runs: ExperimentRuns, lines: Sequence[TrendLine], axis: str, remarks: Sequence[str]
) -> tuple[Table, tuple[str, ...]]:
    """Methods by the trend and slope of Attr% along the axis, with one value per line."""
    metrics = ("trend-with", "trend-without", "slope-with", "slope-without")

    def value(key: str, i: int, metric: str) -> float:
        statistic, side = metric.split("-")
        return lines[i].trend(key, side) if statistic == "trend" else lines[i].slope(key, side)

    recipe = (
        f"Trend: Spearman's rank correlation of Attr% with {axis}, of each line; slope: how far Attr% rises over one "
        "unit of it. With: pictures with the plant, without: those of the other class."
    )
    names = [line.title for line in lines]
    table = results_table(runs, runs.method_titles, names, metrics, value, recipe=recipe, unit="lines", remarks=remarks)
    return table, metrics


def trends_markdown(runs: ExperimentRuns, lines: Sequence[TrendLine], side: str) -> str:
    """Methods by plants: mean trends with intervals over lines."""
    heads = ["method", *runs.plants, "all"]
    rows = [
        [runs.method_title(key), *(markdown.estimate(mean_trend(lines, key, side, plant)) for plant in runs.plants),
         markdown.estimate(mean_trend(lines, key, side))]
        for key in runs.methods
    ]  # fmt: skip
    counts = ["lines", *(str(sum(line.plant == plant for line in lines)) for plant in runs.plants), str(len(lines))]
    return markdown.table(heads, [*rows, counts])


def points_markdown(runs: ExperimentRuns, lines: Sequence[TrendLine], side: str, axis_name: str) -> str:
    """Methods by points on the axis: mean Attr% over all lines."""
    points = sorted({x for line in lines for x in line.x})
    rows = [
        [runs.method_title(key), *(markdown.number(finite_mean(_values_at(lines, key, side, x))) for x in points)]
        for key in runs.methods
    ]
    return markdown.table([f"method, {axis_name}", *(f"{x:g}" for x in points)], rows)


def _values_at(lines: Sequence[TrendLine], method: str, side: str, point: float) -> list[float]:
    return [y for line in lines for x, y in zip(line.x, line.y(method, side), strict=True) if x == point]


def draw_lines(
    runs: ExperimentRuns,
    lines: Sequence[TrendLine],
    draw_background: Callable[[Any], None] | None,
    path: Path,
    **labels: Any,
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

    return [plots.grid(path, runs.method_titles, runs.plants, panel, y="Attr%", **labels)]


def trend_experiment(
    *dimensions: Dimension,
    lines: Callable[[ExperimentRuns], list[TrendLine]],
    axis: str,
    axis_in_table: str,
    points: str = "",
    remarks: tuple[str, ...] = (),
    more_sections: Callable[[ExperimentRuns], Sections] = lambda _: [],
    file: str,
    labels: Mapping[str, Any],
    draw_background: Callable[[Any], None] | None = None,
    **fields: Any,
) -> GroundTruthExperiment:
    """Figure 5's experiment with fewer methods, and with the trend of Attr% along an axis as its result.

    `dimensions`: further dimensions; `points`: the word for a point of the axis, where the report lists Attr% at each;
    `file`, `labels` (see `plots.grid`), `draw_background`: of the plot; `fields`: further fields that are replaced.
    """

    def table(runs: ExperimentRuns) -> tuple[Table, tuple[str, ...]]:
        return trend_table(runs, lines(runs), axis_in_table, (*remarks, fig5.BASELINES, fig5.BIRDS))

    def sections(runs: ExperimentRuns) -> Sections:
        trends, all_lines = f"Trend of Attr% with {axis}, pictures", lines(runs)
        titled_texts = [
            (f"{trends} with the plant", trends_markdown(runs, all_lines, WITH)),
            (f"{trends} without it", trends_markdown(runs, all_lines, WITHOUT)),
        ]
        if points:
            title = f"Attr% at every {points}, pictures with the plant"
            titled_texts.append((title, points_markdown(runs, all_lines, WITH, axis)))
        return [*titled_texts, *more_sections(runs)]

    return replace(
        fig5.EXPERIMENT,
        dimensions=(*fig5.DIMENSIONS[:2], *dimensions, method_dimension(PICTURE_METHODS, ("paper", "chance"), (MARC,))),
        table=table,
        sections=sections,
        draw=lambda runs, folder: draw_lines(runs, lines(runs), draw_background, folder / file, **labels),
        **fields,
    )
