"""Make the table: cheap rows first, a file after every row, and on from there after an interruption."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rationales.data import Example, read
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
from rationales.experiments.marc_table1 import widths
from rationales.experiments.marc_table1.report import duration, sections
from rationales.experiments.marc_table1.rows import (
    MAIN,
    MARC,
    METRICS,
    RIVALS,
    ROWS,
    SALIENCY_SUM,
    SMOOTHED,
    RowSpec,
    chosen,
    key_of,
    titled,
)
from rationales.experiments.registry import ExperimentReport, Request
from rationales.files import write_text
from rationales.methods import METHODS
from rationales.models.front import load
from rationales.models.model import Model

DATA, MODEL = "eraser-movies", "minilm-reviews"
VALIDATION = 50  # reviews on which widths are chosen: the dear methods are asked about these, too
FAITHFULNESS = 40.0  # rows that the 19 levels ask for, in the unit of RowSpec.cost
PEOPLE = ("majority", "union")  # of the further annotators, in the order of Example.others
BEFORE = "table-before.json"  # what was there and is of no use now
TITLE = "MaRC, Table 1: rationales of movie reviews"


def reproduce(request: Request) -> ExperimentReport:
    """The table, its claims, and everything that is needed to read them."""
    began = time.perf_counter()
    specs = [_fast(one) for one in chosen(request.rows)] if request.tf32 else chosen(request.rows)
    test = evenly(read(DATA, "test", request.data), request.limit)
    few = request.validation or min(VALIDATION, request.limit or VALIDATION)
    validation = evenly(read(DATA, "val", request.data), few)
    with _precision(request.tf32):
        model = load(request.model or MODEL, device=request.device)
        work = _Work(
            request,
            prepare_evaluation(
                model, test, "marc", METRICS, seed=request.seed, cache=request.cache, coarse=request.tf32
            ),
            prepare_evaluation(
                model,
                validation,
                "marc",
                [widths.CRITERION],
                seed=request.seed,
                cache=request.cache,
                coarse=request.tf32,
            ),
            _prints(model, request, validation),
        )
        work.carry_over()
        todo = [spec for spec in specs if spec.key not in work.rows]
        total = sum(work.cost(spec) for spec in todo) or 1.0
        work.tell(plan(todo, len(test), len(validation)))
        done, rows_began = 0.0, time.perf_counter()
        for number, spec in enumerate(todo, start=1):
            line = work.add(spec, done / total, work.cost(spec) / total)
            done += work.cost(spec)
            left = "" if number == len(todo) else f"; {time_left(time.perf_counter() - rows_began, done / total)}"
            work.tell(f"[{number}/{len(todo)}] {line}{left}")
    if request.progress is not None:
        request.progress(1.0)
    return work.outcome(time.perf_counter() - began)


@dataclass(eq=False)
class _Work:
    """The table while it grows."""

    request: Request
    test: PreparedEvaluation
    validation: PreparedEvaluation
    prints: dict[str, str]
    rows: dict[str, TableRow] = field(default_factory=dict)
    widths: dict[str, dict[str, float]] = field(default_factory=dict)

    def cost(self, spec: RowSpec) -> float:
        """How long a row takes, beside the others."""
        return FAITHFULNESS + self._scoring_cost(spec)

    def _scoring_cost(self, spec: RowSpec) -> float:
        """A smoothed row has its scores of test reviews already, and needs those of validation reviews."""
        share = len(self.validation.examples) / max(1, len(self.test.examples))
        return spec.cost * (share if spec.key.endswith(SMOOTHED) else 1.0)

    def tell(self, line: str) -> None:
        """Pass a line on to whoever listens."""
        if self.request.log is not None:
            self.request.log(line)

    def add(self, spec: RowSpec, begin: float, share: float) -> str:
        """Make one row, write what there is, and say in a line what came out."""
        began = time.perf_counter()
        width, on_validation = None, 0.0
        if spec.key.endswith(SMOOTHED):
            on_validation = share * self._scoring_cost(spec) / self.cost(spec)
            width = self._width(spec, self._report(begin, on_validation))
        entry = MethodEntry(spec.method, spec.options, width, titled(spec, width))
        (row,) = self.test.rows(
            resolve_entries([entry], None, "text")[:1], self._report(begin + on_validation, share - on_validation)
        )
        self.rows[spec.key] = row
        self._write()
        means = "  ".join(f"{name} {row.cells[name].estimate.mean:.3f}" for name in MAIN)
        return f"{row.title}: {means}  ({duration(time.perf_counter() - began)})"

    def _report(self, begin: float, share: float) -> Progress | None:
        """The progress of a part of the work that begins at `begin` and is this share of all."""
        report = self.request.progress
        return None if report is None else lambda done: report(begin + share * min(done, 1.0))

    def _width(self, spec: RowSpec, progress: Progress | None) -> float:
        if spec.plain not in self.widths:
            self.widths[spec.plain] = widths.measured(self.validation, spec, progress)
        return widths.best(self.widths[spec.plain])

    def carry_over(self) -> None:
        """Take over what an earlier run left in the same folder, if model, reviews, seed and code are the same."""
        out = self.request.out
        if out is None or not (out / "table.json").is_file():
            return
        try:
            old = Table.from_json(out / "table.json")
        except RationalesError:
            old = None
        if old is not None and self._same(old):
            self.rows = {key: row for row in old.rows if (key := key_of(row.title)) is not None}
            self.widths = widths.load(out / "widths.json")
            return
        (out / "table.json").replace(out / BEFORE)
        self.tell(f"{out / 'table.json'} is of another model, other reviews, seed or code: now {BEFORE}")

    def _same(self, old: Table) -> bool:
        """Whether rows of that table can stand in this one."""
        if {name: old.versions.get(name) for name in self.prints} != self.prints:
            return False
        return (old.inputs, old.seed, old.metrics) == (tuple(self.test.names), self.request.seed, METRICS)

    def _table(self, rows: Sequence[TableRow], remarks: Sequence[str] = ()) -> Table:
        made = self.test.table(rows, remarks)
        return replace(made, versions={**made.versions, **self.prints})

    def _write(self) -> None:
        """What there is so far; the tests of significance wait for the whole table."""
        out = self.request.out
        if out is None:
            return
        widths.save(out / "widths.json", self.widths)
        table = self._table(self._shown())
        table.to_json(out / "table.json")
        write_text(out / "table.md", replace(table, metrics=MAIN).to_markdown())

    def _shown(self) -> list[TableRow]:
        """The rows in the order of the table, whatever order they were made in."""
        return [self.rows[key] for key in ROWS if key in self.rows]

    def outcome(self, seconds: float) -> ExperimentReport:
        accuracy = self.test.accuracy()
        remarks = _remarks(accuracy, self.rows)
        if self.request.tf32:
            remarks.append(
                "Products of matrices in TF32; in the steps of MaRC in bfloat16, and what needs no gradients "
                "(faithfulness, occlusion, LIME, Shapley sampling) in float16, on cards that have them."
            )
        table = self._table([*self._shown(), *people(self.test.examples)], remarks)
        own = self.rows.get(MARC)
        parts = sections(table, self.widths, len(self.validation.examples), seconds)
        return ExperimentReport(table, own.title if own else None, MAIN, tuple(parts), TITLE)


def plan(todo: Sequence[RowSpec], test_reviews: int, validation_reviews: int) -> str:
    """What is going to be made, in a line; it says which row takes the most, for it may be left out."""
    if not todo:
        return "all rows are there already"
    dearest = max(todo, key=lambda spec: spec.cost)
    share = dearest.cost / max(1.0, sum(spec.cost for spec in todo))
    scoring = f"; {dearest.key} takes about {share:.0%} of the time for scores (--rows leaves rows out)"
    return (
        f"{len(todo)} rows on {test_reviews} test reviews, widths of smoothing on {validation_reviews} validation "
        f"reviews{scoring if share > 0.3 and len(todo) > 1 else ''}"
    )


def time_left(elapsed: float, share: float) -> str:
    """How long the rest will take if it goes on as it did for this share of the work."""
    return f"about {duration(elapsed * (1 - share) / max(share, 1e-9))} left"


def people(examples: Sequence[Example]) -> list[TableRow]:
    """What further annotators reach against the marks that methods are judged by; only a choice can be judged so."""
    gold = [gold_words(one) for one in examples]
    found = []
    for number, name in enumerate(PEOPLE):
        others = [annotator_words(one)[number : number + 1] for one in examples]
        if any(others):
            reached = human_ceiling(gold, others)
            cells = {key: Cell(tuple(reached[key].tolist())) for key in ("token-f1", "iou-f1")}
            found.append(TableRow(f"People ({name} of further annotators)", cells))
    return found


def _remarks(accuracy: float, keys: Collection[str]) -> list[str]:
    """What must be known of the rows that are there."""
    said = [f"The model classifies {100 * accuracy:.1f} % of these reviews correctly; methods explain the gold label."]
    if set(RIVALS) & set(keys):
        said.append(
            "Rivals have the paper's settings: occlusion of 5 words, integrated gradients with 50 steps from PAD, LIME "
            "with 50 samples that replace 5 to 13 % of the words and the next three, Shapley values from 25 orders."
        )
    if any(key.endswith(SMOOTHED) for key in keys):
        said.append(
            "Smoothed: a Gaussian exp(−d²/s²) over neighbouring words; its width s is chosen on validation reviews by "
            "mAP, the mean of their marks as they are and widened to whole sentences (on them only a part was marked)."
        )
    if SALIENCY_SUM in keys:
        said.append(
            "Saliency, sum: a model that normalises its embeddings (BERT and its relatives) takes out a shift of all "
            "their numbers, so that the sum of a gradient is nothing but rounding; the row is the paper's."
        )
    return said


def _fast(spec: RowSpec) -> RowSpec:
    """The row with coarser products in the steps of MaRC, too, where the card is faster with them."""
    return replace(spec, options={**spec.options, "precision": "auto"}) if spec.method == "marc" else spec


def _prints(model: Model, request: Request, validation: Sequence[Example]) -> dict[str, str]:
    """What must be the same for rows of two runs to stand in one table."""
    code = hashlib.blake2b(digest_size=8)
    for method in METHODS.values():
        code.update(code_fingerprint(method).encode())
    return {
        "weights": model_fingerprint(model)[:16],
        "code": code.hexdigest(),
        "products": "tf32" if request.tf32 else "float32",
        "validation": f"{len(validation)} inputs",
    }


@contextmanager
def _precision(tf32: bool) -> Iterator[None]:
    """Coarser products inside the block, if wanted."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
