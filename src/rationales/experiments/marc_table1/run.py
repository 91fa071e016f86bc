"""Computes the table: cheap rows first, files after every row, and resumes after an interruption."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rationales.data import Example, read_data
from rationales.errors import RationalesError
from rationales.evaluation.agreement.overlap import human_ceiling
from rationales.evaluation.agreement.word_marks import annotator_words, gold_words
from rationales.evaluation.collecting import Progress
from rationales.evaluation.entries import MethodEntry, resolve_entries
from rationales.evaluation.preparation import PreparedEvaluation, prepare_evaluation
from rationales.evaluation.sampling import evenly
from rationales.evaluation.scores.cache import model_fingerprint
from rationales.evaluation.scores.code_fingerprint import code_fingerprint
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.experiments.explained_outputs import explained_outputs_remark
from rationales.experiments.marc_table1 import row_specs, widths
from rationales.experiments.marc_table1.budget import budget, measuring_passes, reduce_row, reduced_protocol, remark
from rationales.experiments.marc_table1.report import duration, sections
from rationales.experiments.marc_table1.row_specs import MAIN, METRICS, SHAPED, SMOOTHED, RowSpec
from rationales.experiments.registry import ExperimentReport, Request
from rationales.files import write_text
from rationales.methods import METHODS, build
from rationales.models.load import load
from rationales.models.model import Model

DATA, MODEL = "eraser-movies", "minilm-reviews"
VALIDATION = 50  # reviews on which widths are selected; expensive methods score them, too
ANNOTATOR_SETS = ("majority", "union")  # of the further annotators, in the order of Example.annotator_spans
OUTDATED_FILE = "table-before.json"  # an earlier table that does not match this run
PASSES = "passes"  # fingerprint of a run with a budget
TITLE = "MaRC, Table 1: rationales of movie reviews"


def reproduce(request: Request) -> ExperimentReport:
    """The table with its claims and remarks."""
    began = time.perf_counter()
    specs = row_specs.select_rows(request.rows)
    specs = [_fast(spec) for spec in specs] if request.tf32 else specs
    test = evenly(read_data(DATA, "test", request.data), request.limit)
    validation_limit = request.validation or min(VALIDATION, request.limit or VALIDATION)
    validation = evenly(read_data(DATA, "val", request.data), validation_limit)
    with _precision(request.tf32):
        model = load(request.model or MODEL, device=request.device)
        passes = budget(request.passes, request.limit, model.facts()["device"])
        specs = [reduce_row(spec, passes) for spec in specs]
        protocol = reduced_protocol(passes)
        shared: dict[str, Any] = {"seed": request.seed, "cache": request.cache, "coarse": request.tf32}
        work = _TableRun(
            request,
            prepare_evaluation(model, test, protocol, METRICS, **shared),
            prepare_evaluation(model, validation, protocol, [widths.CRITERION], **shared),
            _fingerprints(model, request, validation, passes),
            passes,
        )
        work.carry_over()
        todo = [spec for spec in specs if spec.key not in work.rows]
        total = sum(work.cost(spec) for spec in todo) or 1.0
        work.tell(plan(todo, len(test), len(validation)))
        if passes is not None:
            work.tell(remark(passes, request.passes is not None))
        done, rows_began = 0.0, time.perf_counter()
        for number, spec in enumerate(todo, start=1):
            if request.minutes is not None and time.perf_counter() - began > 60 * request.minutes:
                work.tell(
                    f"{request.minutes:g} minutes are over; still to be made: {', '.join(_keys(todo[number - 1 :]))}"
                )
                break
            line = work.add(spec, done / total, work.cost(spec) / total)
            done += work.cost(spec)
            left = "" if number == len(todo) else f"; {time_left(time.perf_counter() - rows_began, done / total)}"
            work.tell(f"[{number}/{len(todo)}] {line}{left}")
    if request.progress is not None:
        request.progress(1.0)
    return work.outcome(time.perf_counter() - began)


def _keys(specs: Sequence[RowSpec]) -> list[str]:
    return [spec.key for spec in specs]


@dataclass(eq=False)
class _TableRun:
    """The rows and widths computed so far."""

    request: Request
    test: PreparedEvaluation
    validation: PreparedEvaluation
    fingerprints: dict[str, str]
    passes: int | None = None  # budget per segment and row
    rows: dict[str, TableRow] = field(default_factory=dict)
    widths: dict[str, dict[str, float]] = field(default_factory=dict)

    def cost(self, spec: RowSpec) -> float:
        """The cost of a row, in the unit of RowSpec.cost."""
        return measuring_passes(len(self.test.settings.protocol.levels)) + self._scoring_cost(spec)

    def _scoring_cost(self, spec: RowSpec) -> float:
        """The cost of scoring; a control row only scores the validation reviews, since its plain row came before."""
        share = len(self.validation.examples) / max(1, len(self.test.examples))
        return spec.cost * (share if spec.key != spec.plain_key else 1.0)

    def tell(self, line: str) -> None:
        """Report a line to the caller."""
        if self.request.log is not None:
            self.request.log(line)

    def add(self, spec: RowSpec, begin: float, share: float) -> str:
        """Compute one row, write the files, and return a line with the main results."""
        began = time.perf_counter()
        width, on_validation = None, 0.0
        if spec.key != spec.plain_key:
            on_validation = share * self._scoring_cost(spec) / self.cost(spec)
            width = self._width(spec, self._report(begin, on_validation))
        title = row_specs.row_title(spec, width)
        entry = MethodEntry(spec.method, spec.options, width, title=title, shape=spec.shape)
        (row,) = self.test.rows(
            resolve_entries([entry], None, "text")[:1], self._report(begin + on_validation, share - on_validation)
        )
        self.rows[spec.key] = row
        self._write()
        means = "  ".join(f"{name} {row.cells[name].estimate.mean:.3f}" for name in MAIN)
        return f"{row.title}: {means}  ({duration(time.perf_counter() - began)})"

    def _report(self, begin: float, share: float) -> Progress | None:
        """A progress function for the interval of the run that begins at `begin` and has this share."""
        report = self.request.progress
        return None if report is None else lambda done: report(begin + share * min(done, 1.0))

    def _width(self, spec: RowSpec, progress: Progress | None) -> float | None:
        if spec.key not in self.widths:
            self.widths[spec.key] = widths.measure(self.validation, spec, progress)
        return widths.best(self.widths[spec.key], spec)

    def carry_over(self) -> None:
        """Load the rows of an earlier run in the same folder, if model, reviews, seed and code are the same."""
        out = self.request.out
        if out is None or not (out / "table.json").is_file():
            return
        try:
            old = Table.from_json(out / "table.json")
        except RationalesError:
            old = None
        if old is not None and self._matches(old):
            self.rows = {key: row for row in old.rows if (key := row_specs.key_of(row.title)) is not None}
            self.widths = widths.load(out / "widths.json")
            return
        (out / "table.json").replace(out / OUTDATED_FILE)
        self.tell(f"{out / 'table.json'} is of another model, other reviews, seed or code: now {OUTDATED_FILE}")

    def _matches(self, old: Table) -> bool:
        """Whether the rows of an earlier table belong to this run."""
        names = {*self.fingerprints, PASSES}  # a table without a budget does not name one
        if any(old.versions.get(name) != self.fingerprints.get(name) for name in names):
            return False
        return (old.inputs, old.seed, old.metrics) == (tuple(self.test.names), self.request.seed, METRICS)

    def _table(self, rows: Sequence[TableRow], remarks: Sequence[str] = ()) -> Table:
        table = self.test.table(rows, remarks)
        return replace(table, versions={**table.versions, **self.fingerprints})

    def _write(self) -> None:
        """Write the table so far, without tests of significance."""
        out = self.request.out
        if out is None:
            return
        widths.save(out / "widths.json", self.widths)
        table = self._table(self._ordered_rows())
        table.to_json(out / "table.json")
        write_text(out / "table.md", replace(table, metrics=MAIN).to_markdown())

    def _ordered_rows(self) -> list[TableRow]:
        """The rows in the order of the table."""
        return [self.rows[key] for key in row_specs.ROWS if key in self.rows]

    def outcome(self, seconds: float) -> ExperimentReport:
        accuracy = self.test.accuracy()
        remarks = _remarks(accuracy, self.rows, self.passes is not None)
        if self.passes is not None:
            remarks.insert(0, remark(self.passes, self.request.passes is not None))
        if self.request.tf32:
            remarks.append(
                "Products of matrices in TF32; in the steps of MaRC in bfloat16, and what needs no gradients "
                "(faithfulness, occlusion, LIME, Shapley sampling) in float16, on cards that have them."
            )
        table = self._table([*self._ordered_rows(), *people(self.test.examples)], remarks)
        marc = self.rows.get(row_specs.MARC)
        report_sections = sections(table, self.widths, len(self.validation.examples), seconds)
        return ExperimentReport(table, marc.title if marc else None, MAIN, tuple(report_sections), TITLE)


def plan(todo: Sequence[RowSpec], test_reviews: int, validation_reviews: int) -> str:
    """A line on the work ahead, with the row that takes most of the time."""
    if not todo:
        return "all rows are there already"
    most_expensive = max(todo, key=lambda spec: spec.cost)
    share = most_expensive.cost / max(1.0, sum(spec.cost for spec in todo))
    scoring = f"; {most_expensive.key} takes about {share:.0%} of the time for scores (--rows leaves rows out)"
    return (
        f"{len(todo)} rows on {test_reviews} test reviews, widths of smoothing on {validation_reviews} validation "
        f"reviews{scoring if share > 0.3 and len(todo) > 1 else ''}"
    )


def time_left(elapsed: float, share: float) -> str:
    """The estimated time left after `elapsed` seconds for this share of the work."""
    return f"about {duration(elapsed * (1 - share) / max(share, 1e-9))} left"


def people(examples: Sequence[Example]) -> list[TableRow]:
    """Rows of the further annotators against the marks that methods are judged by, for metrics of selections."""
    gold = [gold_words(example) for example in examples]
    rows = []
    for number, name in enumerate(ANNOTATOR_SETS):
        annotations = [annotator_words(example)[number : number + 1] for example in examples]
        if any(annotations):
            ceiling = human_ceiling(gold, annotations)
            cells = {key: Cell(tuple(ceiling[key].tolist())) for key in ("token-f1", "iou-f1")}
            rows.append(TableRow(f"People ({name} of further annotators)", cells))
    return rows


def _remarks(accuracy: float, keys: Collection[str], reduced: bool = False) -> list[str]:
    """Remarks on the rows of the table; `reduced`: with a budget, so that rivals may not have the paper's settings."""
    remarks = [
        f"The model classifies {100 * accuracy:.1f} % of these reviews correctly; methods explain the gold label."
    ]
    if set(row_specs.RIVALS) & set(keys):
        settings = (
            "occlusion of 5 words, integrated gradients with 50 steps from PAD, LIME with 50 samples that replace 5 to "
            "13 % of the words and the next three, Shapley values from 25 orders"
        )
        settings_of = (
            "Settings of the paper, of which rivals have fewer" if reduced else "Rivals have the paper's settings"
        )
        remarks.append(f"{settings_of}: {settings}.")
        remarks.append(explained_outputs_remark(_explained_outputs(keys)))
    if any(key.endswith(SMOOTHED) for key in keys):
        remarks.append(
            "Smoothed: a Gaussian exp(−d²/s²) over neighbouring words; its width s is chosen on validation reviews by "
            "mAP, the mean of their marks as they are and widened to whole sentences (on them only a part was marked)."
        )
    if any(key.endswith(SHAPED) for key in keys):
        remarks.append(
            "Shaped by clauses: the scores that spans are selected by are smoothed where that is better by the same "
            "criterion, and then shaped as MaRC shapes its spans (halo, shrink and closing, with the settings of its "
            "default); the scores of words stay as they are, as MaRC's do."
        )
    if {*row_specs.MARC_WITH_SPANS, *(key for key in keys if key.endswith(SHAPED))} & set(keys):
        remarks.append(
            "Agreement with people is measured on the scores that the rationale is selected by: in rows shaped by "
            "clauses, and in those of MaRC's default and preset words, these are scores of spans. Faithfulness is "
            "measured on the scores of words, before any shape."
        )
    if row_specs.SALIENCY_SUM in keys:
        remarks.append(
            "Saliency, sum: a model that normalises its embeddings (BERT and its relatives) takes out a shift of all "
            "their numbers, so that the sum of a gradient is nothing but rounding; the row is the paper's."
        )
    return remarks


def _explained_outputs(keys: Collection[str]) -> dict[str, str]:
    """Title without smoothing -> the output that the row explains, for methods with this option."""
    specs = [row_specs.ROWS[row_specs.ROWS[key].plain_key] for key in row_specs.ROWS if key in keys]
    methods = {spec.title: build(spec.method, dict(spec.options)) for spec in specs}
    return {title: method.output for title, method in methods.items() if hasattr(method, "output")}


def _fast(spec: RowSpec) -> RowSpec:
    """The row with reduced precision in the steps of MaRC, where the GPU is faster with it."""
    return replace(spec, options={**spec.options, "precision": "auto"}) if spec.method == "marc" else spec


def _fingerprints(model: Model, request: Request, validation: Sequence[Example], passes: int | None) -> dict[str, str]:
    """What must be equal for rows of two runs to belong to one table."""
    code = hashlib.blake2b(digest_size=8)
    for method in METHODS.values():
        code.update(code_fingerprint(method).encode())
    return {
        "weights": model_fingerprint(model)[:16],
        "code": code.hexdigest(),
        "products": "tf32" if request.tf32 else "float32",
        "validation": f"{len(validation)} inputs",
        **({} if passes is None else {PASSES: str(passes)}),
    }


@contextmanager
def _precision(tf32: bool) -> Iterator[None]:
    """TF32 matrix products inside the block, if `tf32`."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
