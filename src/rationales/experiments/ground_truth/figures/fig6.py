"""Figure 6 (and 16): Attr% while the model learns, against its accuracy."""

from __future__ import annotations

from pathlib import Path

from rationales.evaluation.table import Table
from rationales.experiments.ground_truth.experiment import Sections
from rationales.experiments.ground_truth.figures import fig5
from rationales.experiments.ground_truth.figures.trend_lines import (
    CLEAR,
    Line,
    draw_lines,
    over_lines,
    study_along,
    trend_sections,
    trend_table,
)
from rationales.experiments.ground_truth.method_rows import MARC, PAPER
from rationales.experiments.ground_truth.reporting.paper_claims import Claim, Verdict, cell, judged
from rationales.experiments.ground_truth.reporting.run_statistics import WITH, WITHOUT, mean_of, plain_mean, values_of
from rationales.experiments.ground_truth.reporting.run_tables import Results
from rationales.experiments.ground_truth.runs.run_record import Record
from rationales.experiments.ground_truth.runs.training_run import STEPS

SHAP, WATERMARK = fig5.SHAP, fig5.WATERMARK


def lines(results: Results) -> list[Line]:
    """A line for every run: Attr% at each accuracy on the way, and at the end."""
    return [_line(one) for one in results.good if one.stages]


def _line(record: Record) -> Line:
    places = (*(stage.accuracy for stage in record.stages), record.last.accuracy)

    def y(method: str, side: str) -> tuple[float, ...]:
        on_the_way = [plain_mean(values_of(record, stage.told.get(method), side=side)) for stage in record.stages]
        return (*on_the_way, mean_of(record, method, side=side))

    return Line(record.plan.plant, record.plan.title, places, y)


def table(results: Results) -> tuple[Table, tuple[str, ...]]:
    """Methods by the trend of Attr% with the accuracy."""
    steps = ", ".join(f"{100 * one:g} %" for one in STEPS)
    asked = f"Methods are asked after the first quarter of an epoch, whenever the accuracy first exceeds {steps}, and "
    return trend_table(
        results, lines(results), "the test accuracy", (f"{asked}at the end.", fig5.BASELINES, fig5.BIRDS)
    )


def sections(results: Results) -> Sections:
    """The claims, and the trends for each manipulation."""
    return trend_sections(results, lines(results), claims(results), "the accuracy")


def claims(results: Results) -> list[Claim]:
    """Section 5.2."""
    own, five = lines(results), results.having(PAPER)
    pairs = {
        (key, plant): one for key in five for plant in results.plants if (one := over_lines(own, key, plant=plant)).n
    }
    if not pairs:
        return []
    found: list[Claim] = []
    best = max(pairs, key=lambda pair: pairs[pair].mean)
    text = (
        "SHAP with a watermark shows the most consistent increase of Attr% with accuracy (here: the largest mean trend)"
    )
    figures = f"largest: {results.title(best[0])} with {best[1]}, {cell(pairs[best])}"
    known = (SHAP, WATERMARK) in pairs
    if known:
        figures += f"; SHAP with watermark {cell(pairs[SHAP, WATERMARK])}"
    found.append(judged("5.2", text, best == (SHAP, WATERMARK) if known and len(pairs) > 1 else None, figures))
    others = {pair: one for pair, one in pairs.items() if pair != (SHAP, WATERMARK)}
    if others:
        clear = [pair for pair, one in others.items() if one.mean >= CLEAR]
        text = f"Other methods and manipulations have a mild or noisy trend (here: below {CLEAR:g} for most)"
        told = ", ".join(f"{results.title(key)} with {plant}" for key, plant in clear)
        figures = f"{len(clear)} of {len(others)} are clear{': ' if clear else ''}{told}"
        found.append(judged("5.2", text, 2 * len(clear) < len(others), figures))
    if MARC in results.methods:
        verdicts = tuple(
            Verdict((one := over_lines(own, MARC, side)).mean >= CLEAR, cell(one), f"{side} the plant")
            for side in (WITH, WITHOUT)
        )
        found.append(Claim("", f"MaRC's Attr% rises with accuracy (here: mean trend of {CLEAR:g})", verdicts))
    return found


def draw(results: Results, folder: Path) -> list[Path]:
    """Attr% over accuracy, a line for every run."""
    caption = "blue: pictures with the plant, orange: without"
    path = folder / "attribution-by-accuracy.png"
    return draw_lines(results, lines(results), path, x="test accuracy", xlim=(0.4, 1), caption=caption)


STUDY = study_along(
    name="gt-fig6",
    title="Ground truth, Figure 6: attribution on planted pictures while the model learns",
    table=table,
    sections=sections,
    draw=draw,
    limit=24,
    more={"along": True},
)
