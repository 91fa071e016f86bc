"""A table of methods and metrics, with the value of every input, from which intervals and tests are computed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rationales.data_frames import import_pandas
from rationales.errors import InputError, OptionError
from rationales.evaluation.metrics import direction, uses_selection
from rationales.evaluation.protocols import Protocol
from rationales.evaluation.tables.statistics import Comparison, Estimate, compare, estimate, holm
from rationales.files import read_text, write_text

if TYPE_CHECKING:
    import pandas as pd

SIGNIFICANCE_LEVEL = 0.05


@dataclass(frozen=True)
class Cell:
    """One metric of one row: a value for every input, NaN where it is not defined."""

    values: tuple[float, ...]
    weights: tuple[float, ...] | None = None
    recalls: tuple[float, ...] | None = None  # values are precisions; the cell is the F1 of both means

    @cached_property
    def estimate(self) -> Estimate:
        """The mean, its 95 % bootstrap interval and the number of inputs that have a value."""
        weights, recalls = (None if array is None else np.array(array) for array in (self.weights, self.recalls))
        return estimate(np.array(self.values), weights, recalls=recalls)


@dataclass(frozen=True)
class TableRow:
    """One method with its settings."""

    title: str
    cells: Mapping[str, Cell]  # by metric; metrics that do not apply to a row (people, probabilities) are left out
    method: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    smooth: float | None = None
    seconds: float = math.nan  # per input
    failures: Mapping[str, str] = field(default_factory=dict)  # input -> why it has no scores
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # share, kept, removed: means over inputs
    measuring: float = field(default=math.nan, compare=False)  # seconds per input that faithfulness took
    shape: str | None = None  # of the rationale, which agreement with people is measured on
    steps: float = field(default=math.nan, compare=False)  # mean number of optimisation steps per input
    settled: float = field(default=math.nan, compare=False)  # share of inputs that the method's own rule ended
    run_means: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # of cells that are means over runs
    not_applicable: str = ""  # why the method is not defined for the model; then the row has no cells
    failed: str = ""  # the error that ended the row; then it has no cells either
    forward_passes: float = field(default=math.nan, compare=False)  # of the method, per input
    backward_passes: float = field(default=math.nan, compare=False)  # those of them with a backward pass

    @property
    def placeholder(self) -> str:
        """What stands in place of a metric that this row has no cell for."""
        return "n/a" if self.not_applicable else "failed" if self.failed else "–"


@dataclass(frozen=True)
class Table:
    """The result of `evaluate`: rows, and everything needed to read and to repeat them."""

    rows: tuple[TableRow, ...]
    metrics: tuple[str, ...]
    inputs: tuple[str, ...]  # the names of the examples, or of whatever else values are of (see `unit`)
    protocol: Protocol | None  # None: no metric here removes units, and `recipe` says what is measured
    selection: str
    model: str
    baseline: str
    seed: int
    versions: Mapping[str, str]
    remarks: tuple[str, ...] = ()  # further notes for the reader
    recipe: str = ""  # what is measured, where no protocol says it
    unit: str = "inputs"  # what values are of: inputs, or runs with the mean of each

    def __getitem__(self, title: str) -> TableRow:
        for row in self.rows:
            if row.title == title:
                return row
        raise OptionError(f"the table has no row {title!r}; its rows are: {', '.join(row.title for row in self.rows)}")

    def with_row(self, title: str, values: Mapping[str, Sequence[float]], **fields: Any) -> Table:
        """The table with another row, such as the agreement between people; values are (inputs,) by metric."""
        for name, metric_values in values.items():
            if len(metric_values) != len(self.inputs):
                raise OptionError(f"{len(metric_values)} values of {name} for the table's {len(self.inputs)} inputs")
        cells = {name: Cell(tuple(float(value) for value in metric_values)) for name, metric_values in values.items()}
        return replace(self, rows=(*self.rows, TableRow(title, cells, **fields)))

    def against(self, reference: str, *, seed: int = 0) -> dict[str, dict[str, Comparison]]:
        """metric -> row -> how it differs from the reference: paired sign flips, p corrected over rows after Holm."""
        reference_row = self[reference]
        comparisons: dict[str, dict[str, Comparison]] = {}
        for name in self.metrics:
            if name not in reference_row.cells:
                continue
            by_row = {
                row.title: compare_cells(row.cells[name], reference_row.cells[name], seed)
                for row in self.rows
                if row.title != reference and name in row.cells
            }
            adjusted = holm([comparison.p for comparison in by_row.values()])
            pairs = zip(by_row.items(), adjusted, strict=True)
            comparisons[name] = {title: replace(comparison, adjusted=value) for (title, comparison), value in pairs}
        return comparisons

    def stars(self, reference: str | None) -> set[tuple[str, str]]:
        """(row, metric) of all cells that differ from the reference row significantly."""
        comparisons = self.against(reference) if reference is not None else {}
        return {
            (row, name)
            for name, by_row in comparisons.items()
            for row, comparison in by_row.items()
            if comparison.adjusted < SIGNIFICANCE_LEVEL
        }

    def to_markdown(self, reference: str | None = None) -> str:
        """The table for a document; with a reference row, cells that differ from it significantly carry a star."""
        stars = self.stars(reference)
        names = [f"{name}{direction(name)}" for name in self.metrics]
        timed = any(not math.isnan(row.seconds) for row in self.rows)
        lines = ["| " + " | ".join(["method", *names, *(["s / input"] if timed else [])]) + " |"]
        lines.append("| --- " * (lines[0].count("|") - 1) + "|")
        for row in self.rows:
            cells = [self._cell(row, name, stars) for name in self.metrics]
            seconds = ["–" if math.isnan(row.seconds) else f"{row.seconds:.3g}"] if timed else []
            lines.append("| " + " | ".join([_in_markdown(row.title), *cells, *seconds]) + " |")
        return "\n".join([*lines, "", *self.notes(reference)]) + "\n"

    def notes(self, reference: str | None = None) -> list[str]:
        """The notes below a table: how it was computed and how to read it."""
        where = f"Model {self.model}, baseline {self.baseline}, {len(self.inputs)} {self.unit}, seed {self.seed}"
        notes = [
            f"{where}; means with 95 % bootstrap intervals over {self.unit}.",
            self.recipe if self.protocol is None else f"Protocol {self.protocol.describe()}.",
        ]
        ruled = self.protocol is not None and self.selection != self.protocol.selection
        if ruled and any(map(uses_selection, self.metrics)):
            notes.append(f"Words were selected by {self.selection}.")
        if reference is not None:
            notes.append(
                f"* differs from {reference} with p < {SIGNIFICANCE_LEVEL} (paired sign flips, corrected after Holm)."
            )
        notes += [
            f"{row.title}: no scores for {len(row.failures)} of {len(self.inputs)} inputs "
            f"({next(iter(row.failures))}: {next(iter(row.failures.values()))})."
            for row in self.rows
            if row.failures
        ]
        notes += [*self.gap_notes(), *self.remarks]
        return [line for note in notes for line in (note, "")][:-1]

    def gap_notes(self) -> list[str]:
        """For every row without cells the reason: a method that is not defined for the model, or an error."""
        return [
            f"{row.title}: {row.placeholder} ({reason.rstrip('.')})."
            for row in self.rows
            if (reason := row.not_applicable or row.failed)
        ]

    def _cell(self, row: TableRow, name: str, stars: set[tuple[str, str]]) -> str:
        if name not in row.cells:
            return row.placeholder
        estimate = row.cells[name].estimate
        if estimate.n == 0:
            return "undefined (n = 0)"
        star = "*" if (row.title, name) in stars else ""
        interval = "" if math.isnan(estimate.low) else f" [{short(estimate.low)} {short(estimate.high)}]"
        missing = "" if estimate.n == len(self.inputs) else f" (n = {estimate.n})"
        return f"{short(estimate.mean)}{star}{interval}{missing}"

    def to_csv(self) -> str:
        """One line for each row and metric."""
        from rationales.evaluation.tables.formats import to_csv

        return to_csv(self)

    def to_frame(self) -> pd.DataFrame:
        """A DataFrame with a row for each method and the columns of `frame_records`; needs pandas."""
        frame: pd.DataFrame = import_pandas().DataFrame(self.frame_records())
        return frame

    def frame_records(self) -> list[dict[str, Any]]:
        """For each method its name, settings, seconds, and of each metric the mean and the bounds of its interval."""
        records = []
        for row in self.rows:
            record: dict[str, Any] = {"row": row.title, "method": row.method, "smooth": row.smooth, "shape": row.shape}
            record["seconds"] = row.seconds
            for name in self.metrics:
                if name in row.cells:
                    value = row.cells[name].estimate
                    record |= {name: value.mean, f"{name} low": value.low, f"{name} high": value.high}
            records.append(record)
        return records

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: everything `from_dict` needs, and the estimates for other programs."""
        from rationales.evaluation.tables.formats import to_dict

        return to_dict(self)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """`to_dict` as a JSON text; written to `path` when one is given."""
        content = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, default=str) + "\n"
        if path is not None:
            write_text(path, content)
        return content

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Table:
        """The inverse of `to_dict`."""
        from rationales.evaluation.tables.formats import from_dict

        return from_dict(data)

    @classmethod
    def from_json(cls, source: str | os.PathLike[str]) -> Table:
        """Read what `to_json` made: the text itself, or the path of a file."""
        text = str(source) if isinstance(source, str) and source.lstrip().startswith("{") else read_text(source)
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"this is not JSON (line {error.lineno}): {error.msg}") from None
        if not isinstance(data, dict):
            raise InputError("this JSON holds no table")
        return cls.from_dict(data)

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Draw one panel for each metric, a dot with its interval for each row; the ending says png, svg or pdf."""
        from rationales.evaluation.tables.plotting import plot

        return plot(self, path)

    def _repr_html_(self) -> str:
        from rationales.evaluation.tables.table_html import to_html

        return to_html(self)

    def __str__(self) -> str:
        return self.to_markdown()


def compare_cells(row: Cell, reference: Cell, seed: int = 0) -> Comparison:
    """How two cells of the same inputs differ: paired sign flips."""
    weights = recalls = None
    if row.weights is not None and reference.weights is not None:
        weights = (np.array(row.weights), np.array(reference.weights))
    if row.recalls is not None and reference.recalls is not None:
        recalls = (np.array(row.recalls), np.array(reference.recalls))
    return compare(np.array(row.values), np.array(reference.values), weights, recalls=recalls, seed=seed)


def _in_markdown(title: str) -> str:
    """A title that stays in its cell: on one line, with its vertical bars escaped."""
    return " ".join(title.split()).replace("|", "\\|")


def short(value: float) -> str:
    """.469, −.047, 12.3: three figures after the point below 1, as the papers print them."""
    text = f"{abs(value):.3f}" if abs(value) < 9.9995 else f"{abs(value):.4g}"
    sign = "−" if value < 0 and float(text) != 0 else ""
    return sign + (text[1:] if text.startswith("0.") else text)
