"""Table 1: Attr% of attention and of all methods on articles that determine the class and on those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.statistics import compare
from rationales.evaluation.tables.table import Table
from rationales.experiments.claims import ClaimVerdict, PaperClaim, joint_claims, judge_claim
from rationales.experiments.ground_truth.experiment import ChosenRows, GroundTruthExperiment, Sections
from rationales.experiments.ground_truth.figures import article_scores
from rationales.experiments.ground_truth.figures.article_scores import CORRELATING, NON_CORRELATING, WORD_KINDS
from rationales.experiments.ground_truth.method_rows import INHERENT, MARC, TEXT_METHODS
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.reporting.run_statistics import finite_mean, pooled_mean, run_mean
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns, results_table
from rationales.experiments.ground_truth.row_choices import Dimension, method_dimension
from rationales.experiments.ground_truth.runs import review_passages, text_run
from rationales.experiments.ground_truth.runs.networks import TEXT_NETWORKS
from rationales.experiments.ground_truth.runs.run_spec import RunSpec

BARELY_ABOVE = 1.5  # up to this multiple of the share of articles, Attr% counts as barely better than random
WIDE_VARIATION = 0.1  # a standard deviation over runs from which Attr% counts as varying widely
COMPARED = (MARC, "marc-words", "loo", "integrated-gradients")  # with attention
SELECTION_METRICS = ("precision", "recall", "lured")
PUBLISHED = (
    ("articles", "10.3 ± 2.4 (7.9)", "–", "89.7 ± 2.4 (92.1)"),
    ("CN", "15.9 ± 25.7 (4.1)", "5.9 ± 4.0 (3.8)", "78.2 ± 24.7 (92.1)"),
    ("NC", "12.0 ± 8.4 (3.8)", "12.6 ± 9.3 (4.1)", "75.4 ± 16.7 (92.1)"),
)
RECIPE = (
    "Attr% on articles that tell the class (correlating), on those that do not (non-correlating; CN and NC alone) and "
    "on all other words; precision, recall and lured: of the best 8 % of a text's words (4 % in CN and NC), the share "
    "that tells the class, the share of what tells it that is selected, and the share of articles that tell nothing."
)


def run_specs(chosen_rows: ChosenRows, runs: int) -> list[RunSpec]:
    """Every data set and network; the first run of each comes first."""
    return [
        RunSpec(plant, network, run, data=data)
        for run in range(runs)
        for data in chosen_rows["data"]
        for network in chosen_rows["networks"]
        for plant in chosen_rows["plants"]
    ]


def text_table(runs: ExperimentRuns) -> tuple[Table, tuple[str, ...]]:
    """Methods by Attr% on each kind of word and by metrics of the selected words."""
    metrics = (*WORD_KINDS, *SELECTION_METRICS)
    records = runs.successful
    table = results_table(
        runs,
        article_scores.method_titles(runs),
        [run.spec.title for run in records],
        metrics,
        lambda key, i, metric: article_scores.run_metric(records[i], key, metric),
        recipe=RECIPE,
        remarks=(*article_scores.data_remarks(runs), *_pooling_remark(runs)),
    )
    return table, metrics


def _pooling_remark(runs: ExperimentRuns) -> list[str]:
    titles = list(runs.by_network())
    if len(titles) < 2:
        return []
    return [f"This table has the means over all runs of {' and '.join(titles)}; the sections below tell them apart."]


def sections(runs: ExperimentRuns) -> Sections:
    """The results on each data set, and the published values."""
    paper = "The paper's own figures: attention, mean ± standard deviation of 11 runs (share of the words), in %"
    return [
        *((f"Data set {title}", plant_markdown(*pair)) for title, pair in _by_data_set(runs).items()),
        (paper, markdown.table(["data set", *WORD_KINDS], PUBLISHED)),
    ]


def _by_data_set(runs: ExperimentRuns) -> dict[str, tuple[ExperimentRuns, str]]:
    """Title -> the runs of one network, and the plant; 'cn' or, where there are several networks, 'cn, bert'."""
    return {
        f"{plant}, {title}" if title else plant: (of_network, plant)
        for plant in runs.plants
        for title, of_network in runs.by_network().items()
        if of_network.with_plant(plant)
    }


def plant_markdown(runs: ExperimentRuns, plant: str) -> str:
    """Methods by kinds of words, with intervals over runs and texts, and the standard deviation over runs.

    `runs`: of one network, since a mean over several is that of none.
    """
    records = runs.with_plant(plant)
    heads = ["method", CORRELATING, "sd over runs", NON_CORRELATING, *SELECTION_METRICS]
    lines = [
        [
            title,
            markdown.estimate(pooled_mean(records, key)),
            markdown.number(article_scores.std_over_runs(records, key)),
            markdown.estimate(pooled_mean(records, key, "distractors")),
            *(markdown.estimate(article_scores.selection_metric(records, key, metric)) for metric in SELECTION_METRICS),
        ]
        for key, title in article_scores.method_titles(runs).items()
    ]
    shares = [markdown.number(article_scores.word_share(records, kind)) for kind in (CORRELATING, NON_CORRELATING)]
    share_line = ["share of the words", shares[0], "", shares[1], "", "", ""]
    counts = f"{len(records)} runs, {sum(len(run.input_names) for run in records)} texts."
    return f"{markdown.table(heads, [*lines, share_line])}\n\n{counts}"


def claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """The claims of sections 6.1 and 6.2, with a verdict for each network."""
    return joint_claims({title: _network_claims(of_network) for title, of_network in runs.by_network().items()})


def _network_claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """The claims on the runs of one network."""
    claim_list: list[PaperClaim] = []
    failed = sum(bool(run.failed) for run in runs.records)
    if runs.records:
        lowest = min((run.last_attempt.accuracy for run in runs.successful), default=float("nan"))
        figures = f"{len(runs.successful)} of {len(runs.records)} runs; lowest accuracy {markdown.percent(lowest)}"
        claim_list.append(judge_claim("6.1", "All models reach an accuracy above 97 %", not failed, figures))
    if INHERENT not in runs.methods:
        return claim_list
    if records := runs.with_plant(article_scores.ARTICLES):
        attention, chance = pooled_mean(records, INHERENT), article_scores.word_share(records, CORRELATING)
        text = f"Attention on articles is better than random, albeit barely (here: up to {BARELY_ABOVE:g} times)"
        holds = chance < attention.mean <= BARELY_ABOVE * chance
        figures = f"{markdown.estimate(attention)}, random {markdown.number(chance)}; in the paper .103 and .079"
        run_means = np.array([run_mean(run, INHERENT) for run in records])
        p = compare(run_means, np.full(len(records), chance)).p  # of the first half, "better than random"
        claim_list.append(judge_claim("6.1", text, holds, figures, p))
    for plant in (article_scores.CN, article_scores.NC):
        if runs.with_plant(plant):
            claim_list += _half_text_claims(runs, plant)
    return [*claim_list, *(_attention_comparison(runs, key) for key in COMPARED if key in runs.methods)]


def _half_text_claims(runs: ExperimentRuns, plant: str) -> list[PaperClaim]:
    """The claims on a data set where only the articles of one half of a text determine the class."""
    records = runs.with_plant(plant)
    claim_list = []
    if len(records) > 1:
        criterion = f"a standard deviation of {WIDE_VARIATION:g}"
        text = f"{plant.upper()}: attention varies widely between runs (here: {criterion})"
        shares = ", ".join(markdown.number(run_mean(run, INHERENT)) for run in records)
        holds = article_scores.std_over_runs(records, INHERENT) >= WIDE_VARIATION
        claim_list.append(judge_claim("6.2", text, holds, f"correlating articles get {shares}"))
    chance = article_scores.word_share(records, NON_CORRELATING)
    above = [run for run in records if run_mean(run, INHERENT, "distractors") > chance]
    text = f"{plant.upper()}: attention sometimes gives non-correlating articles more than random weights"
    mean = markdown.estimate(pooled_mean(records, INHERENT, "distractors"))
    figures = f"{len(above)} of {len(records)} runs, mean {mean}, random {markdown.number(chance)}"
    claim_list.append(judge_claim("6.2", text, bool(above), figures))
    return claim_list


def _attention_comparison(runs: ExperimentRuns, method: str) -> PaperClaim:
    """Whether a method gives more than attention to correlating articles, and less to non-correlating ones."""
    verdicts = []
    for measure, sign in (("region", 1), ("distractors", -1)):
        records = [run for run in runs.successful if not np.isnan(run_mean(run, INHERENT, measure))]
        if not records:
            continue
        scores, attention = (np.array([run_mean(run, key, measure) for run in records]) for key in (method, INHERENT))
        test = compare(scores, attention)
        reading = "more on correlating articles" if sign > 0 else "less on non-correlating ones"
        means = f"{markdown.number(finite_mean(scores))}, attention {markdown.number(finite_mean(attention))}"
        verdicts.append(ClaimVerdict(sign * test.difference > 0, means, reading, test.p))
    text = f"{runs.method_title(method)} tells the articles that matter better than attention"
    return PaperClaim("", text, tuple(verdicts))


def draw(runs: ExperimentRuns, folder: Path) -> list[Path]:
    """Write the shares of the scores on each kind of word, one bar per method."""
    if not runs.successful:
        return []
    titles = article_scores.method_titles(runs)
    colours = dict(zip(WORD_KINDS, (plots.ORANGE, plots.BLUE, plots.GREEN), strict=True))
    by_data_set = _by_data_set(runs)

    def bar(axes: Any, method: str, data_set: str) -> None:
        of_network, plant = by_data_set[data_set]
        records, y, left = of_network.with_plant(plant), list(titles).index(method), 0.0
        for kind, colour in colours.items():
            width = finite_mean([article_scores.run_metric(run, method, kind) for run in records])
            if not np.isnan(width):
                axes.barh(y, width, left=left, color=colour, height=0.7)
                left += width

    figure = plots.bars(
        folder / "attribution-on-articles.png",
        titles,
        list(by_data_set),
        bar,
        x="Attr%: orange on articles that tell the class, blue on those that do not, green on other words",
    )
    return [figure]


DIMENSIONS = (
    Dimension("plants", article_scores.PLANTS, article_scores.PLANTS),
    Dimension("networks", tuple(key for key, network in TEXT_NETWORKS.items() if not network.selects), ("attention",)),
    Dimension("data", tuple(review_passages.DATA), (review_passages.MOVIES,)),
    method_dimension(TEXT_METHODS),
)
EXPERIMENT = GroundTruthExperiment(
    name="gt-table1",
    title="Ground truth, Table 1: attention and other methods on articles that tell the class",
    dimensions=DIMENSIONS,
    specs=TEXT_METHODS,
    run=text_run.run,
    unfinished=text_run.unfinished,
    run_specs=run_specs,
    table=text_table,
    claims=claims,
    sections=sections,
    draw=draw,
    limit=100,
    selected_shares=lambda _: article_scores.SELECTED_SHARES,
)
