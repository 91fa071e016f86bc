"""F_N for pictures (section 3): Attr% on a white border that tells nothing, while the model learns.

The paper defines it and measures it for texts alone. A good method gives the border less and less as the accuracy of
the model rises, down to 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.statistics import compare
from rationales.evaluation.tables.table import Table
from rationales.experiments.claims import PaperClaim, judge_claim
from rationales.experiments.ground_truth.experiment import Sections
from rationales.experiments.ground_truth.figures import fig5, trend_lines
from rationales.experiments.ground_truth.method_rows import MARC, PICTURE_METHODS, RANDOM
from rationales.experiments.ground_truth.reporting.run_statistics import (
    finite_mean,
    input_values,
    pooled_mean,
    run_mean,
)
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns, results_table
from rationales.experiments.ground_truth.row_choices import Dimension, method_dimension
from rationales.experiments.ground_truth.runs.run_record import RunRecord

PLANTS = ("watermark-border", "noise-border")
BORDER, PLANT = "border", "plant"
MEASURES = {BORDER: "distractors", PLANT: "region"}  # metric -> measure of a run
RECIPE = (
    "Attr% on the white border, which a random half of the pictures has and which tells nothing (F_N), and on the "
    "region of the plant, which tells the class (F_C). The ideal is 0 and 1; the random row shows their areas."
)


def border_table(runs: ExperimentRuns) -> tuple[Table, tuple[str, ...]]:
    """Methods by Attr% on the border and on the plant, with the mean of a run's pictures as one value."""
    records = runs.successful
    table = results_table(
        runs,
        runs.method_titles,
        [run.spec.title for run in records],
        tuple(MEASURES),
        lambda key, i, metric: run_mean(records[i], key, MEASURES[metric]),
        recipe=RECIPE,
        remarks=(fig5.BASELINES, fig5.BIRDS),
    )
    return table, tuple(MEASURES)


def border_line(run: RunRecord) -> trend_lines.TrendLine:
    """Attr% on the border at the accuracy of each checkpoint and of the trained model."""
    accuracies = (*(checkpoint.accuracy for checkpoint in run.checkpoints), run.last_attempt.accuracy)

    def y(method: str, side: str) -> tuple[float, ...]:
        during_training = (
            finite_mean(input_values(run, checkpoint.measures.get(method), MEASURES[BORDER], side=side))
            for checkpoint in run.checkpoints
        )
        return (*during_training, run_mean(run, method, MEASURES[BORDER], side=side))

    return trend_lines.TrendLine(run.spec.plant, run.spec.title, accuracies, y)


def lines(runs: ExperimentRuns) -> list[trend_lines.TrendLine]:
    """One line per run with checkpoints."""
    return [border_line(run) for run in runs.successful if run.checkpoints]


def claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """The requirement of section 3, for every method: little on the border, and less as the model learns.

    The first is tested over runs, paired with random scores of the same model; the second over the trends of the runs.
    """
    if not runs.successful or RANDOM not in runs.methods:
        return []
    all_lines = lines(runs)
    claim_list = []
    for key in runs.methods:
        if key != RANDOM:
            claim_list.append(_little_on_border(runs, key))
            claim_list.append(_less_while_learning(runs, all_lines, key))
    return claim_list


def _little_on_border(runs: ExperimentRuns, method: str) -> PaperClaim:
    measure = MEASURES[BORDER]
    attribution, chance = (pooled_mean(runs.successful, key, measure) for key in (method, RANDOM))
    run_means, chances = (
        np.array([run_mean(run, key, measure) for run in runs.successful]) for key in (method, RANDOM)
    )
    text = f"{runs.method_title(method)} gives the border less than random scores do"
    figures = f"{markdown.estimate(attribution)}, random {markdown.number(chance.mean)}"
    return judge_claim("3", text, attribution.mean < chance.mean, figures, compare(run_means, chances).p)


def _less_while_learning(runs: ExperimentRuns, all_lines: Sequence[trend_lines.TrendLine], method: str) -> PaperClaim:
    trend = trend_lines.mean_trend(all_lines, method)
    text = f"{runs.method_title(method)} gives the border less as the model learns (here: mean trend below 0)"
    holds = trend.mean < 0 if trend.n else None
    figures = f"rank correlation of Attr% with the accuracy {markdown.estimate(trend)}, {trend.n} runs"
    return judge_claim("3", text, holds, figures, trend_lines.trend_p(all_lines, method))


def sections(runs: ExperimentRuns) -> Sections:
    """The trend of Attr% on the border with the accuracy."""
    all_lines = lines(runs)
    if not all_lines:
        return []
    title = "Trend of Attr% on the border with the accuracy (negative: it falls as the model learns), pictures"
    return [
        (f"{title} of class 1", trend_lines.trends_markdown(runs, all_lines, "with")),
        (f"{title} of class 0", trend_lines.trends_markdown(runs, all_lines, "without")),
    ]


EXPERIMENT = replace(
    fig5.EXPERIMENT,
    name="gt-border",
    title="Ground truth, F_N for pictures: attribution on a white border that tells nothing",
    dimensions=(
        Dimension("plants", PLANTS, PLANTS),
        *fig5.DIMENSIONS[1:2],
        method_dimension(PICTURE_METHODS, ("paper", "chance"), (MARC,)),
    ),
    table=border_table,
    claims=claims,
    sections=sections,
    draw=lambda runs, folder: trend_lines.draw_lines(
        runs,
        lines(runs),
        None,
        folder / "border-by-accuracy.png",
        x="test accuracy",
        xlim=(0.4, 1),
        caption="Attr% on the border; blue: pictures of class 1, orange: of class 0",
    ),
    limit=24,
    run_options={"explain_during_training": True},
    claims_title="The requirement of section 3",
)
