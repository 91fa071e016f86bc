"""Figures 12 and 13: rationale models, and methods that select as many words, on planted articles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rationales.evaluation.tables import markdown
from rationales.experiments.claims import PaperClaim, judge_claim
from rationales.experiments.ground_truth.experiment import Sections
from rationales.experiments.ground_truth.figures import table1, word_selections
from rationales.experiments.ground_truth.figures.article_scores import ARTICLES, CN, NC
from rationales.experiments.ground_truth.figures.word_selections import CR, RATIONALE_MODELS, RL, SelectionPoint
from rationales.experiments.ground_truth.method_rows import INHERENT, MARC, RANDOM, TEXT_METHODS
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.reporting.run_statistics import finite_mean, input_values
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.row_choices import Dimension, method_dimension
from rationales.experiments.ground_truth.runs import review_passages
from rationales.experiments.ground_truth.runs.method_measures import MODEL_SELECTION
from rationales.experiments.ground_truth.runs.networks import TEXT_NETWORKS

NEAR_BEST = 0.9  # share of the best possible value from which a value counts as near-perfect
COLOURS = {RL: plots.BLUE, CR: plots.ORANGE}
COMPARED = (MARC, "marc-words", "loo", "integrated-gradients")  # with rationale models
PLOTTED = (INHERENT, *COMPARED, RANDOM)  # the tables have all methods
CAPTION = (
    "blue: RL, orange: CR, grey: methods on a reader; green: the best possible, over all texts and (dashed) in each"
)


def sections(runs: ExperimentRuns) -> Sections:
    """The results on each data set."""
    return [(f"{plant}: by wanted %Sel", word_selections.plant_markdown(runs, plant)) for plant in runs.plants]


def fig12_claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """The claims of section 7.1."""
    points = word_selections.model_points(runs)
    if not points:
        return []
    lowest = min(word_selections.requested_rates(runs.chosen_rows))
    faulty = [point for point in points if not near_perfect(point) and (point.row, point.rate) != (CR, lowest)]
    criterion = f"precision and recall of {NEAR_BEST:g} times the best"
    text = f"All but CR at the lowest %Sel are near-perfect (here: {criterion})"
    figures = "; ".join(_precision_text(point) for point in faulty) or f"all of the other {len(points)}"
    claim_list = [_accuracy_claim(runs, "7.1"), judge_claim("7.1", text, not faulty, figures)]
    at_lowest = [point for point in points if (point.row, point.rate) == (CR, lowest)]
    if at_lowest:
        text = "CR at the lowest %Sel is faulty: it selects words that tell nothing"
        figures = _precision_text(at_lowest[0])
        claim_list.append(judge_claim("7.1", text, not near_perfect(at_lowest[0]), figures))
    shares = {point: _share_without_hit(point) for point in points}
    text = "Every rationale has at least one word that tells the class, as it must"
    worst = max(shares, key=lambda point: shares[point])
    title = TEXT_NETWORKS[worst.row].title
    figures = f"worst: {title} at {worst.rate:g}, {markdown.percent(shares[worst])} of the texts without one"
    claim_list.append(judge_claim("7.1", text, shares[worst] == 0, figures))
    return [*claim_list, *_method_claims(runs)]


def fig13_claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """The claims of section 7.2."""
    points = word_selections.model_points(runs)
    if not points:
        return []
    shares = {point: point.metric("articles").mean for point in points}
    text = f"Rationales consist almost exclusively of articles (here: {NEAR_BEST:g} of the selected words)"
    worst = min(shares, key=lambda point: shares[point])
    figures = f"lowest: {_precision_text(worst)}, articles {markdown.number(shares[worst])}"
    claim_list = [_accuracy_claim(runs, "7.2"), judge_claim("7.2", text, shares[worst] >= NEAR_BEST, figures)]
    rl_points = [point for point in points if point.row == RL]
    imprecise = [point for point in rl_points if point.metric("precision").mean < NEAR_BEST * point.best_possible()[0]]
    if rl_points:
        criterion = f"precision markedly below the best (here: {NEAR_BEST:g} times)"
        text = f"RL selects articles that tell nothing: {criterion}"
        figures = f"{len(imprecise)} of {len(rl_points)} settings"
        figures += f", such as {_precision_text(imprecise[0])}" if imprecise else ""
        claim_list.append(judge_claim("7.2", text, 2 * len(imprecise) > len(rl_points), figures))
    lured = {key: [point.metric("lured").mean for point in points if point.row == key] for key in RATIONALE_MODELS}
    if all(lured.values()):
        means = {key: finite_mean(values) for key, values in lured.items()}
        text = "The problem is more severe with RL than with CR (here: mean share of articles that tell nothing)"
        figures = f"RL {markdown.number(means[RL])}, CR {markdown.number(means[CR])}"
        claim_list.append(judge_claim("7.2", text, means[RL] > means[CR], figures))
    return [*claim_list, *_method_claims(runs)]


def near_perfect(point: SelectionPoint) -> bool:
    """Whether precision and recall are both close to the best possible values at this rate."""
    best = zip(("precision", "recall"), point.best_possible(), strict=True)
    return all(point.metric(name).mean >= NEAR_BEST * value for name, value in best)


def _precision_text(point: SelectionPoint) -> str:
    best = markdown.number(point.best_possible()[0])
    precision = f"precision {markdown.number(point.metric('precision').mean)} of at best {best}"
    return f"{TEXT_NETWORKS[point.row].title} on {point.plant} at {point.rate:g}: {precision}"


def _accuracy_claim(runs: ExperimentRuns, section: str) -> PaperClaim:
    records = [run for run in runs.records if run.spec.network in RATIONALE_MODELS]
    successful = [run for run in records if not run.failed]
    text, figures = "All models reach an accuracy above 97 %", f"{len(successful)} of {len(records)}"
    return judge_claim(section, text, len(successful) == len(records), figures)


def _share_without_hit(point: SelectionPoint) -> float:
    """The share of texts in which no selected word determines the class."""
    measure = f"hits@{MODEL_SELECTION}"
    hits = np.concatenate([input_values(run, run.measures.get(INHERENT), measure) for run in point.records])
    return float(np.mean(hits[np.isfinite(hits)] == 0)) if np.isfinite(hits).any() else float("nan")


def _method_claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """How methods on an ordinary network compare with rationale models."""
    claim_list = []
    of_models = [point.metric("precision").mean for point in word_selections.model_points(runs)]
    for key in COMPARED:
        points = word_selections.selection_points(runs, key) if key in runs.methods else []
        if points and of_models:
            means = finite_mean([point.metric("precision").mean for point in points]), finite_mean(of_models)
            title = TEXT_METHODS[key].title
            text = f"{title} on a plain reader is as precise as rationale models (here: mean over %Sel)"
            figures = f"{markdown.number(means[0])}, models {markdown.number(means[1])}"
            claim_list.append(judge_claim("", text, means[0] >= means[1], figures))
    return claim_list


def draw_metrics(metrics: Sequence[str]) -> Callable[[ExperimentRuns, Path], list[Path]]:
    """Function that writes these metrics over %Sel, with the best possible values."""

    def draw(runs: ExperimentRuns, folder: Path) -> list[Path]:
        if not runs.successful:
            return []
        figure = plots.grid(
            folder / "selections.png",
            {metric: metric for metric in metrics},
            runs.plants,
            lambda axes, metric, plant: _draw_panel(axes, runs, metric, plant),
            x="share of the words that is selected",
            y="",
            xlim=(0, 1.15 * _largest_share(runs)),
            caption=CAPTION,
            panel=(3.8, 2.8),
        )
        return [figure]

    return draw


def _largest_share(runs: ExperimentRuns) -> float:
    """The largest share of the words that was requested, or that a model selects on average."""
    selected = [point.metric("selected").mean for plant in runs.plants for key in word_selections.row_titles(runs)
                for point in word_selections.selection_points(runs, key, plant)]  # fmt: skip
    return float(np.nanmax([*word_selections.requested_rates(runs.chosen_rows), *selected]))


def _draw_panel(axes: Any, runs: ExperimentRuns, metric: str, plant: str) -> None:
    line_ends = []
    for key, title in word_selections.row_titles(runs).items():
        points = word_selections.selection_points(runs, key, plant)
        positions = [(point.metric("selected").mean, point.metric(metric).mean) for point in points]
        if key in COLOURS and positions:
            axes.plot(*zip(*positions, strict=True), marker="o", markersize=4, color=COLOURS[key])
        elif positions and key in PLOTTED:
            style = {"marker": ".", "markersize": 4, "color": plots.GREY, "alpha": 0.5, "linewidth": 0.8}
            axes.plot(*zip(*positions, strict=True), **style)
            line_ends.append((title, positions[-1]))
    plots.label_line_ends(axes, line_ends)
    if metric in ("precision", "recall"):
        for per_text, dash in ((False, "-"), (True, "--")):
            best = sorted(
                (point.metric("selected").mean, point.best_possible(per_text)[metric == "recall"])
                for key in RATIONALE_MODELS
                for point in word_selections.selection_points(runs, key, plant)
            )
            if best:
                axes.plot(*zip(*best, strict=True), dash, color=plots.GREEN, linewidth=1, marker="_", markersize=6)


def _dimensions(plants: tuple[str, ...], rates: tuple[float, ...]) -> tuple[Dimension, ...]:
    rate_names = tuple(f"rate-{rate:g}" for rate in rates)
    networks = (RL, CR, word_selections.READER)
    return (
        Dimension("plants", plants, plants),
        Dimension("networks", networks, networks),
        Dimension("rates", rate_names, rate_names),
        Dimension("data", tuple(review_passages.DATA), (review_passages.MOVIES,)),
        method_dimension(TEXT_METHODS),
    )


FIG12 = replace(
    table1.EXPERIMENT,
    name="gt-fig12",
    title="Ground truth, Figure 12: precision and recall of rationale models",
    dimensions=_dimensions((ARTICLES,), (0.07, 0.09, 0.11, 0.13, 0.15)),
    run_specs=word_selections.run_specs,
    table=word_selections.selection_table,
    claims=fig12_claims,
    sections=sections,
    draw=draw_metrics(("precision", "recall")),
    selected_shares=word_selections.requested_rates,
)
FIG13 = replace(
    FIG12,
    name="gt-fig13",
    title="Ground truth, Figure 13: rationale models and articles that tell nothing",
    dimensions=_dimensions((CN, NC), (0.03, 0.05, 0.07, 0.09)),
    claims=fig13_claims,
    draw=draw_metrics(("precision", "lured")),
)
