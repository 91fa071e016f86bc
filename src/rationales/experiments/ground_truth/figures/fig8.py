"""Figure 8 (and 18): Attr% against r, the probability that a label is kept, with the range of Shapley values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rationales.evaluation.tables.table import Table
from rationales.experiments.ground_truth.experiment import ChosenRows, Sections
from rationales.experiments.ground_truth.figures import fig5
from rationales.experiments.ground_truth.figures.trend_lines import (
    CLEAR_TREND,
    TrendLine,
    draw_lines,
    group_runs,
    mean_trend,
    points_markdown,
    trend_experiment,
    trend_sections,
    trend_table,
)
from rationales.experiments.ground_truth.method_rows import MARC, PAPER_METHODS
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.reporting.paper_claims import (
    ClaimVerdict,
    PaperClaim,
    format_estimate,
    format_number,
    judge_claim,
    table_markdown,
)
from rationales.experiments.ground_truth.reporting.run_statistics import (
    BOTH,
    WITH,
    WITHOUT,
    finite_mean,
    pooled_mean,
    run_mean,
)
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.row_choices import Dimension
from rationales.experiments.ground_truth.runs.picture_run import distinct_kinds
from rationales.experiments.ground_truth.runs.run_record import RunRecord
from rationales.experiments.ground_truth.runs.run_spec import RunSpec
from rationales.groundtruth.theory import shapley_bounds

SHAP, WATERMARK, GRADIENT = fig5.SHAP, fig5.WATERMARK, "gradient"
R_VALUES = tuple(f"r-{r:g}" for r in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0))
CLEAR_DIFFERENCE = 0.05  # a difference of means from which two groups count as different
PAIRS = (
    "Every second run takes two species of birds that are easy to tell apart (dashed), the others two that are "
    "easily confused. With r = 1 the original features also predict the label, and no test can show which of the two a "
    "model relies on."
)


def run_specs(chosen_rows: ChosenRows, runs: int) -> list[RunSpec]:
    """All values of r for a plant at the same position."""
    r_values = [float(name.rpartition("-")[2]) for name in chosen_rows["shares"]]
    return [replace(spec, r=r) for spec in fig5.run_specs(chosen_rows, runs) for r in r_values]


def lines(runs: ExperimentRuns) -> list[TrendLine]:
    """One line per group of runs with the same plant, position and bird species."""
    return group_runs(runs, lambda run: run.spec.r, lambda run: distinct_kinds(run.spec, runs.settings))


def shapley_minimum(run: RunRecord) -> float:
    """The smallest Attr% that is consistent with Shapley values (Eq. 3)."""
    return float(shapley_bounds(run.accuracy_bound, run.last_attempt.accuracy)[0])


def share_in_range(runs: Sequence[RunRecord], method: str, side: str) -> float:
    """The share of runs whose Attr% is consistent with Shapley values."""
    values = [(run_mean(run, method, side=side), shapley_minimum(run)) for run in runs]
    return finite_mean([float(mean >= minimum) for mean, minimum in values if not np.isnan(mean)])


def table(runs: ExperimentRuns) -> tuple[Table, tuple[str, ...]]:
    """Methods by the trend of Attr% with r."""
    return trend_table(runs, lines(runs), "r", (PAIRS, fig5.BASELINES, fig5.BIRDS))


def sections(runs: ExperimentRuns) -> Sections:
    """The claims, the trends, Attr% at every r, and the share of runs that are consistent with Shapley values."""
    trend_lines = lines(runs)
    return [
        *trend_sections(runs, trend_lines, claims(runs), "r"),
        ("Attr% at every r, pictures with the plant", points_markdown(runs, trend_lines, WITH, "r")),
        ("Share of runs whose Attr% Shapley values allow (Eq. 3)", shapley_markdown(runs)),
    ]


def shapley_markdown(runs: ExperimentRuns) -> str:
    """Methods by manipulations: the share of runs in the range, with and without the plant."""
    columns = [(plant, side) for plant in runs.plants for side in (WITH, WITHOUT)]
    rows = [
        [
            runs.method_title(key),
            *(format_number(share_in_range(runs.with_plant(plant), key, side)) for plant, side in columns),
        ]
        for key in runs.methods
    ]
    return table_markdown(["method", *(f"{plant}, {side}" for plant, side in columns)], rows)


def claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """The claims of section 5.4."""
    trend_lines, paper_methods = lines(runs), runs.available(PAPER_METHODS)
    if not runs.records:
        return []
    failed = sum(bool(run.failed) for run in runs.records)
    figures = f"{len(runs.records) - failed} of {len(runs.records)} runs"
    claim_list = [judge_claim("5.4", "All models reach an accuracy above 95 %", not failed, figures)]
    watermark_lines = [line for line in trend_lines if line.plant == WATERMARK]
    if SHAP in paper_methods and watermark_lines:
        trend = mean_trend(watermark_lines, SHAP)
        text = f"With a watermark, SHAP's Attr% falls as r rises (here: mean trend below −{CLEAR_TREND:g})"
        claim_list.append(judge_claim("5.4", text, trend.mean <= -CLEAR_TREND, format_estimate(trend)))
    if GRADIENT in paper_methods and watermark_lines:
        claim_list.append(_gradient_claim(runs))
    plants = [plant for plant in runs.plants if plant != WATERMARK]
    if SHAP in paper_methods and plants and trend_lines:
        trends = {plant: mean_trend(trend_lines, SHAP, plant=plant) for plant in plants}
        text = f"Other manipulations do not show this, even for SHAP (here: mean trend above −{CLEAR_TREND:g})"
        figures = ", ".join(f"{plant} {format_estimate(trend)}" for plant, trend in trends.items())
        holds = all(trend.mean > -CLEAR_TREND for trend in trends.values() if trend.n)
        claim_list.append(judge_claim("5.4", text, holds, figures))
    if paper_methods:
        claim_list.append(_shapley_claim(runs, paper_methods))
    claim_list += _similar_kinds_claims(runs, paper_methods)
    if MARC in runs.methods and trend_lines:
        claim_list.append(_marc_claim(runs, trend_lines))
    return claim_list


def _gradient_claim(runs: ExperimentRuns) -> PaperClaim:
    shares = {side: share_in_range(runs.with_plant(WATERMARK), GRADIENT, side) for side in (WITH, WITHOUT)}
    text = "Gradient tracks the predicted range for a watermark, but only on pictures with it (here: most runs in it)"
    figures = f"with {format_number(shares[WITH])}, without {format_number(shares[WITHOUT])} of the runs"
    return judge_claim("5.4", text, shares[WITH] > 0.5 >= shares[WITHOUT], figures)


def _shapley_claim(runs: ExperimentRuns, paper_methods: Sequence[str]) -> PaperClaim:
    shares = {key: share_in_range(runs.successful, key, BOTH) for key in paper_methods}
    inconsistent = [key for key, share in shares.items() if share <= 0.5]
    figures = ", ".join(f"{runs.method_title(key)} {format_number(share)}" for key, share in shares.items())
    text = "Many saliency maps are inconsistent with the Shapley axioms (here: half of the five in most runs)"
    holds = 2 * len(inconsistent) >= len(paper_methods)
    return judge_claim("5.4", text, holds, f"share of runs in the range: {figures}")


def _similar_kinds_claims(runs: ExperimentRuns, paper_methods: Sequence[str]) -> list[PaperClaim]:
    groups = {
        distinct: [
            run for run in runs.successful if distinct_kinds(run.spec, runs.settings) == distinct and run.spec.r > 0.5
        ]
        for distinct in (False, True)
    }
    if not all(groups.values()) or not paper_methods:
        return []
    gaps = {key: pooled_mean(groups[True], key).mean - pooled_mean(groups[False], key).mean for key in paper_methods}
    figures = ", ".join(f"{runs.method_title(key)} {format_number(gap)}" for key, gap in gaps.items())
    text = (
        "Similar and distinct kinds of birds make no clear difference (here: mean Attr% at r above 0.5 differs by less "
        f"than {CLEAR_DIFFERENCE:g} for most of the five)"
    )
    small = sum(abs(gap) < CLEAR_DIFFERENCE for gap in gaps.values())
    return [judge_claim("5.4", text, 2 * small > len(gaps), f"distinct minus similar: {figures}")]


def _marc_claim(runs: ExperimentRuns, trend_lines: Sequence[TrendLine]) -> PaperClaim:
    verdicts = [
        ClaimVerdict(trend.mean <= -CLEAR_TREND, format_estimate(trend), f"{side} the plant")
        for side in (WITH, WITHOUT)
        if (trend := mean_trend(trend_lines, MARC, side)).n
    ]
    share = share_in_range(runs.successful, MARC, WITH)
    verdicts.append(ClaimVerdict(share > 0.5, f"{format_number(share)} of the runs", "in the Shapley range"))
    text = f"MaRC's Attr% falls as r rises (here: mean trend below −{CLEAR_TREND:g})"
    return PaperClaim("", text, tuple(verdicts))


def draw(runs: ExperimentRuns, folder: Path) -> list[Path]:
    """Write Attr% over r; the green area is consistent with the Shapley values of an accurate model."""

    def shade_range(axes: Any) -> None:
        r = np.linspace(0.5, 1, 11)
        axes.fill_between(r, shapley_bounds(r)[0], 1, color=plots.GREEN, alpha=0.12, linewidth=0)

    return draw_lines(
        runs,
        lines(runs),
        folder / "attribution-by-r.png",
        x="r, the share of labels that stay",
        xlim=(0.48, 1.02),
        caption="blue: with the plant, orange: without; dashed: distinct kinds; green: allowed by Eq. 3 at p = 1",
        draw_background=shade_range,
    )


EXPERIMENT = trend_experiment(
    Dimension("shares", R_VALUES, R_VALUES),
    name="gt-fig8",
    title="Ground truth, Figure 8: attribution on planted pictures and the original features",
    run_specs=run_specs,
    table=table,
    sections=sections,
    draw=draw,
    limit=40,
    run_options={"fixed_position": True, "distinct_kinds": True},
)
