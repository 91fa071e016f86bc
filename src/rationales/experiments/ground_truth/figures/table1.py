"""Table 1: what attention, and every other method, gives to articles that tell the class, and to those that do not."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from rationales.evaluation.statistics import compare
from rationales.evaluation.table import Table
from rationales.experiments.ground_truth.experiment import Chosen, Sections, Study
from rationales.experiments.ground_truth.figures.article_scores import (
    ARTICLES,
    CN,
    IDLE,
    NC,
    PLANTS,
    REGION,
    REST,
    SHARES,
    frequency,
    measure,
    remarks,
    selected,
    spread,
    titles,
)
from rationales.experiments.ground_truth.method_rows import MARC, OWN, TEXTS, Dimension, method_dimension
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.reporting.paper_claims import (
    Claim,
    Verdict,
    cell,
    claim_list,
    judged,
    markdown,
    number,
    percent,
)
from rationales.experiments.ground_truth.reporting.run_statistics import mean_of, over, plain_mean
from rationales.experiments.ground_truth.reporting.run_tables import Results, table
from rationales.experiments.ground_truth.runs import review_passages as passages
from rationales.experiments.ground_truth.runs import text_run as run_texts
from rationales.experiments.ground_truth.runs.networks import TEXTS as NETWORKS
from rationales.experiments.ground_truth.runs.run_spec import Plan

BARELY = 1.5  # times the share of articles among the words: better than random, albeit barely
VARIES = 0.1  # a standard deviation over runs from which behaviour counts as varying widely
COMPARED = (MARC, "marc-words", "loo", "integrated-gradients")  # with attention
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


def plans(chosen: Chosen, runs: int) -> list[Plan]:
    """Every data set and network; the first run of each comes first."""
    return [
        Plan(plant, network, run, data=data)
        for run in range(runs)
        for data in chosen["data"]
        for network in chosen["networks"]
        for plant in chosen["plants"]
    ]


def text_table(results: Results) -> tuple[Table, tuple[str, ...]]:
    """Methods by what they give to each kind of word."""
    metrics = (REGION, IDLE, REST, "precision", "recall", "lured")
    records = results.good
    made = table(
        results,
        titles(results),
        [one.plan.title for one in records],
        metrics,
        lambda key, place, metric: measure(records[place], key, metric),
        recipe=RECIPE,
        remarks=remarks(results),
    )
    return made, metrics


def sections(results: Results) -> Sections:
    """The claims, every data set by itself, and the paper's own figures."""
    paper = "The paper's own figures: attention, mean ± standard deviation of 11 runs (share of the words), in %"
    return [
        ("The paper's claims", claim_list(claims(results))),
        *((f"Data set {plant}", one_set(results, plant)) for plant in results.plants),
        (paper, markdown(["data set", REGION, IDLE, REST], PUBLISHED)),
    ]


def one_set(results: Results, plant: str) -> str:
    """Methods by kinds of words: means with intervals over runs and texts, and the spread over runs. Markdown."""
    records = results.of(plant)
    heads = ["method", REGION, "sd over runs", IDLE, "precision", "recall", "lured"]
    lines = [
        [
            title,
            cell(over(records, key)),
            number(spread(records, key)),
            cell(over(records, key, "distractors")),
            *(cell(selected(records, key, what)) for what in ("precision", "recall", "lured")),
        ]
        for key, title in titles(results).items()
    ]
    share = ["share of the words", number(frequency(records, REGION)), "", number(frequency(records, IDLE)), "", "", ""]
    runs = f"{len(records)} runs, {sum(len(one.names) for one in records)} texts."
    return f"{markdown(heads, [*lines, share])}\n\n{runs}"


def claims(results: Results) -> list[Claim]:
    """Sections 6.1 and 6.2."""
    found: list[Claim] = []
    failed = sum(bool(one.failed) for one in results.records)
    if results.records:
        lowest = min((one.last.accuracy for one in results.good), default=float("nan"))
        told = f"{len(results.good)} of {len(results.records)} runs; lowest accuracy {percent(lowest)}"
        found.append(judged("6.1", "All models reach an accuracy above 97 %", not failed, told))
    if OWN not in results.methods:
        return found
    if own := results.of(ARTICLES):
        mean, chance = over(own, OWN), frequency(own, REGION)
        text = f"Attention on articles is better than random, albeit barely (here: up to {BARELY:g} times)"
        holds = chance < mean.mean <= BARELY * chance
        found.append(judged("6.1", text, holds, f"{cell(mean)}, random {number(chance)}; in the paper .103 and .079"))
    for plant in (one for one in (CN, NC) if results.of(one)):
        found += _halves(results, plant)
    return [*found, *(_against_attention(results, key) for key in COMPARED if key in results.methods)]


def _halves(results: Results, plant: str) -> list[Claim]:
    records = results.of(plant)
    found = []
    if len(records) > 1:
        text = f"{plant.upper()}: attention varies widely between runs (here: a standard deviation of {VARIES:g})"
        shares = ", ".join(number(mean_of(one, OWN)) for one in records)
        found.append(judged("6.2", text, spread(records, OWN) >= VARIES, f"correlating articles get {shares}"))
    chance = frequency(records, IDLE)
    above = [one for one in records if mean_of(one, OWN, "distractors") > chance]
    text = f"{plant.upper()}: attention sometimes gives non-correlating articles more than random weights"
    figures = (
        f"{len(above)} of {len(records)} runs, mean {cell(over(records, OWN, 'distractors'))}, random {number(chance)}"
    )
    found.append(judged("6.2", text, bool(above), figures))
    return found


def _against_attention(results: Results, method: str) -> Claim:
    """Whether a method does better than attention: more to what tells the class, less to what does not."""
    verdicts = []
    for measure_, sign in (("region", 1), ("distractors", -1)):
        records = [one for one in results.good if not np.isnan(mean_of(one, OWN, measure_))]
        if not records:
            continue
        ours, theirs = (np.array([mean_of(one, key, measure_) for one in records]) for key in (method, OWN))
        test = compare(ours, theirs)
        reading = "more on correlating articles" if sign > 0 else "less on non-correlating ones"
        figures = f"{number(plain_mean(ours))}, attention {number(plain_mean(theirs))}, p = {number(test.p)}"
        verdicts.append(Verdict(sign * test.difference > 0, figures, reading))
    return Claim("", f"{results.title(method)} tells the articles that matter better than attention", tuple(verdicts))


def draw(results: Results, folder: Path) -> list[Path]:
    """Shares of the scores on each kind of word, a bar for every method."""
    if not results.good:
        return []
    rows = list(titles(results).items())
    colours = {REGION: plots.ORANGE, IDLE: plots.BLUE, REST: plots.GREEN}

    def bar(axes: Any, method: str, plant: str) -> None:
        place, left = [key for key, _ in rows].index(method), 0.0
        for what, colour in colours.items():
            width = plain_mean([measure(one, method, what) for one in results.of(plant)])
            if not np.isnan(width):
                axes.barh(place, width, left=left, color=colour, height=0.7)
                left += width

    made = plots.bars(
        folder / "attribution-on-articles.png",
        rows,
        [(plant, plant) for plant in results.plants],
        bar,
        x="Attr%: orange on articles that tell the class, blue on those that do not, green on other words",
    )
    return [made]


@functools.cache
def dimensions(plants: tuple[str, ...] = PLANTS) -> tuple[Dimension, ...]:
    """What can be chosen of."""
    return (
        Dimension("plants", plants, plants),
        Dimension("networks", tuple(key for key, one in NETWORKS.items() if not one.selects), ("attention",)),
        Dimension("data", tuple(passages.DATA), (passages.MOVIES,)),
        method_dimension(TEXTS),
    )


STUDY = Study(
    name="gt-table1",
    title="Ground truth, Table 1: attention and other methods on articles that tell the class",
    dimensions=dimensions(),
    specs=TEXTS,
    run=run_texts.run,
    unfinished=run_texts.unfinished,
    plans=plans,
    table=text_table,
    sections=sections,
    draw=draw,
    limit=100,
    shares=lambda _: SHARES,
)
