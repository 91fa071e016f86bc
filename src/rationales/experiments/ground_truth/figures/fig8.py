"""Figure 8 (and 18): Attr% against r, the probability that a label is kept, with the range of Shapley values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rationales.evaluation.tables import markdown
from rationales.experiments.claims import ClaimVerdict, PaperClaim, judge_claim
from rationales.experiments.ground_truth.experiment import ChosenRows, Sections
from rationales.experiments.ground_truth.figures import fig5, trend_lines
from rationales.experiments.ground_truth.method_rows import MARC, PAPER_METHODS
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.reporting.run_statistics import finite_mean, pooled_mean, run_mean
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.row_choices import Dimension
from rationales.experiments.ground_truth.runs.picture_run import distinct_kinds
from rationales.experiments.ground_truth.runs.run_record import BOTH, WITH, WITHOUT, RunRecord
from rationales.experiments.ground_truth.runs.run_spec import RunSpec
from rationales.groundtruth.theory import shapley_bounds

SHAP, WATERMARK, GRADIENT, CLEAR_TREND = fig5.SHAP, fig5.WATERMARK, "gradient", trend_lines.CLEAR_TREND
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


def lines(runs: ExperimentRuns) -> list[trend_lines.TrendLine]:
    """One line per group of runs with the same plant, position and bird species."""
    return trend_lines.group_runs(runs, lambda run: run.spec.r, lambda run: distinct_kinds(run.spec, runs.settings))


def shapley_minimum(run: RunRecord) -> float:
    """The smallest Attr% that is consistent with Shapley values (Eq. 3)."""
    return float(shapley_bounds(run.accuracy_bound, run.last_attempt.accuracy)[0])


def share_in_range(runs: Sequence[RunRecord], method: str, side: str) -> float:
    """The share of runs whose Attr% is consistent with Shapley values."""
    values = [(run_mean(run, method, side=side), shapley_minimum(run)) for run in runs]
    return finite_mean([float(mean >= minimum) for mean, minimum in values if not np.isnan(mean)])


def shapley_sections(runs: ExperimentRuns) -> Sections:
    """Methods by manipulations: the share of runs in the range, with and without the plant."""
    columns = [(plant, side) for plant in runs.plants for side in (WITH, WITHOUT)]
    rows = [
        [
            runs.method_title(key),
            *(markdown.number(share_in_range(runs.with_plant(plant), key, side)) for plant, side in columns),
        ]
        for key in runs.methods
    ]
    table = markdown.table(["method", *(f"{plant}, {side}" for plant, side in columns)], rows)
    return [("Share of runs whose Attr% Shapley values allow (Eq. 3)", table)]


def claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """The claims of section 5.4."""
    all_lines, paper_methods = lines(runs), runs.available(PAPER_METHODS)
    if not runs.records:
        return []
    failed = sum(bool(run.failed) for run in runs.records)
    figures = f"{len(runs.records) - failed} of {len(runs.records)} runs"
    claim_list = [judge_claim("5.4", "All models reach an accuracy above 95 %", not failed, figures)]
    watermark_lines = [line for line in all_lines if line.plant == WATERMARK]
    if SHAP in paper_methods and watermark_lines:
        trend = trend_lines.mean_trend(watermark_lines, SHAP)
        text = f"With a watermark, SHAP's Attr% falls as r rises (here: mean trend below −{CLEAR_TREND:g})"
        p = trend_lines.trend_p(watermark_lines, SHAP)
        claim_list.append(judge_claim("5.4", text, trend.mean <= -CLEAR_TREND, markdown.estimate(trend), p))
    if GRADIENT in paper_methods and watermark_lines:
        claim_list.append(_gradient_claim(runs))
    plants = [plant for plant in runs.plants if plant != WATERMARK]
    if SHAP in paper_methods and plants and all_lines:
        trends = {plant: trend_lines.mean_trend(all_lines, SHAP, plant=plant) for plant in plants}
        text = f"Other manipulations do not show this, even for SHAP (here: mean trend above −{CLEAR_TREND:g})"
        figures = ", ".join(f"{plant} {markdown.estimate(trend)}" for plant, trend in trends.items())
        holds = all(trend.mean > -CLEAR_TREND for trend in trends.values() if trend.n)
        claim_list.append(judge_claim("5.4", text, holds, figures))
    if paper_methods:
        claim_list.append(_shapley_claim(runs, paper_methods))
    claim_list += _similar_kinds_claims(runs, paper_methods)
    if MARC in runs.methods and all_lines:
        claim_list.append(_marc_claim(runs, all_lines))
    return claim_list


def _gradient_claim(runs: ExperimentRuns) -> PaperClaim:
    shares = {side: share_in_range(runs.with_plant(WATERMARK), GRADIENT, side) for side in (WITH, WITHOUT)}
    text = "Gradient tracks the predicted range for a watermark, but only on pictures with it (here: most runs in it)"
    figures = f"with {markdown.number(shares[WITH])}, without {markdown.number(shares[WITHOUT])} of the runs"
    return judge_claim("5.4", text, shares[WITH] > 0.5 >= shares[WITHOUT], figures)


def _shapley_claim(runs: ExperimentRuns, paper_methods: Sequence[str]) -> PaperClaim:
    shares = {key: share_in_range(runs.successful, key, BOTH) for key in paper_methods}
    inconsistent = [key for key, share in shares.items() if share <= 0.5]
    figures = ", ".join(f"{runs.method_title(key)} {markdown.number(share)}" for key, share in shares.items())
    text = "Many saliency maps are inconsistent with the Shapley axioms (here: half of the five in most runs)"
    holds = 2 * len(inconsistent) >= len(paper_methods)
    return judge_claim("5.4", text, holds, f"share of runs in the range: {figures}")


def _similar_kinds_claims(runs: ExperimentRuns, paper_methods: Sequence[str]) -> list[PaperClaim]:
    high_r = [run for run in runs.successful if run.spec.r > 0.5]
    distinct = [run for run in high_r if distinct_kinds(run.spec, runs.settings)]
    similar = [run for run in high_r if not distinct_kinds(run.spec, runs.settings)]
    if not distinct or not similar or not paper_methods:
        return []
    gaps = {key: pooled_mean(distinct, key).mean - pooled_mean(similar, key).mean for key in paper_methods}
    figures = ", ".join(f"{runs.method_title(key)} {markdown.number(gap)}" for key, gap in gaps.items())
    text = (
        "Similar and distinct kinds of birds make no clear difference (here: mean Attr% at r above 0.5 differs by less "
        f"than {CLEAR_DIFFERENCE:g} for most of the five)"
    )
    small = sum(abs(gap) < CLEAR_DIFFERENCE for gap in gaps.values())
    return [judge_claim("5.4", text, 2 * small > len(gaps), f"distinct minus similar: {figures}")]


def _marc_claim(runs: ExperimentRuns, all_lines: Sequence[trend_lines.TrendLine]) -> PaperClaim:
    verdicts = [
        ClaimVerdict(
            trend.mean <= -CLEAR_TREND,
            markdown.estimate(trend),
            f"{side} the plant",
            trend_lines.trend_p(all_lines, MARC, side),
        )
        for side in (WITH, WITHOUT)
        if (trend := trend_lines.mean_trend(all_lines, MARC, side)).n
    ]
    share = share_in_range(runs.successful, MARC, WITH)
    verdicts.append(ClaimVerdict(share > 0.5, f"{markdown.number(share)} of the runs", "in the Shapley range"))
    text = f"MaRC's Attr% falls as r rises (here: mean trend below −{CLEAR_TREND:g})"
    return PaperClaim("", text, tuple(verdicts))


def shade_range(axes: Any) -> None:
    """Fill the area that is consistent with the Shapley values of an accurate model."""
    r = np.linspace(0.5, 1, 11)
    axes.fill_between(r, shapley_bounds(r)[0], 1, color=plots.GREEN, alpha=0.12, linewidth=0)


EXPERIMENT = trend_lines.trend_experiment(
    Dimension("shares", R_VALUES, R_VALUES),
    name="gt-fig8",
    title="Ground truth, Figure 8: attribution on planted pictures and the original features",
    run_specs=run_specs,
    lines=lines,
    axis="r",
    axis_in_table="r",
    points="r",
    remarks=(PAIRS,),
    claims=claims,
    more_sections=shapley_sections,
    file="attribution-by-r.png",
    labels={
        "x": "r, the share of labels that stay",
        "xlim": (0.48, 1.02),
        "caption": "blue: with the plant, orange: without; dashed: distinct kinds; green: allowed by Eq. 3 at p = 1",
    },
    draw_background=shade_range,
    limit=40,
    run_options={"fixed_position": True, "distinct_kinds": True},
)
