"""Words that rationale models select, and words that methods score highest: points and table of Figures 12 and 13."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.statistics import Estimate
from rationales.evaluation.tables.table import Table
from rationales.experiments.ground_truth.experiment import ChosenRows
from rationales.experiments.ground_truth.figures.article_scores import data_remarks, method_titles, selection_metric
from rationales.experiments.ground_truth.method_rows import INHERENT, RANDOM
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns, results_table
from rationales.experiments.ground_truth.runs.method_measures import MODEL_SELECTION
from rationales.experiments.ground_truth.runs.networks import TEXT_NETWORKS
from rationales.experiments.ground_truth.runs.run_record import RunRecord
from rationales.experiments.ground_truth.runs.run_spec import RunSpec

RL, CR, READER = "reinforce", "hardkuma", "attention"
RATIONALE_MODELS = (RL, CR)
METRICS = ("precision", "recall", "selected", "lured", "articles")
RECIPE = (
    "Precision: share of the selected words that tell the class; recall: share of what tells it that is selected; "
    "selected: %Sel; lured: share of the selected words that are articles that tell nothing; articles: share of them "
    "that are articles of either kind. RL and CR select words themselves; the other rows are methods on a BiLSTM with "
    "attention, of which as many of the best words are taken as the wanted %Sel allows."
)


@dataclass(frozen=True, eq=False)
class SelectionPoint:
    """One point of a figure: a row, a plant, a requested rate, and the runs of it."""

    row: str
    plant: str
    rate: float
    records: tuple[RunRecord, ...]

    def metric(self, name: str) -> Estimate:
        """A metric of the selected words, pooled over all texts, with its interval over runs and texts."""
        if self.row in RATIONALE_MODELS:
            return selection_metric(self.records, INHERENT, name, MODEL_SELECTION)
        return selection_metric(self.records, self.row, name, f"{self.rate:g}")

    def best_possible(self, per_text: bool = False) -> tuple[float, float]:
        """The best precision and recall at the selected share; `per_text`: with the same share of every text."""
        rate = self.metric("selected").mean
        units, region = (
            np.array([count for run in self.records for count in getattr(run, name)], dtype=np.float64)
            for name in ("unit_counts", "region_sizes")
        )
        if not per_text:
            units, region = units.sum(keepdims=True), region.sum(keepdims=True)
        hits = np.minimum(rate * units, region).sum()
        return float(hits / (rate * units.sum())), float(hits / region.sum())


def selection_points(runs: ExperimentRuns, row: str | None = None, plant: str | None = None) -> list[SelectionPoint]:
    """All points, or those of a row or a plant, by increasing rate."""
    points = []
    for row_key in [row] if row else row_titles(runs):
        for plant_name in [plant] if plant else runs.plants:
            for rate in requested_rates(runs.chosen_rows):
                records = tuple(run for run in runs.with_plant(plant_name) if _belongs(run, row_key, rate))
                if records:
                    points.append(SelectionPoint(row_key, plant_name, rate, records))
    return points


def model_points(runs: ExperimentRuns) -> list[SelectionPoint]:
    """The points of the rationale models."""
    return [point for key in RATIONALE_MODELS for point in selection_points(runs, key)]


def _belongs(run: RunRecord, row: str, rate: float) -> bool:
    if row in RATIONALE_MODELS:
        return run.spec.network == row and run.spec.rate == rate
    suitable = run.spec.network == READER or (row == RANDOM and run.spec.rate == rate)
    return suitable and row in run.measures and bool(run.measures[row].values)


def requested_rates(chosen_rows: ChosenRows) -> tuple[float, ...]:
    """The requested %Sel as shares."""
    return tuple(float(name.rpartition("-")[2]) for name in chosen_rows["rates"])


def row_titles(runs: ExperimentRuns) -> dict[str, str]:
    """Row -> title: rationale models, then methods."""
    networks = {run.spec.network for run in runs.successful}
    models = {key: TEXT_NETWORKS[key].title for key in RATIONALE_MODELS if key in networks}
    methods = {key: title for key, title in method_titles(runs).items() if READER in networks or key == RANDOM}
    return {**models, **methods}


def run_specs(chosen_rows: ChosenRows, runs: int) -> list[RunSpec]:
    """Every rationale model at every rate, and a network for the methods; the first run of each comes first."""
    specs = []
    for run in range(runs):
        for data in chosen_rows["data"]:
            for plant in chosen_rows["plants"]:
                for network in chosen_rows["networks"]:
                    rates = requested_rates(chosen_rows) if network in RATIONALE_MODELS else (0.0,)
                    specs += [RunSpec(plant, network, run, rate=rate, data=data) for rate in rates]
    return specs


def selection_table(runs: ExperimentRuns) -> tuple[Table, tuple[str, ...]]:
    """Rows by metrics of the selected words, with one value per plant, rate and run."""
    units = [
        (plant, rate, number)
        for plant in runs.plants
        for rate in requested_rates(runs.chosen_rows)
        for number in sorted({run.spec.run for run in runs.with_plant(plant)})
    ]

    def value(key: str, i: int, metric: str) -> float:
        plant, rate, number = units[i]
        records = tuple(run for run in runs.with_plant(plant) if _belongs(run, key, rate) and run.spec.run == number)
        return SelectionPoint(key, plant, rate, records).metric(metric).mean if records else float("nan")

    table = results_table(
        runs,
        row_titles(runs),
        [f"{plant}, %Sel {100 * rate:g}, run {number + 1}" for plant, rate, number in units],
        METRICS,
        value,
        recipe=RECIPE,
        remarks=data_remarks(runs),
    )
    return table, METRICS


def plant_markdown(runs: ExperimentRuns, plant: str) -> str:
    """Rows at every rate, with intervals over runs and texts, beside the best possible values."""
    heads = ["row", "wanted", *METRICS, "best precision", "best recall", "runs"]
    titles = row_titles(runs)
    lines = [
        [
            titles[point.row],
            f"{point.rate:g}",
            *(markdown.estimate(point.metric(name)) for name in METRICS),
            *(markdown.number(value) for value in point.best_possible()),
            str(len(point.records)),
        ]
        for point in selection_points(runs, plant=plant)
    ]
    return markdown.table(heads, lines)
