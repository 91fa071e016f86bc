"""Figure 6 (and 16): Attr% during training, against the accuracy of the model."""

from __future__ import annotations

from rationales.evaluation.tables import markdown
from rationales.experiments.claims import ClaimVerdict, PaperClaim, judge_claim
from rationales.experiments.ground_truth.figures import fig5, trend_lines
from rationales.experiments.ground_truth.method_rows import MARC, PAPER_METHODS
from rationales.experiments.ground_truth.reporting.run_statistics import finite_mean, input_values, run_mean
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.runs.run_record import WITH, WITHOUT, RunRecord
from rationales.experiments.ground_truth.runs.training_run import ACCURACY_STEPS

SHAP, WATERMARK, CLEAR_TREND = fig5.SHAP, fig5.WATERMARK, trend_lines.CLEAR_TREND
CHECKPOINTS = (
    "Methods run after the first quarter of an epoch, whenever the accuracy first exceeds "
    f"{', '.join(f'{100 * step:g} %' for step in ACCURACY_STEPS)}, and at the end."
)


def lines(runs: ExperimentRuns) -> list[trend_lines.TrendLine]:
    """One line per run: Attr% at the accuracy of each checkpoint and of the trained model."""
    return [_run_line(run) for run in runs.successful if run.checkpoints]


def _run_line(run: RunRecord) -> trend_lines.TrendLine:
    accuracies = (*(checkpoint.accuracy for checkpoint in run.checkpoints), run.last_attempt.accuracy)

    def y(method: str, side: str) -> tuple[float, ...]:
        during_training = (
            finite_mean(input_values(run, checkpoint.measures.get(method), side=side)) for checkpoint in run.checkpoints
        )
        return (*during_training, run_mean(run, method, side=side))

    return trend_lines.TrendLine(run.spec.plant, run.spec.title, accuracies, y)


def claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """The claims of section 5.2."""
    all_lines = lines(runs)
    trends = trend_lines.plant_trends(runs, all_lines, runs.available(PAPER_METHODS))
    if not trends:
        return []
    claim_list: list[PaperClaim] = []
    best = max(trends, key=lambda pair: trends[pair].mean)
    text = (
        "SHAP with a watermark shows the most consistent increase of Attr% with accuracy (here: the largest mean trend)"
    )
    figures = f"largest: {runs.method_title(best[0])} with {best[1]}, {markdown.estimate(trends[best])}"
    known = (SHAP, WATERMARK) in trends
    if known:
        figures += f"; SHAP with watermark {markdown.estimate(trends[SHAP, WATERMARK])}"
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
        marc_trends = {side: trend_lines.mean_trend(all_lines, MARC, side) for side in (WITH, WITHOUT)}
        verdicts = tuple(
            ClaimVerdict(
                trend.mean >= CLEAR_TREND,
                markdown.estimate(trend),
                f"{side} the plant",
                trend_lines.trend_p(all_lines, MARC, side),
            )
            for side, trend in marc_trends.items()
        )
        text = f"MaRC's Attr% rises with accuracy (here: mean trend of {CLEAR_TREND:g})"
        claim_list.append(PaperClaim("", text, verdicts))
    return claim_list


EXPERIMENT = trend_lines.trend_experiment(
    name="gt-fig6",
    title="Ground truth, Figure 6: attribution on planted pictures while the model learns",
    lines=lines,
    axis="the accuracy",
    axis_in_table="the test accuracy",
    remarks=(CHECKPOINTS,),
    claims=claims,
    file="attribution-by-accuracy.png",
    labels={"x": "test accuracy", "xlim": (0.4, 1), "caption": "blue: pictures with the plant, orange: without"},
    limit=24,
    run_options={"explain_during_training": True},
)
