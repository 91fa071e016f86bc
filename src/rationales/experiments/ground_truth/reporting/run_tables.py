"""All runs of an experiment, the table of methods by metrics, and the sections that every report has."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.experiments.explained_outputs import explained_outputs_remark
from rationales.experiments.ground_truth.method_rows import MethodSpec
from rationales.experiments.ground_truth.runs.run_record import RunRecord
from rationales.experiments.ground_truth.runs.run_spec import RunSettings
from rationales.version import __version__

SMALL_P_VALUE = 1e-3
MAX_LISTED_RUNS = 12  # failed runs that are listed by name


@dataclass(frozen=True, eq=False)
class ExperimentRuns:
    """All runs, successful and failed, and the rows that were chosen."""

    records: tuple[RunRecord, ...]
    settings: RunSettings
    chosen_rows: Mapping[str, tuple[str, ...]]  # dimension -> members
    specs: Mapping[str, MethodSpec]

    @cached_property
    def successful(self) -> list[RunRecord]:
        """The runs whose models are accurate and rely on the plant, so that methods can be judged by them."""
        return [record for record in self.records if not record.failed]

    @cached_property
    def methods(self) -> list[str]:
        """The methods with measures in at least one run, in the order of the rows."""
        measured = {key for run in self.successful for key, measures in run.measures.items() if measures.values}
        return [key for key in self.specs if key in measured and key in self.settings.methods]

    @property
    def plants(self) -> list[str]:
        """The plants with at least one successful run."""
        return [name for name in self.chosen_rows["plants"] if self.with_plant(name)]

    def with_plant(self, plant: str) -> list[RunRecord]:
        """The successful runs with this plant."""
        return [run for run in self.successful if run.spec.plant == plant]

    def by_network(self) -> dict[str, ExperimentRuns]:
        """Title -> the runs of one network on one data set, successful and failed.

        A title names what they differ in, such as 'bert' or 'sentences, bert'; a single network has an empty one.
        """
        pairs = list(dict.fromkeys((run.spec.data, run.spec.network) for run in self.records))
        differing = [len(set(values)) > 1 for values in zip(*pairs, strict=True)]
        return {
            ", ".join(itertools.compress(pair, differing)): replace(
                self, records=tuple(run for run in self.records if (run.spec.data, run.spec.network) == pair)
            )
            for pair in pairs
        }

    @property
    def method_titles(self) -> dict[str, str]:
        """Method -> its name in reports, for all methods with measures."""
        return {key: self.method_title(key) for key in self.methods}

    def method_title(self, method: str) -> str:
        """The name of a method in reports."""
        return self.specs[method].title

    def available(self, keys: Sequence[str]) -> list[str]:
        """Those of the given methods that have measures."""
        return [key for key in keys if key in self.methods]


CellValue = Callable[[str, int, str], float]  # row key, index of the unit, metric -> value


def results_table(
    runs: ExperimentRuns,
    rows: Mapping[str, str],
    units: Sequence[str],
    metrics: Sequence[str],
    value: CellValue,
    *,
    recipe: str,
    unit: str = "runs",
    remarks: Sequence[str] = (),
    model: str = "",
) -> Table:
    """Rows (key -> title) by metrics, with one value per unit and the options of each method."""
    table_rows = []
    for key, title in rows.items():
        spec = runs.specs.get(key)
        cells = {name: Cell(tuple(value(key, i, name) for i in range(len(units)))) for name in metrics}
        seconds = [run.measures[key].seconds for run in runs.successful if key in run.measures]
        known_seconds = [duration for duration in seconds if not math.isnan(duration)]
        table_rows.append(
            TableRow(
                title,
                cells,
                spec.method if spec else "",
                dict(spec.options) if spec else {},
                seconds=float(np.mean(known_seconds)) if known_seconds else math.nan,
            )
        )
    return Table(
        rows=tuple(table_rows),
        metrics=tuple(metrics),
        inputs=tuple(units),
        protocol=None,
        selection="",
        model=model or ", ".join(runs.chosen_rows.get("networks", ())),
        baseline="see remarks",
        seed=runs.settings.seed,
        versions={"rationales": __version__},
        remarks=(*remarks, *run_remarks(runs)),
        recipe=recipe,
        unit=unit,
    )


def run_remarks(runs: ExperimentRuns) -> list[str]:
    """The number of runs and inputs, failed runs, methods without scores, and which output the methods explain."""
    explained = sum(len(run.input_names) for run in runs.successful)
    inputs = f"{explained} explained test inputs, {runs.settings.limit} of each run at most"
    levels = "intervals in this table are over its units, those in the sections below over runs and the inputs of each"
    remarks = [f"Runs: {len(runs.successful)}, with {inputs}; {levels}."]
    failed = [run for run in runs.records if run.failed]
    if failed:
        names = "; ".join(run.spec.title for run in failed[:MAX_LISTED_RUNS])
        names += "; …" if len(failed) > MAX_LISTED_RUNS else ""
        remarks.append(
            f"{len(failed)} of {len(runs.records)} runs have no part in any figure, since their models did not "
            f"learn the plant: {names}."
        )
    for key in runs.settings.methods:
        measures = [run.measures[key] for run in runs.successful if key in run.measures]
        reasons = [measure.unsupported for measure in measures if measure.unsupported]
        if reasons:
            remarks.append(f"{runs.method_title(key)} has no scores in {len(reasons)} runs: {reasons[0]}.")
        failures = sum(len(measure.failures) for measure in measures)
        if failures:
            remarks.append(f"{runs.method_title(key)} has no scores for {failures} inputs.")
    outputs = {runs.method_title(key): output for key in runs.methods if (output := runs.specs[key].output)}
    return [*remarks, explained_outputs_remark(outputs)] if outputs else remarks


def runs_markdown(runs: ExperimentRuns) -> str:
    """All runs: accuracy, test of reliance on the plant, number of trainings."""
    lines = [_run_cells(run, runs.settings.max_attempts) for run in runs.records]
    heads = ["run", "accuracy", "without the plant", "p", "epochs", "training", "area", "s: train + explain"]
    sections = [markdown.table(heads, lines)]
    rejected = [
        f"- {run.spec.title}, training {number}: accuracy {markdown.percent(attempt.accuracy)}; {attempt.rejection} "
        f"({attempt.plant_description})"
        for run in runs.records
        for number, attempt in enumerate(run.attempts, 1)
        if attempt.rejection
    ]
    if rejected:
        sections.append("Rejected trainings, each repeated with a different seed:\n\n" + "\n".join(rejected))
    return "\n\n".join(sections)


def _run_cells(run: RunRecord, max_attempts: int) -> list[str]:
    attempt = run.last_attempt
    p_value = "< .001" if attempt.p_value < SMALL_P_VALUE else markdown.number(attempt.p_value)
    return [
        run.spec.title,
        "**failed**" if run.failed else markdown.percent(attempt.accuracy),
        "–" if run.accuracy_bound >= 1 else f"at most {markdown.percent(run.accuracy_bound)}",
        "not testable" if math.isnan(attempt.p_value) else p_value,
        str(attempt.epochs),
        f"{len(run.attempts)} of {max_attempts}",
        markdown.number(run.area) if run.input_names else "–",
        f"{attempt.seconds:.1f} + {explaining_seconds(run):.1f}",
    ]


def times_markdown(runs: ExperimentRuns, seconds: float) -> str:
    """The duration of this call, of all runs, and of each method per input."""
    lines = []
    for key in runs.methods:
        durations = [run.measures[key].seconds for run in runs.successful if key in run.measures]
        if durations and not np.isnan(durations).all():
            lines.append([runs.method_title(key), markdown.number(float(np.nanmean(durations)))])
    total = sum(run.seconds for run in runs.records)
    text = f"This call took {seconds:.0f} s; all runs together took {total:.0f} s when they were made."
    return f"{text}\n\n{markdown.table(['method', 's / input'], lines)}"


def explaining_seconds(run: RunRecord) -> float:
    """Seconds that all methods of a run took together."""
    durations = (measures.seconds * len(run.input_names) for measures in run.measures.values())
    return float(sum(duration for duration in durations if not math.isnan(duration)))
