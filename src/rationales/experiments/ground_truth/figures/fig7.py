"""Figure 7 (and 17): Attr% against the visibility of the manipulation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rationales.evaluation.table import Table
from rationales.experiments.ground_truth.experiment import Chosen, Sections
from rationales.experiments.ground_truth.figures import fig5
from rationales.experiments.ground_truth.figures.trend_lines import (
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
from rationales.experiments.ground_truth.method_rows import MARC, PAPER, Dimension
from rationales.experiments.ground_truth.reporting.paper_claims import Claim, Verdict, cell, judged, number
from rationales.experiments.ground_truth.reporting.run_statistics import WITH, over
from rationales.experiments.ground_truth.reporting.run_tables import Results
from rationales.experiments.ground_truth.runs.run_spec import Plan

SHAP, WATERMARK = fig5.SHAP, fig5.WATERMARK
LEVELS = tuple(f"visibility-{level}" for level in range(1, 6))


def plans(chosen: Chosen, runs: int) -> list[Plan]:
    """Every level of visibility of the same plant in the same place; all of a group before the next."""
    levels = [int(name.rpartition("-")[2]) for name in chosen["levels"]]
    return [replace(one, level=level) for one in fig5.plans(chosen, runs) for level in levels]


def lines(results: Results) -> list[Line]:
    """A line for every group of runs with the same plant in the same place."""
    return grouped(results, lambda one: float(one.plan.level), lambda _: False)


def table(results: Results) -> tuple[Table, tuple[str, ...]]:
    """Methods by the trend of Attr% with the visibility."""
    return trend_table(results, lines(results), "the visibility, levels 1 to 5", (fig5.BASELINES, fig5.BIRDS))


def sections(results: Results) -> Sections:
    """The claims, the trends for each manipulation, and Attr% at every level."""
    own = lines(results)
    return [
        *trend_sections(results, own, claims(results), "visibility"),
        ("Attr% at every level, pictures with the plant", point_section(results, own, WITH, "visibility")),
    ]


def claims(results: Results) -> list[Claim]:
    """Section 5.3."""
    own, five = lines(results), results.having(PAPER)
    pairs = {
        (key, plant): one for key in five for plant in results.plants if (one := over_lines(own, key, plant=plant)).n
    }
    found = []
    if (SHAP, WATERMARK) in pairs:
        told = pairs[SHAP, WATERMARK]
        text = f"SHAP's Attr% on a watermark rises with its visibility (here: mean trend of {CLEAR:g})"
        found.append(judged("5.3", text, told.mean >= CLEAR, cell(told)))
    others = {pair: one for pair, one in pairs.items() if pair != (SHAP, WATERMARK)}
    if others:
        clear = [pair for pair, one in others.items() if one.mean >= CLEAR and not one.low <= 0]
        text = (
            f"Other methods and manipulations show no consistent increase (here: mean trend of {CLEAR:g}, its interval "
            "above 0, for fewer than half)"
        )
        told_ = ", ".join(f"{results.title(key)} with {plant}" for key, plant in clear)
        figures = f"{len(clear)} of {len(others)} increase{': ' if clear else ''}{told_}"
        found.append(judged("5.3", text, 2 * len(clear) < len(others), figures))
    faint = [one for one in results.good if one.plan.level == 1]
    if faint and five:
        verdicts = []
        for reading, keys in (("the paper's five", five), ("all methods here", results.methods)):
            means = {key: over(faint, key, side=WITH).mean for key in keys}
            best = max(means, key=lambda key: means[key])
            figures = f"best: {results.title(best)} {number(means[best])} in {len(faint)} runs"
            verdicts.append(Verdict(means[best] < fig5.NEAR, figures, reading))
        text = (
            f"No method finds the least visible manipulations (here: Attr% of {fig5.NEAR:g} at level 1, with the plant)"
        )
        found.append(Claim("5.3", text, tuple(verdicts)))
    if MARC in results.methods and own:
        told = over_lines(own, MARC, WITH)
        text = f"MaRC does not depend on visibility (here: mean trend below {CLEAR:g} with the plant)"
        found.append(judged("", text, abs(told.mean) < CLEAR, cell(told)))
    return found


def draw(results: Results, folder: Path) -> list[Path]:
    """Attr% over visibility, a line for every group."""
    return draw_lines(
        results,
        lines(results),
        folder / "attribution-by-visibility.png",
        x="visibility",
        xlim=(0.5, 5.5),
        caption="blue: pictures with the plant, orange: without",
    )


STUDY = study_along(
    Dimension("levels", LEVELS, LEVELS),
    name="gt-fig7",
    title="Ground truth, Figure 7: attribution on planted pictures and the visibility of the plant",
    plans=plans,
    table=table,
    sections=sections,
    draw=draw,
    limit=40,
    more={"fixed": True},
)
