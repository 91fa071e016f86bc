"""Figure 6 (and 16): Attr% during training, against the accuracy of the model."""

from __future__ import annotations

from pathlib import Path

from rationales.evaluation.tables.table import Table
from rationales.experiments.ground_truth.experiment import Sections
from rationales.experiments.ground_truth.figures import fig5
from rationales.experiments.ground_truth.figures.trend_lines import (
    CLEAR_TREND,
    TrendLine,
    draw_lines,
    mean_trend,
    plant_trends,
    trend_experiment,
    trend_sections,
    trend_table,
)
from rationales.experiments.ground_truth.method_rows import MARC, PAPER_METHODS
from rationales.experiments.ground_truth.reporting.paper_claims import (
    ClaimVerdict,
    PaperClaim,
    format_estimate,
    judge_claim,
)
from rationales.experiments.ground_truth.reporting.run_statistics import (
    WITH,
    WITHOUT,
    finite_mean,
    input_values,
    run_mean,
)
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.runs.run_record import RunRecord
from rationales.experiments.ground_truth.runs.training_run import ACCURACY_STEPS

SHAP, WATERMARK = fig5.SHAP, fig5.WATERMARK


def lines(runs: ExperimentRuns) -> list[TrendLine]:
    """One line per run: Attr% at the accuracy of each checkpoint and of the trained model."""
    return [_run_line(run) for run in runs.successful if run.checkpoints]


def _run_line(run: RunRecord) -> TrendLine:
    accuracies = (*(checkpoint.accuracy for checkpoint in run.checkpoints), run.last_attempt.accuracy)

    def y(method: str, side: str) -> tuple[float, ...]:
        during_training = (
            finite_mean(input_values(run, checkpoint.measures.get(method), side=side)) for checkpoint in run.checkpoints
        )
        return (*during_training, run_mean(run, method, side=side))

    return TrendLine(run.spec.plant, run.spec.title, accuracies, y)


def table(runs: ExperimentRuns) -> tuple[Table, tuple[str, ...]]:
    """Methods by the trend of Attr% with the accuracy."""
    steps = ", ".join(f"{100 * step:g} %" for step in ACCURACY_STEPS)
    remark = f"Methods run after the first quarter of an epoch, whenever the accuracy first exceeds {steps}, and "
    return trend_table(runs, lines(runs), "the test accuracy", (f"{remark}at the end.", fig5.BASELINES, fig5.BIRDS))


def sections(runs: ExperimentRuns) -> Sections:
    """The claims, and the trends for each manipulation."""
    return trend_sections(runs, lines(runs), claims(runs), "the accuracy")


def claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """The claims of section 5.2."""
    trend_lines = lines(runs)
    trends = plant_trends(runs, trend_lines, runs.available(PAPER_METHODS))
    if not trends:
        return []
    claim_list: list[PaperClaim] = []
    best = max(trends, key=lambda pair: trends[pair].mean)
    text = (
        "SHAP with a watermark shows the most consistent increase of Attr% with accuracy (here: the largest mean trend)"
    )
    figures = f"largest: {runs.method_title(best[0])} with {best[1]}, {format_estimate(trends[best])}"
    known = (SHAP, WATERMARK) in trends
    if known:
        figures += f"; SHAP with watermark {format_estimate(trends[SHAP, WATERMARK])}"
    holds = best == (SHAP, WATERMARK) if known and len(trends) > 1 else None
    claim_list.append(judge_claim("5.2", text, holds, figures))
    remaining = {pair: trend for pair, trend in trends.items() if pair != (SHAP, WATERMARK)}
    if remaining:
        clear = [pair for pair, trend in remaining.items() if trend.mean >= CLEAR_TREND]
        text = f"Other methods and manipulations have a mild or noisy trend (here: below {CLEAR_TREND:g} for most)"
        names = ", ".join(f"{runs.method_title(key)} with {plant}" for key, plant in clear)
        figures = f"{len(clear)} of {len(remaining)} are clear{': ' if clear else ''}{names}"
        claim_list.append(judge_claim("5.2", text, 2 * len(clear) < len(remaining), figures))
    if MARC in runs.methods:
        verdicts = tuple(
            ClaimVerdict(
                (trend := mean_trend(trend_lines, MARC, side)).mean >= CLEAR_TREND,
                format_estimate(trend),
                f"{side} the plant",
            )
            for side in (WITH, WITHOUT)
        )
        text = f"MaRC's Attr% rises with accuracy (here: mean trend of {CLEAR_TREND:g})"
        claim_list.append(PaperClaim("", text, verdicts))
    return claim_list


def draw(runs: ExperimentRuns, folder: Path) -> list[Path]:
    """Write Attr% over accuracy, one line per run."""
    caption = "blue: pictures with the plant, orange: without"
    path = folder / "attribution-by-accuracy.png"
    return draw_lines(runs, lines(runs), path, x="test accuracy", xlim=(0.4, 1), caption=caption)


EXPERIMENT = trend_experiment(
    name="gt-fig6",
    title="Ground truth, Figure 6: attribution on planted pictures while the model learns",
    table=table,
    sections=sections,
    draw=draw,
    limit=24,
    run_options={"explain_during_training": True},
)
