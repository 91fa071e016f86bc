"""One scenario of the tables: its rows, each computed once and written to a file, with five metrics for every input."""

from __future__ import annotations

import functools
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rationales.errors import OptionError, RationalesError
from rationales.evaluation.entries import MethodEntry, resolve_entries
from rationales.evaluation.faithfulness.removal import removal_baseline
from rationales.evaluation.preparation import PreparedEvaluation, prepare_evaluation
from rationales.evaluation.scores.cache import model_fingerprint
from rationales.evaluation.scores.code_fingerprint import code_fingerprint
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.experiments.aml.decoders import DecoderScenario
from rationales.experiments.aml.maskers import TEXTS, MaskerFiles, MaskerPlan
from rationales.experiments.aml.row_specs import (
    COLUMNS,
    CORRECTED,
    CORRECTION,
    MARC_INSTANT,
    METRICS,
    REFERENCE,
    ROWS,
    MethodRow,
    masker_metric,
)
from rationales.experiments.aml.scenarios import DEFAULT_LIMIT, Scenario
from rationales.experiments.registry import Request
from rationales.masks.instant.masker_file import SHIPPED_MASKER
from rationales.methods import METHODS, Method, build
from rationales.methods.selected_by_metric import selected_by_metric
from rationales.models.catalogue import EMBEDDED
from rationales.models.text.model import TextModel

PROTOCOL = "aml"


@dataclass(frozen=True)
class StudySettings:
    """What `reproduce` leaves at the paper's settings, and a shorter run sets otherwise."""

    plan: MaskerPlan = field(default_factory=MaskerPlan)
    selected_metrics: tuple[str, ...] = METRICS  # that selected rows are computed for
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # row, or row@data set -> further options
    left_out: tuple[str, ...] = ()  # row@data set, without these rows
    coarse: bool = False  # on a GPU, passes without gradients in half precision
    timed_seconds: float = math.inf  # Table 5: no further text is timed alone after so many seconds of a row


@contextmanager
def masker_folder(out: Path | None) -> Iterator[Path]:
    """`out`/maskers, or a folder that is deleted afterwards."""
    if out is not None:
        yield out / "maskers"
        return
    with TemporaryDirectory() as folder:
        yield Path(folder)


@dataclass(eq=False)
class ScenarioRun:
    """A scenario with its model, its test texts and its maskers; `rows` computes rows that are missing."""

    scenario: Scenario | DecoderScenario
    request: Request
    settings: StudySettings
    model: TextModel
    prepared: PreparedEvaluation
    maskers: Path  # folder
    fingerprints: dict[str, str]
    done: dict[str, TableRow] = field(default_factory=dict)  # by title

    @classmethod
    def open(
        cls, scenario: Scenario | DecoderScenario, request: Request, settings: StudySettings, maskers: Path
    ) -> ScenarioRun:
        """Load the model and the texts, and the rows that an earlier run wrote."""
        model = scenario.load(request)
        if not isinstance(model, TextModel):
            raise OptionError(f"{model.name} reads no texts; the tables are about classifiers of texts")
        examples = scenario.corpus.examples(request.data, request.limit or DEFAULT_LIMIT)
        prepared = prepare_evaluation(
            model, examples, PROTOCOL, METRICS, seed=request.seed, cache=request.cache, coarse=settings.coarse
        )
        fingerprints = {
            "weights": model_fingerprint(model)[:16],
            "code": _code_of_rows(),
            "settings": hashlib.blake2b(repr(settings).encode(), digest_size=8).hexdigest(),
        }
        run = cls(scenario, request, settings, model, prepared, maskers, fingerprints)
        run._carry_over()
        return run

    def compute(self, specs: Sequence[MethodRow], stop: Callable[[], bool] = lambda: False) -> Table:
        """The table of these rows; those that do not apply to the scenario are left out, and all after a `stop`."""
        for spec in specs:
            if spec.title not in self.done and self.applies(spec) and not stop():
                started = time.perf_counter()
                self.done[spec.title] = self._row(spec)
                self._write()
                if self.request.log is not None:
                    seconds = time.perf_counter() - started
                    self.request.log(f"{self.scenario.model_name}: {spec.title} ({seconds:.1f} s)")
        return self.table([self.done[spec.title] for spec in specs if spec.title in self.done])

    def table(self, rows: Sequence[TableRow]) -> Table:
        """These rows, with the columns of both normalisers."""
        table = self.prepared.table(rows)
        options = [f"{key} {dict(values)}" for key, values in self.settings.options.items() if values]
        remarks = (f"Settings of this run: {'; '.join(options)}.",) if options else ()
        versions = {**table.versions, **self.fingerprints}
        return replace(table, metrics=COLUMNS, versions=versions, remarks=(*table.remarks, *remarks))

    def masker_files(self) -> MaskerFiles:
        """The maskers of the scenario's model, which are trained when they are asked for."""
        texts, request = self.scenario.corpus.training_texts(self.request.data, TEXTS), self.request
        name, plan = self.scenario.model_name, self.settings.plan
        return MaskerFiles(self.model, texts, plan, self.maskers, name, request.seed, request.log)

    def marc_options(self) -> dict[str, str]:
        """The masker of marc-instant for the model as an option: the shipped one, or one that is trained now."""
        if self.model.name == EMBEDDED and SHIPPED_MASKER.is_file():
            return {}
        return {"masker": str(self.masker_files().of_marc())}

    def methods(self, spec: MethodRow) -> dict[str, Method]:
        """Metric -> the method whose scores are measured by it."""
        options = {**spec.options, **self.further_options(spec)}
        if spec.method == MARC_INSTANT:
            options |= self.marc_options()
        metrics = self.settings.selected_metrics if spec.selected else METRICS
        if not spec.has_masker:
            if spec.selected:
                computed: dict[Any, Any] = {}  # candidates are the same for all metrics
                return {
                    metric: selected_by_metric(spec.method, metric, options=options, computed=computed)
                    for metric in metrics
                }
            return {metric: build(spec.method, {**options, **self.metric_options(spec, metric)}) for metric in METRICS}
        paths = self.masker_files().of_aml()
        if spec.method == "aml-finetuned":
            options |= self.settings.plan.finetuning
        methods = {}
        for metric in metrics:
            source = masker_metric(metric, tuple(paths))
            if source is not None:
                selection = {"select_by": metric} if spec.selected else {}
                methods[metric] = build(spec.method, {**options, **selection, "masker": str(paths[source])})
        return methods

    def metric_options(self, spec: MethodRow, metric: str) -> dict[str, Any]:
        """Options of a row for a metric alone; the token that log-odds are taken with by its name in this model."""
        options = dict(spec.metric_options.get(metric, {}))
        if options.get("baseline") == REFERENCE:
            options["baseline"] = removal_baseline(self.model, REFERENCE)
        return options

    def further_options(self, spec: MethodRow) -> dict[str, Any]:
        """Options of a row beside its own: of all scenarios, and of this data set."""
        options = self.settings.options
        return {**options.get(spec.key, {}), **options.get(f"{spec.key}@{self.scenario.corpus.key}", {})}

    def applies(self, spec: MethodRow) -> bool:
        """Whether the row can be computed: Solvex takes hours on reviews, and no encoder can rank words itself."""
        if f"{spec.key}@{self.scenario.corpus.key}" in self.settings.left_out or not self.scenario.reads(spec):
            return False
        has_options = f"{spec.key}@{self.scenario.corpus.key}" in self.settings.options
        return spec.long_texts or has_options or self.scenario.corpus.max_words is None

    def _row(self, spec: MethodRow) -> TableRow:
        by_method: dict[int, tuple[Method, list[str]]] = {}
        for metric, method in self.methods(spec).items():
            group = next((key for key, (known, _) in by_method.items() if known == method), len(by_method))
            by_method.setdefault(group, (method, []))[1].append(metric)
        cells: dict[str, Cell] = {}
        rows = []
        for method, metrics in by_method.values():
            (row,) = self.prepared.rows(
                resolve_entries([MethodEntry(method.name, method=method, title=spec.title)], None, "text")[:1]
            )
            rows.append(row)
            cells |= {metric: row.cells[metric] for metric in metrics}
        ordered = {metric: cells[metric] for metric in METRICS if metric in cells}
        seconds = sum(row.seconds for row in rows) / len(rows)
        failures = {name: reason for row in rows for name, reason in row.failures.items()}
        return replace(rows[0], cells=with_corrected(ordered), seconds=seconds, failures=failures)

    def _path(self) -> Path | None:
        out = self.request.out
        return None if out is None else out / "scenarios" / f"{self.scenario.model_name}.json"

    def _write(self) -> None:
        path = self._path()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.table(list(self.done.values())).to_json(path)

    def _carry_over(self) -> None:
        """Take the rows of an earlier run with the same model, texts, seed, settings and code."""
        path = self._path()
        if path is None or not path.is_file():
            return
        try:
            old = Table.from_json(path)
        except RationalesError:
            return
        same = all(old.versions.get(name) == value for name, value in self.fingerprints.items())
        if same and (old.inputs, old.seed) == (tuple(self.prepared.names), self.request.seed):
            self.done = {row.title: row for row in old.rows}


@functools.cache
def _code_of_rows() -> str:
    """Fingerprint of the rows of the tables and of the code of all their methods."""
    names = sorted({row.method for row in ROWS.values()})
    code = "".join([*(code_fingerprint(METHODS[name]) for name in names), repr(list(ROWS.values()))])
    return hashlib.blake2b(code.encode(), digest_size=8).hexdigest()


def with_corrected(cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """The cells and, beside the two means over levels, those with the sum divided by 5, the number of levels."""
    corrected = {
        name: Cell(tuple(value * CORRECTION for value in cells[metric].values))
        for metric, name in CORRECTED.items()
        if metric in cells
    }
    return {**cells, **corrected}


def pooled(tables: Mapping[str, Table]) -> Table:
    """One table of all inputs of all scenarios; a row that a scenario does not have has no value there."""
    first = next(iter(tables.values()))
    titles = list(dict.fromkeys(row.title for table in tables.values() for row in table.rows))
    rows = []
    for title in titles:
        by_scenario = {name: next((row for row in t.rows if row.title == title), None) for name, t in tables.items()}
        present = [row for row in by_scenario.values() if row is not None]
        cells = {
            metric: Cell(
                tuple(
                    value
                    for name, table in tables.items()
                    for value in _values(by_scenario[name], metric, len(table.inputs))
                )
            )
            for metric in COLUMNS
            if any(metric in row.cells for row in present)
        }
        seconds = sum(row.seconds for row in present) / len(present)
        rows.append(replace(present[0], cells=cells, seconds=seconds, curves={}, failures={}))
    inputs = tuple(f"{name}: {input_name}" for name, table in tables.items() for input_name in table.inputs)
    models = ", ".join(dict.fromkeys(table.model for table in tables.values()))
    return replace(first, rows=tuple(rows), inputs=inputs, model=models, metrics=COLUMNS)


def _values(row: TableRow | None, metric: str, count: int) -> tuple[float, ...]:
    if row is None or metric not in row.cells:
        return (float("nan"),) * count
    return row.cells[metric].values
