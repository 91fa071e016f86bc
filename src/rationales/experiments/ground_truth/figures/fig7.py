"""Figure 7 (and 17): Attr% against the visibility of the manipulation."""

from __future__ import annotations

from dataclasses import replace

from rationales.evaluation.tables import markdown
from rationales.experiments.claims import ClaimVerdict, PaperClaim, judge_claim
from rationales.experiments.ground_truth.experiment import ChosenRows
from rationales.experiments.ground_truth.figures import fig5, trend_lines
from rationales.experiments.ground_truth.method_rows import MARC, PAPER_METHODS
from rationales.experiments.ground_truth.reporting.run_statistics import pooled_mean
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.row_choices import Dimension
from rationales.experiments.ground_truth.runs.run_record import WITH
from rationales.experiments.ground_truth.runs.run_spec import RunSpec

SHAP, WATERMARK, CLEAR_TREND = fig5.SHAP, fig5.WATERMARK, trend_lines.CLEAR_TREND
LEVELS = tuple(f"visibility-{level}" for level in range(1, 6))


def run_specs(chosen_rows: ChosenRows, runs: int) -> list[RunSpec]:
    """All levels of visibility of a plant at the same position; all levels of one run before the next."""
    levels = [int(name.rpartition("-")[2]) for name in chosen_rows["levels"]]
    return [replace(spec, level=level) for spec in fig5.run_specs(chosen_rows, runs) for level in levels]


def lines(runs: ExperimentRuns) -> list[trend_lines.TrendLine]:
    """One line per group of runs with the same plant at the same position."""
    return trend_lines.group_runs(runs, lambda run: float(run.spec.level), lambda _: False)


def claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """The claims of section 5.3."""
    all_lines, paper_methods = lines(runs), runs.available(PAPER_METHODS)
    trends = trend_lines.plant_trends(runs, all_lines, paper_methods)
    claim_list = []
    if (SHAP, WATERMARK) in trends:
        trend = trends[SHAP, WATERMARK]
        text = f"SHAP's Attr% on a watermark rises with its visibility (here: mean trend of {CLEAR_TREND:g})"
        p = trend_lines.trend_p(all_lines, SHAP, plant=WATERMARK)
        claim_list.append(judge_claim("5.3", text, trend.mean >= CLEAR_TREND, markdown.estimate(trend), p))
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
            figures = f"best: {runs.method_title(best)} {markdown.number(means[best])} in {len(faint)} runs"
            verdicts.append(ClaimVerdict(means[best] < fig5.NEAR_PERFECT, figures, reading))
        criterion = f"Attr% of {fig5.NEAR_PERFECT:g} at level 1, with the plant"
        text = f"No method finds the least visible manipulations (here: {criterion})"
        claim_list.append(PaperClaim("5.3", text, tuple(verdicts)))
    if MARC in runs.methods and all_lines:
        trend = trend_lines.mean_trend(all_lines, MARC, WITH)
        text = f"MaRC does not depend on visibility (here: mean trend below {CLEAR_TREND:g} with the plant)"
        claim_list.append(judge_claim("", text, abs(trend.mean) < CLEAR_TREND, markdown.estimate(trend)))
    return claim_list


EXPERIMENT = trend_lines.trend_experiment(
    Dimension("levels", LEVELS, LEVELS),
    name="gt-fig7",
    title="Ground truth, Figure 7: attribution on planted pictures and the visibility of the plant",
    run_specs=run_specs,
    lines=lines,
    axis="visibility",
    axis_in_table="the visibility, levels 1 to 5",
    points="level",
    claims=claims,
    file="attribution-by-visibility.png",
    labels={"x": "visibility", "xlim": (0.5, 5.5), "caption": "blue: pictures with the plant, orange: without"},
    limit=40,
    run_options={"fixed_position": True},
)
