"""Scores and selections on articles that determine the class (correlating) and on those that do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rationales.evaluation.tables.statistics import Estimate
from rationales.experiments.ground_truth.method_rows import INHERENT
from rationales.experiments.ground_truth.reporting.run_statistics import (
    Floats,
    finite_mean,
    input_values,
    nested_estimate,
    run_mean,
)
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns
from rationales.experiments.ground_truth.runs import review_passages
from rationales.experiments.ground_truth.runs.networks import TEXT_NETWORKS
from rationales.experiments.ground_truth.runs.run_record import RunRecord

ARTICLES, CN, NC = "articles", "cn", "nc"
PLANTS = (ARTICLES, CN, NC)
SELECTED_SHARES = (0.04, 0.08)  # shares of the words that are selected: about as many as there are correlating articles
WORD_KINDS = CORRELATING, NON_CORRELATING, OTHER_WORDS = "correlating", "non-correlating", "other"
MEASURES = {CORRELATING: "region", NON_CORRELATING: "distractors"}  # metric -> measure of a run


def selected_share(run: RunRecord) -> float:
    """The share of the words that is selected in a run."""
    return SELECTED_SHARES[1] if run.spec.plant == ARTICLES else SELECTED_SHARES[0]


def selection_metric(runs: Sequence[RunRecord], method: str, metric: str, selection: str | None = None) -> Estimate:
    """A metric of selected words, pooled over all texts: precision, recall, selected, lured or articles.

    `selection`: the name of the selection (see `method_measures`); None: the share that belongs to the plant.
    """
    counts = (_selection_counts(run, method, metric, selection or f"{selected_share(run):g}") for run in runs)
    numerators, denominators = zip(*counts, strict=True)
    return nested_estimate(numerators, denominators)


def _selection_counts(run: RunRecord, method: str, metric: str, selection: str) -> tuple[Floats, Floats]:
    """(inputs,) each: numerator and denominator of the metric."""
    measures = run.measures.get(method)
    numerator = input_values(run, measures, f"{'lured' if metric == 'lured' else 'hits'}@{selection}")
    denominator = input_values(run, measures, f"had@{selection}")
    if metric == "recall":
        denominator = np.where(np.isnan(numerator), np.nan, np.array(run.region_sizes, dtype=np.float64))
    elif metric == "selected":
        numerator, denominator = denominator, np.array(run.unit_counts, dtype=np.float64)
    elif metric == "articles":
        numerator = numerator + input_values(run, measures, f"lured@{selection}")
    return numerator, np.where(denominator > 0, denominator, np.nan)


def run_metric(run: RunRecord, method: str, metric: str) -> float:
    """A metric of one run: Attr% on a kind of words, or a metric of the selected words."""
    if metric in MEASURES:
        return run_mean(run, method, MEASURES[metric])
    if metric == OTHER_WORDS:
        return 1 - float(np.nansum([run_mean(run, method, measure) for measure in MEASURES.values()]))
    return selection_metric([run], method, metric).mean


def method_titles(runs: ExperimentRuns) -> dict[str, str]:
    """Method -> title; the inherent scores of these networks are their attention."""
    return {key: "Attention" if key == INHERENT else runs.method_title(key) for key in runs.methods}


def data_remarks(runs: ExperimentRuns) -> tuple[str, ...]:
    """Remarks on the texts and how they were used."""
    folder = runs.settings.data
    descriptions = [
        review_passages.describe_texts(name, review_passages.read_texts(name, folder))
        for name in runs.chosen_rows["data"]
    ]
    left_out = "Texts without an article where the plant needs one are left out."
    networks = runs.chosen_rows.get("networks", ())
    pretrained = [name for name in networks if TEXT_NETWORKS[name].pretrained_width]
    embeddings = [_pretrained_remark(name) for name in pretrained]
    if len(pretrained) < len(networks):
        embeddings.append(f"{'Other word' if pretrained else 'Word'} embeddings are learned from scratch.")
    return (*descriptions, f"{left_out} Replaced words become padding.", *embeddings)


def _pretrained_remark(name: str) -> str:
    network = TEXT_NETWORKS[name]
    use = "stay as they are" if network.frozen_vectors else "are trained further"
    return f"{name}: word embeddings are those of MiniLM, reduced to {network.pretrained_width} dimensions, and {use}."


def word_share(runs: Sequence[RunRecord], kind: str) -> float:
    """Mean share of the words that are correlating (or non-correlating) articles, the Attr% of random scores.

    Runs without such words are left out; NaN if no run has any.
    """
    shares = [
        np.sum(run.region_sizes if kind == CORRELATING else run.distractor_sizes) / np.sum(run.unit_counts)
        for run in runs
        if run.unit_counts
    ]
    return finite_mean([share for share in shares if share > 0])


def std_over_runs(runs: Sequence[RunRecord], method: str) -> float:
    """Standard deviation over runs of Attr% on correlating articles; NaN with fewer than two runs."""
    values = [run_mean(run, method) for run in runs]
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
