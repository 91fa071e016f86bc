"""Figure 8 (and 18): Attr% against r, the share of labels that stay, with the range that Shapley values allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rationales.evaluation.table import Table
from rationales.experiments.ground_truth import fig5, plots
from rationales.experiments.ground_truth.claims import Claim, Verdict, cell, judged, markdown, number
from rationales.experiments.ground_truth.plan import Plan
from rationales.experiments.ground_truth.record import Record
from rationales.experiments.ground_truth.results import Results
from rationales.experiments.ground_truth.rows import MARC, PAPER, Dimension
from rationales.experiments.ground_truth.run_pictures import distinct
from rationales.experiments.ground_truth.study import Chosen, Sections
from rationales.experiments.ground_truth.summary import BOTH, WITH, WITHOUT, mean_of, over, plain_mean
from rationales.experiments.ground_truth.trends import (
    CLEAR,
    Line,
    draw_lines,
    grouped,
    over_lines,
    point_section,
    study_along,
    trend_sections,
    trend_table,
)
from rationales.groundtruth.theory import shapley_bounds

SHAP, WATERMARK, GRADIENT = fig5.SHAP, fig5.WATERMARK, "gradient"
SHARES = tuple(f"r-{r:g}" for r in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0))
SAME = 0.05  # means that differ by less are no clear difference
PAIRS = (
    "Every other run takes two kinds of birds that are easily told apart (dashed), the others two that are confused. "
    "With r = 1 the original features tell the label as well, and no test shows what a model relies on."
)


def plans(chosen: Chosen, runs: int) -> list[Plan]:
    """Every r for the same plant in the same place."""
    shares = [float(name.rpartition("-")[2]) for name in chosen["shares"]]
    return [replace(one, r=r) for one in fig5.plans(chosen, runs) for r in shares]


def lines(results: Results) -> list[Line]:
    """A line for every group of runs with the same plant, place and kinds of birds."""
    return grouped(results, lambda one: one.plan.r, lambda one: distinct(one.plan, results.setting))


def band(record: Record) -> float:
    """The least Attr% that is consistent with Shapley values (Eq. 3)."""
    return float(shapley_bounds(record.bound, record.last.accuracy)[0])


def inside(records: Sequence[Record], method: str, side: str) -> float:
    """The share of runs whose Attr% is in the range."""
    values = [(mean_of(one, method, side=side), band(one)) for one in records]
    known = [float(own >= least) for own, least in values if not np.isnan(own)]
    return plain_mean(known)


def table(results: Results) -> tuple[Table, tuple[str, ...]]:
    """Methods by the trend of Attr% with r."""
    return trend_table(results, lines(results), "r", (PAIRS, fig5.BASELINES, fig5.BIRDS))


def sections(results: Results) -> Sections:
    """The claims, the trends, Attr% at every r, and how often it is in the range of Shapley values."""
    own = lines(results)
    return [
        *trend_sections(results, own, claims(results), "r"),
        ("Attr% at every r, pictures with the plant", point_section(results, own, WITH, "r")),
        ("Share of runs whose Attr% Shapley values allow (Eq. 3)", allowed(results)),
    ]


def allowed(results: Results) -> str:
    """Methods by manipulations, with and without the plant. Markdown."""
    heads = ["method", *(f"{plant}, {side}" for plant in results.plants for side in (WITH, WITHOUT))]
    rows = [
        [results.title(key)]
        + [number(inside(results.of(plant), key, side)) for plant in results.plants for side in (WITH, WITHOUT)]
        for key in results.methods
    ]
    return markdown(heads, rows)


def claims(results: Results) -> list[Claim]:
    """Section 5.4."""
    own, five = lines(results), results.having(PAPER)
    if not results.records:
        return []
    failed = sum(bool(one.failed) for one in results.records)
    told = f"{len(results.records) - failed} of {len(results.records)} runs"
    found = [judged("5.4", "All models reach an accuracy above 95 %", not failed, told)]
    marked = [line for line in own if line.plant == WATERMARK]
    if SHAP in five and marked:
        one = over_lines(marked, SHAP)
        text = f"With a watermark, SHAP's Attr% falls as r rises (here: mean trend below −{CLEAR:g})"
        found.append(judged("5.4", text, one.mean <= -CLEAR, cell(one)))
    if GRADIENT in five and marked:
        shares = {side: inside(results.of(WATERMARK), GRADIENT, side) for side in (WITH, WITHOUT)}
        text = (
            "Gradient tracks the predicted range for a watermark, but only on pictures with it (here: most runs in it)"
        )
        figures = f"with {number(shares[WITH])}, without {number(shares[WITHOUT])} of the runs"
        found.append(judged("5.4", text, shares[WITH] > 0.5 >= shares[WITHOUT], figures))
    rest = [plant for plant in results.plants if plant != WATERMARK]
    if SHAP in five and rest and own:
        means = {plant: over_lines(own, SHAP, plant=plant) for plant in rest}
        text = f"Other manipulations do not show this, even for SHAP (here: mean trend above −{CLEAR:g})"
        figures = ", ".join(f"{plant} {cell(one)}" for plant, one in means.items())
        found.append(judged("5.4", text, all(one.mean > -CLEAR for one in means.values() if one.n), figures))
    if five:
        outside = [key for key in five if inside(results.good, key, BOTH) <= 0.5]
        figures = ", ".join(f"{results.title(key)} {number(inside(results.good, key, BOTH))}" for key in five)
        text = "Many saliency maps are inconsistent with the Shapley axioms (here: half of the five in most runs)"
        found.append(judged("5.4", text, 2 * len(outside) >= len(five), f"share of runs in the range: {figures}"))
    found += _kinds(results, five)
    if MARC in results.methods and own:
        verdicts = [
            Verdict(one.mean <= -CLEAR, cell(one), f"{side} the plant")
            for side in (WITH, WITHOUT)
            if (one := over_lines(own, MARC, side)).n
        ]
        verdicts.append(
            Verdict(
                (share := inside(results.good, MARC, WITH)) > 0.5,
                f"{number(share)} of the runs",
                "in the Shapley range",
            )
        )
        found.append(Claim("", f"MaRC's Attr% falls as r rises (here: mean trend below −{CLEAR:g})", tuple(verdicts)))
    return found


def _kinds(results: Results, five: Sequence[str]) -> list[Claim]:
    groups = {
        far: [one for one in results.good if distinct(one.plan, results.setting) == far and one.plan.r > 0.5]
        for far in (False, True)
    }
    if not all(groups.values()) or not five:
        return []
    gaps = {key: over(groups[True], key).mean - over(groups[False], key).mean for key in five}
    figures = ", ".join(f"{results.title(key)} {number(gap)}" for key, gap in gaps.items())
    text = (
        "Similar and distinct kinds of birds make no clear difference (here: mean Attr% at r above 0.5 differs by less "
        f"than {SAME:g} for most of the five)"
    )
    small = sum(abs(gap) < SAME for gap in gaps.values())
    return [judged("5.4", text, 2 * small > len(gaps), f"distinct minus similar: {figures}")]


def draw(results: Results, folder: Path) -> list[Path]:
    """Attr% over r; the green area is what Shapley values allow an accurate model."""

    def shade(axes: Any) -> None:
        r = np.linspace(0.5, 1, 11)
        axes.fill_between(r, shapley_bounds(r)[0], 1, color=plots.GREEN, alpha=0.12, linewidth=0)

    return draw_lines(
        results,
        lines(results),
        folder / "attribution-by-r.png",
        x="r, the share of labels that stay",
        xlim=(0.48, 1.02),
        caption="blue: with the plant, orange: without; dashed: distinct kinds; green: allowed by Eq. 3 at p = 1",
        behind=shade,
    )


STUDY = study_along(
    Dimension("shares", SHARES, SHARES),
    name="gt-fig8",
    title="Ground truth, Figure 8: attribution on planted pictures and the original features",
    plans=plans,
    table=table,
    sections=sections,
    draw=draw,
    limit=40,
    more={"fixed": True, "distinct": True},
)
