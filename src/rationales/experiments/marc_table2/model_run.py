"""The table of one model: its rows, each computed once and written to a file, so that a stopped run continues."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rationales.data import Example
from rationales.errors import ModelError, NotApplicableError, OptionError, RationalesError
from rationales.evaluation.entries import MethodEntry, resolve_entries
from rationales.evaluation.preparation import PreparedEvaluation, prepare_evaluation
from rationales.evaluation.scores.cache import model_fingerprint
from rationales.evaluation.scores.code_fingerprint import code_fingerprint
from rationales.evaluation.tables.table import Table, TableRow
from rationales.experiments.marc_table2.row_specs import (
    CONVOLUTIONAL,
    MARC,
    MARC_PRESETS,
    METRICS,
    ROWS,
    TRANSFORMER,
    PictureRow,
)
from rationales.experiments.registry import Request
from rationales.models.image.model import ImageModel

PROTOCOL = "marc-images"
FAMILY, ACCURACY, PRECISION = "family of the network", "accuracy", "forward passes"  # entries of a table's versions
HALF = "half"  # precision


@dataclass(eq=False)
class ModelRun:
    """A model with its pictures; `compute` adds the rows that are missing."""

    model: ImageModel
    examples: Sequence[Example]
    request: Request
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # row -> options for a shorter run
    rows: dict[str, TableRow] = field(default_factory=dict)  # by key
    _prepared: dict[tuple[str, ...], PreparedEvaluation] = field(default_factory=dict, repr=False)

    def compute(
        self,
        specs: Sequence[PictureRow],
        report: Callable[[float], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Table:
        """The table of these rows, computed from cheap to expensive; no row is begun after a `stop`."""
        self._carry_over([spec for spec in ROWS.values() if spec.registered])
        todo = sorted((spec for spec in specs if spec.key not in self.rows), key=lambda spec: spec.passes)
        total = sum(self._cost(spec) for spec in todo) or 1.0
        done = 0.0
        for spec in todo:
            if stop():
                self._tell(f"{self.model.name}: no time is left for {spec.title}")
                continue
            began = time.perf_counter()
            share = self._cost(spec) / total
            progress = None if report is None else _progress_share(report, done, share)
            self.rows[spec.key] = self.measure(spec, progress)
            done += share
            self._write()
            self._tell(f"{self.model.name}: {_line(self.rows[spec.key])}  ({time.perf_counter() - began:.1f} s)")
        return self.table(specs)

    def table(self, specs: Sequence[PictureRow]) -> Table:
        """The rows so far, in the order of the table."""
        prepared = self._evaluation(())
        rows = [self.rows[spec.key] for spec in specs if spec.key in self.rows]
        table = prepared.table([replace(row, options=dict(row.options)) for row in rows])
        facts = {**self._fingerprints(specs), ACCURACY: f"{self.accuracy():.6f}"}
        return with_remarks(replace(table, versions={**table.versions, **facts}))

    def accuracy(self) -> float:
        """Share of the pictures that the model classifies correctly."""
        return self._evaluation(()).accuracy()

    @property
    def family(self) -> str:
        """Whether the network is a transformer or convolutional."""
        names = {type(submodule).__name__.lower() for submodule in self.model.module.modules()}
        return TRANSFORMER if any("attention" in name for name in names) else CONVOLUTIONAL

    def _cost(self, spec: PictureRow) -> float:
        """Approximate work of a row, in forward passes; measuring takes 19 levels, 4 baselines and both sides."""
        steps = {"marc": 400, "meaningful-perturbation": 300, "extremal-perturbation": 1800}.get(spec.method, 1)
        return 152 + spec.passes * steps * (3 if spec.backward else 1)

    def measure(self, spec: PictureRow, progress: Callable[[float], None] | None = None) -> TableRow:
        """The row of a method; one without cells where it is not defined for the model, or where it fails."""
        if spec.needs_relu and self.family == TRANSFORMER:
            reason = "a transformer has no ReLUs, and without them it is the plain gradient"
            return TableRow(spec.title, {}, spec.method, not_applicable=reason)
        try:
            baselines = spec.baselines
            if spec.key == MARC:
                preset, baselines = MARC_PRESETS[self.family]
                spec = replace(spec, options={"preset": preset, "precision": "auto"})
            if further := self.options.get(spec.key):
                spec = replace(spec, options={**spec.options, **further}, preset="")
            entry = MethodEntry(spec.method, method=spec.build(), title=spec.title)
            resolved = resolve_entries([entry], None, "image")[:1]
            (row,) = self._evaluation(baselines).rows(resolved, progress)
        except NotApplicableError as error:
            return TableRow(spec.title, {}, spec.method, not_applicable=str(error))
        except (ModelError, OptionError) as error:
            return TableRow(spec.title, {}, spec.method, failed=str(error))
        return row

    def _evaluation(self, baselines: tuple[str, ...]) -> PreparedEvaluation:
        """The evaluation with these baselines for what methods replace; those of the protocol are always its own."""
        if baselines not in self._prepared:
            model = replace(self.model, baselines=baselines) if baselines else self.model
            boxes = any(example.boxes for example in self.examples)
            metrics = METRICS if boxes else METRICS[:2]
            self._prepared[baselines] = prepare_evaluation(
                model, self.examples, PROTOCOL, metrics, seed=self.request.seed, cache=self.request.cache,
                coarse=self.request.tf32,
            )  # fmt: skip
        return self._prepared[baselines]

    def _in_half_precision(self) -> bool:
        """Whether what needs no gradients runs on a copy in half precision."""
        settings = self._evaluation(()).settings
        return settings.forward_model is not settings.model

    def _fingerprints(self, specs: Sequence[PictureRow]) -> dict[str, str]:
        """What must be equal for rows of two runs to belong to one table: weights, and of each row code and options."""
        codes = {f"code of {spec.key}": self._code(spec) for spec in specs}
        precision = HALF if self._in_half_precision() else "single"
        weights = model_fingerprint(self.model)[:16]
        return {"weights": weights, PRECISION: precision, FAMILY: self.family, **codes}

    def _code(self, spec: PictureRow) -> str:
        settings = sorted(self.options.get(spec.key, {}).items())
        text = f"{code_fingerprint(type(spec.build()))} {settings!r}"
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def _path(self) -> Path | None:
        out = self.request.out
        return None if out is None else out / "models" / f"{self.model.name.replace('/', '-')}.json"

    def _write(self) -> None:
        """All rows so far, those of earlier runs included."""
        path = self._path()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.table([spec for spec in ROWS.values() if spec.key in self.rows]).to_json(path)

    def _carry_over(self, specs: Sequence[PictureRow]) -> None:
        """Take the rows of an earlier run with the same weights, pictures, seed, options and code, but failed ones."""
        path = self._path()
        if path is None or not path.is_file():
            return
        try:
            old = Table.from_json(path)
        except RationalesError:
            return
        mine = self._fingerprints(specs)
        names = tuple(self._evaluation(()).names)
        same_model = all(old.versions.get(name) == mine[name] for name in ("weights", PRECISION))
        if not same_model or (old.inputs, old.seed) != (names, self.request.seed):
            self._tell(f"{path} is of other weights or pictures, another precision or seed; it is written anew")
            return
        titles = {row.title: row for row in old.rows}
        for spec in specs:
            name = f"code of {spec.key}"
            row = titles.get(spec.title)
            if row is not None and (row.cells or row.not_applicable) and old.versions.get(name) == mine[name]:
                self.rows[spec.key] = row

    def _tell(self, line: str) -> None:
        if self.request.log is not None:
            self.request.log(line)


def with_remarks(table: Table) -> Table:
    """The table with what a reader should know: accuracy, precision, how masks stopped."""
    remarks = [f"The model classifies {100 * float(table.versions[ACCURACY]):.1f} % of these pictures correctly."]
    if table.versions[PRECISION] == HALF:
        remarks.append("Forward passes without gradients ran in half precision.")
    remarks += [
        f"{row.title}: {row.steps:.0f} steps on average; its rule ended {row.settled:.0%} of them."
        for row in table.rows
        if row.method == "marc" and not math.isnan(row.settled) and row.options.get("stop") != "steps"
    ]
    return replace(table, remarks=(*table.remarks, *remarks))


def _progress_share(report: Callable[[float], None], begin: float, share: float) -> Callable[[float], None]:
    return lambda done: report(begin + share * min(done, 1.0))


def _line(row: TableRow) -> str:
    if not row.cells:
        return f"{row.title}: {row.placeholder}"
    return f"{row.title}: " + "  ".join(f"{name} {cell.estimate.mean:.3f}" for name, cell in row.cells.items())
