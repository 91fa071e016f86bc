"""Figures 12 and 13: rationale models, and methods that select as many words, on articles that tell the class."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rationales.experiments.ground_truth.experiment import Sections
from rationales.experiments.ground_truth.figures import table1
from rationales.experiments.ground_truth.figures.article_scores import ARTICLES, CN, NC
from rationales.experiments.ground_truth.figures.word_selections import (
    CR,
    MODELS,
    READER,
    RL,
    Point,
    one_set,
    plans,
    points,
    rates,
    rows,
    selection_table,
)
from rationales.experiments.ground_truth.method_rows import MARC, OWN, RANDOM, TEXTS, Dimension, method_dimension
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.reporting.paper_claims import Claim, claim_list, judged, number, percent
from rationales.experiments.ground_truth.reporting.run_statistics import plain_mean, values_of
from rationales.experiments.ground_truth.reporting.run_tables import Results
from rationales.experiments.ground_truth.runs import review_passages as passages
from rationales.experiments.ground_truth.runs.method_measures import CHOSEN
from rationales.experiments.ground_truth.runs.networks import TEXTS as NETWORKS

ALMOST = 0.9  # of the best value: near-perfect
COLOURS = {RL: plots.BLUE, CR: plots.ORANGE}
SHOWN = (
    OWN,
    MARC,
    "marc-words",
    "loo",
    "integrated-gradients",
    RANDOM,
)  # the methods that are drawn; the others stand in the tables
CAPTION = (
    "blue: RL, orange: CR, grey: methods on a reader; green: the best possible, over all texts and (dashed) in each"
)


def sections(claims: Callable[[Results], list[Claim]]) -> Callable[[Results], Sections]:
    """The claims, and every data set by itself."""

    def made(results: Results) -> Sections:
        return [
            ("The paper's claims", claim_list(claims(results))),
            *((f"{plant}: by wanted %Sel", one_set(results, plant)) for plant in results.plants),
        ]

    return made


def claims12(results: Results) -> list[Claim]:
    """Section 7.1."""
    own = [one for key in MODELS for one in points(results, key)]
    if not own:
        return []
    lowest = min(rates(results.chosen))
    poor = [one for one in own if not near_perfect(one)]
    faulty = [one for one in poor if (one.row, one.rate) != (CR, lowest)]
    text = f"All but CR at the lowest %Sel are near-perfect (here: precision and recall of {ALMOST:g} times the best)"
    told = "; ".join(_told(one) for one in faulty) or f"all of the other {len(own)}"
    found = [_accurate(results, "7.1"), judged("7.1", text, not faulty, told)]
    at_lowest = [one for one in own if (one.row, one.rate) == (CR, lowest)]
    if at_lowest:
        text = "CR at the lowest %Sel is faulty: it selects words that tell nothing"
        found.append(judged("7.1", text, not near_perfect(at_lowest[0]), _told(at_lowest[0])))
    barren = {one: _without(one) for one in own}
    text = "Every rationale has at least one word that tells the class, as it must"
    worst = max(barren, key=lambda one: barren[one])
    figures = f"worst: {NETWORKS[worst.row].title} at {worst.rate:g}, {percent(barren[worst])} of the texts without one"
    found.append(judged("7.1", text, barren[worst] == 0, figures))
    return [*found, *_methods(results)]


def claims13(results: Results) -> list[Claim]:
    """Section 7.2."""
    own = [one for key in MODELS for one in points(results, key)]
    if not own:
        return []
    share = {one: one.figure("articles").mean for one in own}
    text = f"Rationales consist almost exclusively of articles (here: {ALMOST:g} of the selected words)"
    worst = min(share, key=lambda one: share[one])
    figures = f"lowest: {_told(worst)}, articles {number(share[worst])}"
    found = [_accurate(results, "7.2"), judged("7.2", text, share[worst] >= ALMOST, figures)]
    short = [one for one in own if one.row == RL and one.figure("precision").mean < ALMOST * one.best()[0]]
    count = sum(one.row == RL for one in own)
    if count:
        text = f"RL selects articles that tell nothing: precision markedly below the best (here: {ALMOST:g} times)"
        told = f"{len(short)} of {count} settings" + (f", such as {_told(short[0])}" if short else "")
        found.append(judged("7.2", text, 2 * len(short) > count, told))
    lured = {key: [one.figure("lured").mean for one in own if one.row == key] for key in MODELS}
    if all(lured.values()):
        means = {key: plain_mean(values) for key, values in lured.items()}
        text = "The problem is more severe with RL than with CR (here: mean share of articles that tell nothing)"
        found.append(judged("7.2", text, means[RL] > means[CR], f"RL {number(means[RL])}, CR {number(means[CR])}"))
    return [*found, *_methods(results)]


def near_perfect(point: Point) -> bool:
    """Whether precision and recall are both close to the best possible at this rate."""
    best = point.best()
    return all(point.figure(what).mean >= ALMOST * own for what, own in zip(("precision", "recall"), best, strict=True))


def _told(point: Point) -> str:
    best = point.best()
    shares = f"precision {number(point.figure('precision').mean)} of at best {number(best[0])}"
    return f"{NETWORKS[point.row].title} on {point.plant} at {point.rate:g}: {shares}"


def _accurate(results: Results, section: str) -> Claim:
    own = [one for one in results.records if one.plan.network in MODELS]
    good = [one for one in own if not one.failed]
    return judged(
        section, "All models reach an accuracy above 97 %", len(good) == len(own), f"{len(good)} of {len(own)}"
    )


def _without(point: Point) -> float:
    """The share of texts whose selection has no word that tells the class."""
    hits = np.concatenate([values_of(one, one.told.get(OWN), f"hits@{CHOSEN}") for one in point.records])
    return float(np.mean(hits[np.isfinite(hits)] == 0)) if np.isfinite(hits).any() else float("nan")


def _methods(results: Results) -> list[Claim]:
    """Where methods that need no model of their own stand beside rationale models."""
    found = []
    models = [one.figure("precision").mean for key in MODELS for one in points(results, key)]
    for key in SHOWN[1:-1]:
        own = [one.figure("precision").mean for one in points(results, key)] if key in results.methods else []
        if own and models:
            means = plain_mean(own), plain_mean(models)
            text = f"{TEXTS[key].title} on a plain reader is as precise as rationale models (here: mean over %Sel)"
            found.append(judged("", text, means[0] >= means[1], f"{number(means[0])}, models {number(means[1])}"))
    return found


def draw(whats: Sequence[str]) -> Callable[[Results, Path], list[Path]]:
    """Precision, and recall, over %Sel, with the best that is possible."""

    def made(results: Results, folder: Path) -> list[Path]:
        if not results.good:
            return []
        path = plots.grid(
            folder / "selections.png",
            [(what, what) for what in whats],
            [(plant, plant) for plant in results.plants],
            lambda axes, what, plant: _panel(axes, results, what, plant),
            x="share of the words that is selected",
            y="",
            xlim=(0, 1.15 * _widest(results)),
            caption=CAPTION,
            panel=(3.8, 2.8),
        )
        return [path]

    return made


def _widest(results: Results) -> float:
    """The largest share of the words that was wanted, or that a model selects on average."""
    seen = [one.figure("selected").mean for plant in results.plants for key in rows(results)
            for one in points(results, key, plant)]  # fmt: skip
    return max([*rates(results.chosen), *(share for share in seen if not math.isnan(share))])


def _panel(axes: Any, results: Results, what: str, plant: str) -> None:
    ends = []
    for key, title in rows(results).items():
        own = [(one.figure("selected").mean, one.figure(what).mean) for one in points(results, key, plant)]
        if key in COLOURS and own:
            axes.plot(*zip(*own, strict=True), marker="o", markersize=4, color=COLOURS[key])
        elif own and key in SHOWN:
            axes.plot(*zip(*own, strict=True), marker=".", markersize=4, color=plots.GREY, alpha=0.5, linewidth=0.8)
            ends.append((title, own[-1]))
    plots.name_ends(axes, ends)
    if what in ("precision", "recall"):
        for each, style in ((False, "-"), (True, "--")):
            best = sorted(
                (one.figure("selected").mean, one.best(each)[what == "recall"])
                for key in MODELS
                for one in points(results, key, plant)
            )
            if best:
                axes.plot(*zip(*best, strict=True), style, color=plots.GREEN, linewidth=1, marker="_", markersize=6)


def _dimensions(plants: tuple[str, ...], given: tuple[float, ...]) -> tuple[Dimension, ...]:
    names = tuple(f"rate-{rate:g}" for rate in given)
    networks = (RL, CR, READER)
    return (
        Dimension("plants", plants, plants),
        Dimension("networks", networks, networks),
        Dimension("rates", names, names),
        Dimension("data", tuple(passages.DATA), (passages.MOVIES,)),
        method_dimension(TEXTS),
    )


FIG12 = replace(
    table1.STUDY,
    name="gt-fig12",
    title="Ground truth, Figure 12: precision and recall of rationale models",
    dimensions=_dimensions((ARTICLES,), (0.07, 0.09, 0.11, 0.13, 0.15)),
    plans=plans,
    table=selection_table,
    sections=sections(claims12),
    draw=draw(("precision", "recall")),
    shares=rates,
)
FIG13 = replace(
    FIG12,
    name="gt-fig13",
    title="Ground truth, Figure 13: rationale models and articles that tell nothing",
    dimensions=_dimensions((CN, NC), (0.03, 0.05, 0.07, 0.09)),
    sections=sections(claims13),
    draw=draw(("precision", "lured")),
)
