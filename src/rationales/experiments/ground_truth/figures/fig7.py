"""Figure 7 (and 17): Attr% against the visibility of the manipulation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rationales.evaluation.tables.table import Table
from rationales.experiments.ground_truth.experiment import ChosenRows, Sections
from rationales.experiments.ground_truth.figures import fig5
from rationales.experiments.ground_truth.figures.trend_lines import (
    CLEAR_TREND,
    TrendLine,
    draw_lines,
    group_runs,
    mean_trend,
    plant_trends,
    points_markdown,
    trend_experiment,
    trend_sections,
    trend_table,
)
from rationales.experiments.ground_truth.method_rows import MARC, PAPER_METHODS
from rationales.experiments.ground_truth.reporting.paper_claims import (
    ClaimVerdict,
    PaperClaim,
    format_estimate,
    format_number,
    judge_claim,
)
from rationales.experiments.ground_truth.reporting.run_statistics import WITH, pooled_mean
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.row_choices import Dimension
from rationales.experiments.ground_truth.runs.run_spec import RunSpec

SHAP, WATERMARK = fig5.SHAP, fig5.WATERMARK
LEVELS = tuple(f"visibility-{level}" for level in range(1, 6))


def run_specs(chosen_rows: ChosenRows, runs: int) -> list[RunSpec]:
    """All levels of visibility of a plant at the same position; all levels of one run before the next."""
    levels = [int(name.rpartition("-")[2]) for name in chosen_rows["levels"]]
    return [replace(spec, level=level) for spec in fig5.run_specs(chosen_rows, runs) for level in levels]


def lines(runs: ExperimentRuns) -> list[TrendLine]:
    """One line per group of runs with the same plant at the same position."""
    return group_runs(runs, lambda run: float(run.spec.level), lambda _: False)


def table(runs: ExperimentRuns) -> tuple[Table, tuple[str, ...]]:
    """Methods by the trend of Attr% with the visibility."""
    return trend_table(runs, lines(runs), "the visibility, levels 1 to 5", (fig5.BASELINES, fig5.BIRDS))


def sections(runs: ExperimentRuns) -> Sections:
    """The claims, the trends for each manipulation, and Attr% at every level."""
    trend_lines = lines(runs)
    return [
        *trend_sections(runs, trend_lines, claims(runs), "visibility"),
        ("Attr% at every level, pictures with the plant", points_markdown(runs, trend_lines, WITH, "visibility")),
    ]


def claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """The claims of section 5.3."""
    trend_lines, paper_methods = lines(runs), runs.available(PAPER_METHODS)
    trends = plant_trends(runs, trend_lines, paper_methods)
    claim_list = []
    if (SHAP, WATERMARK) in trends:
        trend = trends[SHAP, WATERMARK]
        text = f"SHAP's Attr% on a watermark rises with its visibility (here: mean trend of {CLEAR_TREND:g})"
        claim_list.append(judge_claim("5.3", text, trend.mean >= CLEAR_TREND, format_estimate(trend)))
    remaining = {pair: trend for pair, trend in trends.items() if pair != (SHAP, WATERMARK)}
    if remaining:
        clear = [pair for pair, trend in remaining.items() if trend.mean >= CLEAR_TREND and not trend.low <= 0]
        text = (
            f"Other methods and manipulations show no consistent increase (here: mean trend of {CLEAR_TREND:g}, its "
            "interval above 0, for fewer than half)"
        )
        names = ", ".join(f"{runs.method_title(key)} with {plant}" for key, plant in clear)
        figures = f"{len(clear)} of {len(remaining)} increase{': ' if clear else ''}{names}"
        claim_list.append(judge_claim("5.3", text, 2 * len(clear) < len(remaining), figures))
    faint = [run for run in runs.successful if run.spec.level == 1]
    if faint and paper_methods:
        verdicts = []
        for reading, keys in (("the paper's five", paper_methods), ("all methods here", runs.methods)):
            means = {key: pooled_mean(faint, key, side=WITH).mean for key in keys}
            best = max(means, key=lambda key: means[key])
            figures = f"best: {runs.method_title(best)} {format_number(means[best])} in {len(faint)} runs"
            verdicts.append(ClaimVerdict(means[best] < fig5.NEAR_PERFECT, figures, reading))
        criterion = f"Attr% of {fig5.NEAR_PERFECT:g} at level 1, with the plant"
        text = f"No method finds the least visible manipulations (here: {criterion})"
        claim_list.append(PaperClaim("5.3", text, tuple(verdicts)))
    if MARC in runs.methods and trend_lines:
        trend = mean_trend(trend_lines, MARC, WITH)
        text = f"MaRC does not depend on visibility (here: mean trend below {CLEAR_TREND:g} with the plant)"
        claim_list.append(judge_claim("", text, abs(trend.mean) < CLEAR_TREND, format_estimate(trend)))
    return claim_list


def draw(runs: ExperimentRuns, folder: Path) -> list[Path]:
    """Write Attr% over visibility, one line per group of runs."""
    return draw_lines(
        runs,
        lines(runs),
        folder / "attribution-by-visibility.png",
        x="visibility",
        xlim=(0.5, 5.5),
        caption="blue: pictures with the plant, orange: without",
    )


EXPERIMENT = trend_experiment(
    Dimension("levels", LEVELS, LEVELS),
    name="gt-fig7",
    title="Ground truth, Figure 7: attribution on planted pictures and the visibility of the plant",
    run_specs=run_specs,
    table=table,
    sections=sections,
    draw=draw,
    limit=40,
    run_options={"fixed_position": True},
)
