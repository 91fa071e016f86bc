"""All runs of an experiment together, the table that is made of them, and what is said of every experiment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rationales.evaluation.table import Cell, Row, Table
from rationales.experiments.ground_truth.method_rows import MARC, MethodSpec
from rationales.experiments.ground_truth.reporting.paper_claims import markdown, number, percent
from rationales.experiments.ground_truth.runs.run_record import Record, counted
from rationales.experiments.ground_truth.runs.run_spec import Setting
from rationales.version import __version__

P_SMALL = 1e-3
TOLD = 12  # runs whose parts are listed one by one; the others stand in their files


@dataclass(frozen=True, eq=False)
class Results:
    """The runs, finished and failed, and what was asked for."""

    records: tuple[Record, ...]
    setting: Setting
    chosen: Mapping[str, tuple[str, ...]]  # dimension -> members
    specs: Mapping[str, MethodSpec]

    @cached_property
    def good(self) -> list[Record]:
        """The runs that can judge methods."""
        return counted(self.records)

    @cached_property
    def methods(self) -> list[str]:
        """The methods that say something of at least one run, in the order of the rows."""
        there = {key for one in self.good for key, own in one.told.items() if own.values}
        return [key for key in self.specs if key in there and key in self.setting.methods]

    @property
    def plants(self) -> list[str]:
        """The manipulations that have a run."""
        return [name for name in self.chosen["plants"] if any(one.plan.plant == name for one in self.good)]

    def of(self, plant: str) -> list[Record]:
        """The runs with this manipulation."""
        return [one for one in self.good if one.plan.plant == plant]

    def title(self, method: str) -> str:
        """What a method is called."""
        return self.specs[method].title

    def having(self, keys: Sequence[str]) -> list[str]:
        """Those of these methods that are there."""
        return [key for key in keys if key in self.methods]


Value = Callable[[str, int, str], float]  # row, number of the unit, metric -> value


def table(
    results: Results,
    rows: Mapping[str, str],
    units: Sequence[str],
    metrics: Sequence[str],
    value: Value,
    *,
    recipe: str,
    unit: str = "runs",
    remarks: Sequence[str] = (),
    model: str = "",
) -> Table:
    """Rows (key -> title) by metrics, with a value for every unit; how methods were set stands in the row."""
    made = []
    for key, title in rows.items():
        spec = results.specs.get(key)
        cells = {name: Cell(tuple(value(key, place, name) for place in range(len(units)))) for name in metrics}
        seconds = [one.told[key].seconds for one in results.good if key in one.told]
        known = [one for one in seconds if not math.isnan(one)]
        made.append(
            Row(
                title,
                cells,
                spec.method if spec else "",
                dict(spec.options) if spec else {},
                seconds=float(np.mean(known)) if known else math.nan,
            )
        )
    return Table(
        rows=tuple(made),
        metrics=tuple(metrics),
        inputs=tuple(units),
        protocol=None,
        selection="",
        model=model or ", ".join(results.chosen.get("networks", ())),
        baseline="see remarks",
        seed=results.setting.seed,
        versions={"rationales": __version__},
        remarks=(*remarks, *general_remarks(results)),
        recipe=recipe,
        unit=unit,
    )


def general_remarks(results: Results) -> list[str]:
    """How many runs and inputs there are, and what was left out."""
    explained = sum(len(one.names) for one in results.good)
    inputs = f"{explained} explained test inputs, {results.setting.limit} of each run at most"
    levels = "intervals in this table are over its units, those in the sections below over runs and the inputs of each"
    said = [f"Runs: {len(results.good)}, with {inputs}; {levels}."]
    failed = [one for one in results.records if one.failed]
    if failed:
        names = "; ".join(one.plan.title for one in failed[:TOLD]) + ("; …" if len(failed) > TOLD else "")
        said.append(
            f"{len(failed)} of {len(results.records)} runs have no part in any figure, since their models did not "
            f"learn the plant: {names}."
        )
    for key in results.setting.methods:
        unfit = [own.unfit for one in results.good if (own := one.told.get(key)) is not None and own.unfit]
        if unfit:
            said.append(f"{results.title(key)} has no scores in {len(unfit)} runs: {unfit[0]}.")
        lost = sum(len(one.told[key].failures) for one in results.good if key in one.told)
        if lost:
            said.append(f"{results.title(key)} has no scores for {lost} inputs.")
    return said


def reference(rows: Mapping[str, str]) -> str | None:
    """The title of the row that others are compared with."""
    return rows.get(MARC)


def run_list(results: Results) -> str:
    """Every run: accuracy, the test of reliance, how often it was trained. Markdown."""
    lines = [
        [
            one.plan.title,
            "**failed**" if one.failed else percent(one.last.accuracy),
            "–" if one.bound >= 1 else f"at most {percent(one.bound)}",
            "not testable" if math.isnan(one.last.p) else "< .001" if one.last.p < P_SMALL else number(one.last.p),
            str(one.last.epochs),
            f"{len(one.attempts)} of {results.setting.tries}",
            number(one.area) if one.names else "–",
            f"{one.last.seconds:.1f} + {_explaining(one):.1f}",
        ]
        for one in results.records
    ]
    heads = ["run", "accuracy", "without the plant", "p", "epochs", "training", "area", "s: train + explain"]
    said = [markdown(heads, lines)]
    again = [
        f"- {one.plan.title}, training {number + 1}: accuracy {percent(own.accuracy)}; {own.why} ({own.where})"
        for one in results.records
        for number, own in enumerate(one.attempts)
        if own.why
    ]
    if again:
        said.append("Trainings that do not count, each repeated with another seed:\n\n" + "\n".join(again))
    return "\n\n".join(said)


def time_list(results: Results, seconds: float) -> str:
    """How long it took. Markdown."""
    lines = [
        [results.title(key), number(float(np.nanmean(taken)))]
        for key in results.methods
        if (taken := [one.told[key].seconds for one in results.good if key in one.told]) and not np.isnan(taken).all()
    ]
    all_runs = sum(one.seconds for one in results.records)
    said = f"This call took {seconds:.0f} s; all runs together took {all_runs:.0f} s when they were made."
    return f"{said}\n\n{markdown(['method', 's / input'], lines)}"


def _explaining(record: Record) -> float:
    taken = [own.seconds * len(record.names) for own in record.told.values() if not math.isnan(own.seconds)]
    return float(sum(taken))
