"""Figure 5 (and 15): Attr% on the joint effective region against its area, for every manipulation and method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.statistics import compare
from rationales.evaluation.tables.table import Table
from rationales.experiments.claims import ClaimVerdict, PaperClaim, judge_claim
from rationales.experiments.ground_truth.experiment import ChosenRows, GroundTruthExperiment, Sections
from rationales.experiments.ground_truth.method_rows import MARC, MARC_METHODS, PAPER_METHODS, PICTURE_METHODS
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.reporting.run_statistics import Floats, finite_mean, pooled_mean, run_mean
from rationales.experiments.ground_truth.reporting.run_tables import ExperimentRuns, results_table
from rationales.experiments.ground_truth.row_choices import Dimension, method_dimension
from rationales.experiments.ground_truth.runs import picture_run
from rationales.experiments.ground_truth.runs.networks import PICTURE_NETWORKS
from rationales.experiments.ground_truth.runs.run_record import BOTH, WITH, WITHOUT, RunRecord
from rationales.experiments.ground_truth.runs.run_spec import RunSpec

PLANTS = ("blur", "brightness", "hue", "noise", "watermark")  # those of the paper
NEW_PLANTS = ("colour-cast", "jpeg-blocks")  # not in the paper, and never looked at while anything was tuned
WATERMARK, SHAP, LIME = "watermark", "shap", "lime"
NEAR_PERFECT = 0.9  # an Attr% from which a plant counts as detected
CLEAR_DIFFERENCE = 0.1  # a difference of Attr% from which two values count as different
RECIPE = (
    "Attr% = Σ|score| on the joint effective region / Σ|score|; 1 is perfect, the region's area is chance. Methods "
    "explain the predicted class; with: pictures with the plant, without: those of the other class."
)
BASELINES = (
    "Replaced pixels become the three baselines that tell the model least about a picture; for LIME and KernelSHAP the "
    "mean colour; for SHAP, as in the paper, the pictures of the test set, at most 200."
)
BIRDS = "The paper's bird photographs at 112 pixels instead of 224; plants scale with the picture."
SIDES = {WITH: ("with the plant", plots.BLUE, "o"), WITHOUT: ("without it", plots.ORANGE, "x")}


def run_specs(chosen_rows: ChosenRows, runs: int) -> list[RunSpec]:
    """Every manipulation and network; the first run of each comes first."""
    return [
        RunSpec(plant, network, run)
        for run in range(runs)
        for network in chosen_rows["networks"]
        for plant in chosen_rows["plants"]
    ]


def picture_table(runs: ExperimentRuns) -> tuple[Table, tuple[str, ...]]:
    """Methods by Attr% with and without the plant, with the mean of a run's pictures as one value."""
    metrics = ("attr-with", "attr-without", "attr")
    sides = dict(zip(metrics, (WITH, WITHOUT, BOTH), strict=True))
    records = runs.successful
    area = f"The region covers {markdown.number(mean_area(records))} of a picture on average."
    table = results_table(
        runs,
        runs.method_titles,
        [run.spec.title for run in records],
        metrics,
        lambda key, i, metric: run_mean(records[i], key, side=sides[metric]),
        recipe=RECIPE,
        remarks=(area, BASELINES, BIRDS),
    )
    return table, metrics


def mean_area(records: Sequence[RunRecord]) -> float:
    """Mean share of a picture that the region covers."""
    return finite_mean([run.area for run in records])


def sections(runs: ExperimentRuns) -> Sections:
    """The results for each manipulation, and for each network if there are several."""
    titled_texts = [
        (f"Attr% on pictures {description}, by manipulation", by_plant(runs, side))
        for side, (description, *_) in SIDES.items()
    ]
    if len(runs.chosen_rows["networks"]) > 1:
        titled_texts.append(("Attr% on pictures with the plant, by network", by_network(runs)))
    return titled_texts


def by_network(runs: ExperimentRuns) -> str:
    """Methods by networks, with intervals over runs and pictures. Markdown."""
    networks = runs.chosen_rows["networks"]
    groups = {
        PICTURE_NETWORKS[name].title: [run for run in runs.successful if run.spec.network == name] for name in networks
    }
    return by_group(runs, groups, WITH)


def by_plant(runs: ExperimentRuns, side: str) -> str:
    """Methods by manipulations, with intervals over runs and pictures. Markdown."""
    if not runs.successful:
        return ""
    groups = {**{plant: runs.with_plant(plant) for plant in runs.plants}, "all": runs.successful}
    return by_group(runs, groups, side, ["area", *(markdown.number(mean_area(group)) for group in groups.values())])


def by_group(runs: ExperimentRuns, groups: Mapping[str, list[RunRecord]], side: str, *more_lines: list[str]) -> str:
    """Methods by groups of runs, with intervals over runs and pictures. Markdown."""
    lines = [
        [title, *(markdown.estimate(pooled_mean(group, key, side=side)) for group in groups.values())]
        for key, title in runs.method_titles.items()
    ]
    counts = ["runs", *(str(len(group)) for group in groups.values())]
    return markdown.table(["method", *groups], [*lines, *more_lines, counts])


def excess_over_chance(runs: ExperimentRuns, plant: str, method: str, side: str = BOTH) -> float:
    """Mean over runs of (Attr% - area) / (1 - area): 0 is chance and 1 is perfect for any area."""
    group = runs.with_plant(plant)
    return finite_mean([(run_mean(run, method, side=side) - run.area) / (1 - run.area) for run in group])


def claims(runs: ExperimentRuns) -> list[PaperClaim]:
    """The claims of section 5.1."""
    paper_methods, plants = runs.available(PAPER_METHODS), runs.plants
    if not plants or not paper_methods:
        return []
    claim_list = [
        learned_claim(runs),
        _imperfect_claim(runs, paper_methods),
        _unequal_claim(runs, paper_methods),
        _best_method_claim(runs, paper_methods),
    ]
    if SHAP in paper_methods:
        text = f"SHAP depends strongly on the manipulation (here: Attr% above chance differs by {CLEAR_DIFFERENCE:g})"
        excess = [excess_over_chance(runs, plant, SHAP) for plant in plants]
        figures = ", ".join(f"{plant} {markdown.number(value)}" for plant, value in zip(plants, excess, strict=True))
        holds = max(excess) - min(excess) >= CLEAR_DIFFERENCE if len(plants) > 1 else None
        claim_list.append(judge_claim("5.1", text, holds, figures))
    if WATERMARK in plants:
        claim_list.append(_presence_claim(runs, paper_methods))
    if MARC in runs.methods:
        claim_list.append(marc_claim(runs, WITH))
    return claim_list


def learned_claim(runs: ExperimentRuns) -> PaperClaim:
    """Whether at least one model of every plant is accurate enough."""
    plants = runs.chosen_rows["plants"]
    attempts = [attempt for run in runs.records for attempt in run.attempts]
    accepted = sum(not attempt.rejection for attempt in attempts)
    counts = ", ".join(f"{plant} {len(runs.with_plant(plant))} runs" for plant in plants)
    figures = f"{accepted} of {len(attempts)} trainings above 95 %, in the paper 70 %; {counts}"
    text = "Models learn every kind of manipulation to an accuracy above 95 %"
    return judge_claim("5.1", text, all(runs.with_plant(plant) for plant in plants), figures)


def _imperfect_claim(runs: ExperimentRuns, paper_methods: Sequence[str]) -> PaperClaim:
    verdicts, groups = [], [(runs.with_plant(plant), side) for plant in runs.plants for side in SIDES]
    for reading, keys in (("the paper's five", paper_methods), ("all methods here", runs.methods)):
        worst = {key: min(pooled_mean(group, key, side=side).mean for group, side in groups) for key in keys}
        best = max(worst, key=lambda key: worst[key])
        figures = f"the best worst case is {runs.method_title(best)} with {markdown.number(worst[best])}"
        verdicts.append(ClaimVerdict(worst[best] < NEAR_PERFECT, figures, reading))
    criterion = f"{NEAR_PERFECT:g} for every manipulation, with and without it"
    return PaperClaim("5.1", f"No method consistently reaches Attr% ≈ 1 (here: {criterion})", tuple(verdicts))


def _unequal_claim(runs: ExperimentRuns, paper_methods: Sequence[str]) -> PaperClaim:
    excess = {key: [excess_over_chance(runs, plant, key) for plant in runs.plants] for key in paper_methods}
    ranges = {key: max(values) - min(values) for key, values in excess.items()}
    text = (
        "Not all manipulations are detected equally well (here: for each of the five, Attr% above chance, "
        f"(Attr% − area) / (1 − area), differs by {CLEAR_DIFFERENCE:g})"
    )
    holds = all(value >= CLEAR_DIFFERENCE for value in ranges.values()) if len(runs.plants) > 1 else None
    return judge_claim("5.1", text, holds, _by_method(runs, ranges))


def _best_method_claim(runs: ExperimentRuns, paper_methods: Sequence[str]) -> PaperClaim:
    means = {key: pooled_mean(runs.successful, key).mean for key in paper_methods}
    figures = f"{_by_method(runs, means)} at an area of {markdown.number(mean_area(runs.successful))}"
    text = "SHAP is the best of the five (in the paper 69 % at an area of 40 %)"
    holds = means[SHAP] >= max(means.values()) if SHAP in means and len(means) > 1 else None
    p_values = [
        compare(run_means(runs, SHAP, BOTH), run_means(runs, key, BOTH)).p for key in means if holds and key != SHAP
    ]
    return judge_claim("5.1", text, holds, figures, max(p_values, default=math.nan))


def _presence_claim(runs: ExperimentRuns, paper_methods: Sequence[str]) -> PaperClaim:
    group = runs.with_plant(WATERMARK)
    gaps = {
        key: pooled_mean(group, key, side=WITH).mean - pooled_mean(group, key, side=WITHOUT).mean
        for key in paper_methods
    }
    text = "The presence of a watermark is better detected than its absence (here: Attr% with minus without)"
    holds_for_most = 2 * sum(gap > 0 for gap in gaps.values()) > len(gaps)
    verdicts = [ClaimVerdict(holds_for_most, _by_method(runs, gaps), "most of the five")]
    if LIME in gaps:
        reading = "LIME, which hides more easily than it constructs"
        with_it, without_it = (np.array([run_mean(run, LIME, side=side) for run in group]) for side in (WITH, WITHOUT))
        p = compare(with_it, without_it).p
        verdicts.append(ClaimVerdict(gaps[LIME] > 0, markdown.number(gaps[LIME]), reading, p))
    return PaperClaim("5.1", text, tuple(verdicts))


def _by_method(runs: ExperimentRuns, values: dict[str, float]) -> str:
    return ", ".join(f"{runs.method_title(key)} {markdown.number(value)}" for key, value in values.items())


def marc_claim(runs: ExperimentRuns, side: str) -> PaperClaim:
    """MaRC in all variants against the best method of the paper, tested over runs."""
    verdicts = []
    for variant in runs.available(MARC_METHODS):
        means = {key: pooled_mean(runs.successful, key, side=side).mean for key in runs.available(PAPER_METHODS)}
        marc = pooled_mean(runs.successful, variant, side=side).mean
        best = max(means, key=lambda key: means[key])
        test = compare(run_means(runs, variant, side), run_means(runs, best, side))
        rival = f"best of the paper's {runs.method_title(best)} {markdown.number(means[best])}"
        figures = f"{markdown.number(marc)}, {rival}"
        verdicts.append(ClaimVerdict(marc > means[best], figures, runs.method_title(variant), test.p))
    text = f"MaRC's Attr% on pictures {SIDES[side][0]} is above that of every method of the paper"
    return PaperClaim("", text, tuple(verdicts))


def run_means(runs: ExperimentRuns, method: str, side: str) -> Floats:
    """(runs,): mean Attr% of a method on the pictures of each run."""
    return np.array([run_mean(run, method, side=side) for run in runs.successful])


def draw(runs: ExperimentRuns, folder: Path) -> list[Path]:
    """Write Attr% over area: one point per run and class, as in Figure 15."""

    def panel(axes: Any, method: str, plant: str) -> None:
        axes.plot([0, 1], [1, 1], color=plots.GREEN, linewidth=1)
        axes.plot([0, 1], [0, 1], color=plots.RED, linewidth=1)
        for side, (_, colour, mark) in SIDES.items():
            points = [(run.area, run_mean(run, method, side=side)) for run in runs.with_plant(plant)]
            axes.plot(*zip(*points, strict=True), mark, color=colour, markersize=4, fillstyle="none")

    if not runs.successful:
        return []
    figure = plots.grid(
        folder / "attribution-by-area.png",
        runs.method_titles,
        runs.plants,
        panel,
        x="share of the picture that the region covers",
        y="Attr%",
        caption="circles: with the plant, crosses: without; green: perfect, red: chance",
    )
    return [figure]


DIMENSIONS = (
    Dimension("plants", (*PLANTS, *NEW_PLANTS), PLANTS),
    Dimension("networks", tuple(PICTURE_NETWORKS), ("resnet34",)),
    method_dimension(PICTURE_METHODS),
)
EXPERIMENT = GroundTruthExperiment(
    name="gt-fig5",
    title="Ground truth, Figure 5: attribution on planted pictures against the area of the plant",
    dimensions=DIMENSIONS,
    specs=PICTURE_METHODS,
    run=picture_run.run,
    unfinished=picture_run.unfinished,
    run_specs=run_specs,
    table=picture_table,
    claims=claims,
    sections=sections,
    draw=draw,
    limit=60,
)
