"""Figure 5 (and 15): Attr% on the joint effective region against its area, for every manipulation and method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rationales.evaluation.statistics import compare
from rationales.evaluation.table import Table
from rationales.experiments.ground_truth.experiment import Chosen, Sections, Study
from rationales.experiments.ground_truth.method_rows import MARC, MARCS, PAPER, PICTURES, Dimension, method_dimension
from rationales.experiments.ground_truth.reporting import plots
from rationales.experiments.ground_truth.reporting.paper_claims import (
    Claim,
    Verdict,
    cell,
    claim_list,
    judged,
    markdown,
    number,
)
from rationales.experiments.ground_truth.reporting.run_statistics import (
    BOTH,
    WITH,
    WITHOUT,
    Floats,
    mean_of,
    over,
    plain_mean,
)
from rationales.experiments.ground_truth.reporting.run_tables import Results, table
from rationales.experiments.ground_truth.runs import picture_run as run_pictures
from rationales.experiments.ground_truth.runs.networks import PICTURES as NETWORKS
from rationales.experiments.ground_truth.runs.run_spec import Plan

PLANTS = ("blur", "brightness", "hue", "noise", "watermark")
WATERMARK, SHAP, LIME = "watermark", "shap", "lime"
NEAR = 0.9  # an Attr% from which a plant counts as found
APART = 0.1  # a difference of this size counts as one
RECIPE = (
    "Attr% = Σ|score| on the joint effective region / Σ|score|; 1 is perfect, the region's area is chance. Methods "
    "explain the predicted class; with: pictures with the plant, without: those of the other class."
)
BASELINES = (
    "Replaced pixels become the three baselines that tell the model least about a picture; for LIME and KernelSHAP the "
    "mean colour; for SHAP, as in the paper, pictures of the test set."
)
BIRDS = (
    "The paper's bird photographs at 112 pixels instead of 224; plants scale with the picture. LIME replaces cells of "
    "a 14 x 14 grid, not super-pixels."
)
SIDES = {WITH: ("with the plant", plots.BLUE, "o"), WITHOUT: ("without it", plots.ORANGE, "x")}


def plans(chosen: Chosen, runs: int) -> list[Plan]:
    """Every manipulation and network; the first run of each comes first."""
    return [
        Plan(plant, network, run) for run in range(runs) for network in chosen["networks"] for plant in chosen["plants"]
    ]


def picture_table(results: Results) -> tuple[Table, tuple[str, ...]]:
    """Methods by Attr% with and without the plant; a value is the mean over a run's pictures."""
    metrics = ("attr-with", "attr-without", "attr")
    sides = dict(zip(metrics, (WITH, WITHOUT, BOTH), strict=True))
    records = results.good
    made = table(
        results,
        {key: results.title(key) for key in results.methods},
        [one.plan.title for one in records],
        metrics,
        lambda key, place, metric: mean_of(records[place], key, side=sides[metric]),
        recipe=RECIPE,
        remarks=(_area(results), BASELINES, BIRDS),
    )
    return made, metrics


def _area(results: Results) -> str:
    return f"The region covers {number(plain_mean([one.area for one in results.good]))} of a picture on average."


def sections(results: Results) -> Sections:
    """The claims, and the figures for each manipulation, and for each network where there are several."""
    found = [("The paper's claims", claim_list(claims(results)))]
    for side, (told, *_) in SIDES.items():
        found.append((f"Attr% on pictures {told}, by manipulation", by_plant(results, side)))
    if len(results.chosen["networks"]) > 1:
        found.append(("Attr% on pictures with the plant, by network", by_network(results)))
    return found


def by_network(results: Results) -> str:
    """Methods by networks, intervals over runs and pictures. Markdown."""
    there = {name: [one for one in results.good if one.plan.network == name] for name in results.chosen["networks"]}
    lines = [
        [results.title(key), *(cell(over(own, key, side=WITH)) for own in there.values())] for key in results.methods
    ]
    counts = ["runs", *(str(len(own)) for own in there.values())]
    return markdown(["method", *(NETWORKS[name].title for name in there)], [*lines, counts])


def by_plant(results: Results, side: str) -> str:
    """Methods by manipulations, intervals over runs and pictures. Markdown."""
    if not results.good:
        return ""
    heads = ["method", *results.plants, "all"]
    lines = [
        [results.title(key), *(cell(over(results.of(plant), key, side=side)) for plant in results.plants),
         cell(over(results.good, key, side=side))]
        for key in results.methods
    ]  # fmt: skip
    areas = ["area", *(number(plain_mean([one.area for one in results.of(plant)])) for plant in results.plants)]
    counts = ["runs", *(str(len(results.of(plant))) for plant in results.plants), str(len(results.good))]
    return markdown(heads, [*lines, [*areas, number(plain_mean([one.area for one in results.good]))], counts])


def excess(results: Results, plant: str, method: str, side: str = BOTH) -> float:
    """(Attr% - area) / (1 - area), the mean over runs: 0 is chance, 1 is perfect, whatever the area."""
    return plain_mean([(mean_of(one, method, side=side) - one.area) / (1 - one.area) for one in results.of(plant)])


def claims(results: Results) -> list[Claim]:
    """Section 5.1."""
    five, plants = results.having(PAPER), results.plants
    if not plants or not five:
        return []
    found = [_learned(results), _perfect(results, five), _equally(results, five), _best(results, five)]
    if SHAP in five:
        text = f"SHAP depends strongly on the manipulation (here: Attr% above chance differs by {APART:g})"
        spread = [excess(results, plant, SHAP) for plant in plants]
        figures = ", ".join(f"{plant} {number(own)}" for plant, own in zip(plants, spread, strict=True))
        found.append(judged("5.1", text, max(spread) - min(spread) >= APART if len(plants) > 1 else None, figures))
    if WATERMARK in plants:
        found.append(_presence(results, five))
    if MARC in results.methods:
        found.append(marc_claim(results, WITH))
    return found


def _learned(results: Results) -> Claim:
    wanted = results.chosen["plants"]
    tried = [own for one in results.records for own in one.attempts]
    good = sum(not own.why for own in tried)
    told = ", ".join(f"{plant} {len(results.of(plant))} runs" for plant in wanted)
    figures = f"{good} of {len(tried)} trainings above 95 %, in the paper 70 %; {told}"
    text = "Models learn every kind of manipulation to an accuracy above 95 %"
    return judged("5.1", text, all(results.of(plant) for plant in wanted), figures)


def _perfect(results: Results, five: Sequence[str]) -> Claim:
    verdicts = []
    for reading, keys in (("the paper's five", five), ("all methods here", results.methods)):
        worst = {
            key: min(over(results.of(plant), key, side=side).mean for plant in results.plants for side in SIDES)
            for key in keys
        }
        best = max(worst, key=lambda key: worst[key])
        figures = f"the best worst case is {results.title(best)} with {number(worst[best])}"
        verdicts.append(Verdict(worst[best] < NEAR, figures, reading))
    text = f"No method consistently reaches Attr% ≈ 1 (here: {NEAR:g} for every manipulation, with and without it)"
    return Claim("5.1", text, tuple(verdicts))


def _equally(results: Results, five: Sequence[str]) -> Claim:
    spread = {key: [excess(results, plant, key) for plant in results.plants] for key in five}
    wide = {key: max(own) - min(own) for key, own in spread.items()}
    figures = ", ".join(f"{results.title(key)} {number(own)}" for key, own in wide.items())
    text = (
        "Not all manipulations are detected equally well (here: for each of the five, Attr% above chance, "
        f"(Attr% − area) / (1 − area), differs by {APART:g})"
    )
    holds = all(own >= APART for own in wide.values()) if len(results.plants) > 1 else None
    return judged("5.1", text, holds, figures)


def _best(results: Results, five: Sequence[str]) -> Claim:
    means = {key: over(results.good, key).mean for key in five}
    figures = ", ".join(f"{results.title(key)} {number(own)}" for key, own in means.items())
    figures += f" at an area of {number(plain_mean([one.area for one in results.good]))}"
    text = "SHAP is the best of the five (in the paper 69 % at an area of 40 %)"
    holds = means[SHAP] >= max(means.values()) if SHAP in means and len(means) > 1 else None
    return judged("5.1", text, holds, figures)


def _presence(results: Results, five: Sequence[str]) -> Claim:
    own = results.of(WATERMARK)
    gap = {key: over(own, key, side=WITH).mean - over(own, key, side=WITHOUT).mean for key in five}
    figures = ", ".join(f"{results.title(key)} {number(value)}" for key, value in gap.items())
    text = "The presence of a watermark is better detected than its absence (here: Attr% with minus without)"
    verdicts = [Verdict(2 * sum(value > 0 for value in gap.values()) > len(gap), figures, "most of the five")]
    if LIME in gap:
        verdicts.append(Verdict(gap[LIME] > 0, number(gap[LIME]), "LIME, which hides more easily than it constructs"))
    return Claim("5.1", text, tuple(verdicts))


def marc_claim(results: Results, side: str) -> Claim:
    """Where MaRC stands: against every method of the paper, over runs."""
    verdicts = []
    for own in results.having(MARCS):
        means = {key: over(results.good, key, side=side).mean for key in results.having(PAPER)}
        ours = over(results.good, own, side=side).mean
        best = max(means, key=lambda key: means[key])
        test = compare(_means(results, own, side), _means(results, best, side))
        rival = f"best of the paper's {results.title(best)} {number(means[best])}"
        verdicts.append(
            Verdict(ours > means[best], f"{number(ours)}, {rival}, p = {number(test.p)}", results.title(own))
        )
    text = f"MaRC's Attr% on pictures {SIDES[side][0]} is above that of every method of the paper"
    return Claim("", text, tuple(verdicts))


def _means(results: Results, method: str, side: str) -> Floats:
    return np.array([mean_of(one, method, side=side) for one in results.good])


def draw(results: Results, folder: Path) -> list[Path]:
    """Attr% over area: a point for every run and class, as in Figure 15."""

    def panel(axes: Any, method: str, plant: str) -> None:
        axes.plot([0, 1], [1, 1], color=plots.GREEN, linewidth=1)
        axes.plot([0, 1], [0, 1], color=plots.RED, linewidth=1)
        for side, (_, colour, mark) in SIDES.items():
            points = [(one.area, mean_of(one, method, side=side)) for one in results.of(plant)]
            axes.plot(*zip(*points, strict=True), mark, color=colour, markersize=4, fillstyle="none")

    if not results.good:
        return []
    made = plots.grid(
        folder / "attribution-by-area.png",
        [(key, results.title(key)) for key in results.methods],
        [(plant, plant) for plant in results.plants],
        panel,
        x="share of the picture that the region covers",
        y="Attr%",
        caption="circles: with the plant, crosses: without; green: perfect, red: chance",
    )
    return [made]


DIMENSIONS = (
    Dimension("plants", PLANTS, PLANTS),
    Dimension("networks", tuple(NETWORKS), ("resnet34",)),
    method_dimension(PICTURES),
)
STUDY = Study(
    name="gt-fig5",
    title="Ground truth, Figure 5: attribution on planted pictures against the area of the plant",
    dimensions=DIMENSIONS,
    specs=PICTURES,
    run=run_pictures.run,
    unfinished=run_pictures.unfinished,
    plans=plans,
    table=picture_table,
    sections=sections,
    draw=draw,
    limit=60,
)
