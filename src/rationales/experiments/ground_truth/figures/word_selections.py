"""Figures 12 and 13: precision and recall of what rationale models select, and of what methods would select."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rationales.evaluation.statistics import Estimate
from rationales.evaluation.table import Table
from rationales.experiments.ground_truth.experiment import Chosen
from rationales.experiments.ground_truth.figures import article_scores as articles
from rationales.experiments.ground_truth.figures.article_scores import selected
from rationales.experiments.ground_truth.method_rows import OWN, RANDOM
from rationales.experiments.ground_truth.reporting.paper_claims import cell, markdown, number
from rationales.experiments.ground_truth.reporting.run_tables import Results, table
from rationales.experiments.ground_truth.runs.method_measures import CHOSEN
from rationales.experiments.ground_truth.runs.networks import TEXTS as NETWORKS
from rationales.experiments.ground_truth.runs.run_record import Record
from rationales.experiments.ground_truth.runs.run_spec import Plan

RL, CR, READER = "reinforce", "hardkuma", "attention"
MODELS = (RL, CR)
METRICS = ("precision", "recall", "selected", "lured", "articles")
RECIPE = (
    "Precision: share of the selected words that tell the class; recall: share of what tells it that is selected; "
    "selected: %Sel; lured: share of the selected words that are articles that tell nothing; articles: share of them "
    "that are articles of either kind. RL and CR select words themselves; the other rows are methods on a BiLSTM with "
    "attention, of which as many of the best words are taken as the wanted %Sel allows."
)


@dataclass(frozen=True, eq=False)
class Point:
    """One value of a figure: a row, a data set, a wanted rate, and the runs behind it."""

    row: str
    plant: str
    rate: float
    records: tuple[Record, ...]

    def figure(self, what: str) -> Estimate:
        """Precision, recall, ... over all texts, with its interval over runs and texts."""
        method, name = (OWN, CHOSEN) if self.row in MODELS else (self.row, f"{self.rate:g}")
        return selected(self.records, method, what, name)

    def best(self, each: bool = False) -> tuple[float, float]:
        """The best precision and recall at the share that is selected; `each`: the same share of every text."""
        rate = self.figure("selected").mean
        units, region = (
            np.array([n for one in self.records for n in getattr(one, name)], dtype=np.float64)
            for name in ("units", "region")
        )
        if not each:
            units, region = units.sum(keepdims=True), region.sum(keepdims=True)
        hits = np.minimum(rate * units, region).sum()
        return float(hits / (rate * units.sum())), float(hits / region.sum())


def points(results: Results, row: str | None = None, plant: str | None = None) -> list[Point]:
    """All points, or those of a row or a data set, in rising order of the rate."""
    found = []
    for key in [row] if row else rows(results):
        for own in [plant] if plant else results.plants:
            for rate in rates(results.chosen):
                records = tuple(one for one in results.of(own) if _belongs(one, key, rate))
                if records:
                    found.append(Point(key, own, rate, records))
    return found


def _belongs(record: Record, row: str, rate: float) -> bool:
    if row in MODELS:
        return record.plan.network == row and record.plan.rate == rate
    asked = record.plan.network == READER or (row == RANDOM and record.plan.rate == rate)
    return asked and row in record.told and bool(record.told[row].values)


def rates(chosen: Chosen) -> tuple[float, ...]:
    """The wanted %Sel."""
    return tuple(float(name.rpartition("-")[2]) for name in chosen["rates"])


def rows(results: Results) -> dict[str, str]:
    """Rationale models, then methods."""
    models = {key: NETWORKS[key].title for key in MODELS if any(one.plan.network == key for one in results.good)}
    read = any(one.plan.network == READER for one in results.good)
    own = {key: title for key, title in articles.titles(results).items() if read or key == RANDOM}
    return {**models, **own}


def plans(chosen: Chosen, runs: int) -> list[Plan]:
    """Every rationale model at every rate, and a reader for the methods; the first run of each comes first."""
    found = []
    for run in range(runs):
        for data in chosen["data"]:
            for plant in chosen["plants"]:
                for network in chosen["networks"]:
                    own = rates(chosen) if network in MODELS else (0.0,)
                    found += [Plan(plant, network, run, rate=rate, data=data) for rate in own]
    return found


def selection_table(results: Results) -> tuple[Table, tuple[str, ...]]:
    """Rows by precision, recall and what else is selected; a value is of one run at one rate."""
    units = [
        (plant, rate, run)
        for plant in results.plants
        for rate in rates(results.chosen)
        for run in sorted({one.plan.run for one in results.of(plant)})
    ]

    def value(key: str, place: int, metric: str) -> float:
        plant, rate, run = units[place]
        own = tuple(one for one in results.of(plant) if _belongs(one, key, rate) and one.plan.run == run)
        return Point(key, plant, rate, own).figure(metric).mean if own else float("nan")

    made = table(
        results,
        rows(results),
        [f"{plant}, %Sel {100 * rate:g}, run {run + 1}" for plant, rate, run in units],
        METRICS,
        value,
        recipe=RECIPE,
        remarks=articles.remarks(results),
    )
    return made, METRICS


def one_set(results: Results, plant: str) -> str:
    """Rows at every rate, with intervals over runs and texts, beside what is possible. Markdown."""
    heads = ["row", "wanted", *METRICS, "best precision", "best recall", "runs"]
    lines = [
        [
            rows(results)[one.row],
            f"{one.rate:g}",
            *(cell(one.figure(what)) for what in METRICS),
            *(number(value) for value in one.best()),
            str(len(one.records)),
        ]
        for one in points(results, plant=plant)
    ]
    return markdown(heads, lines)
