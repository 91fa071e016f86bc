"""A table as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rationales.errors import InputError
from rationales.evaluation.protocols import WHITESPACE_TOKENS, Protocol
from rationales.evaluation.tables.table import Cell, Table, TableRow

FORMAT = 1  # raised when the saved form changes so that older files would be misread
_ROW_COLUMNS = (
    "title",
    "method",
    "options",
    "smooth",
    "shape",
    "metric",
    "mean",
    "low",
    "high",
    "n",
    "inputs",
    "seconds",
)
_OLD_DEFAULTS = {"agreement_on": WHITESPACE_TOKENS}  # of saved tables whose protocol has no such field
_OLD_NAMES = {"least": "min_units"}  # fields of the protocol that were renamed
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")
_TABLE_COLUMNS = ("protocol", "selection", "model", "seed")
_REASONS = ("not_applicable", "failed")  # of a row without cells
_PASSES = ("forward_passes", "backward_passes")  # of a row, where they were counted
_COPIED_FIELDS = ("selection", "model", "baseline", "seed")  # of a table, saved as they are


def to_csv(table: Table) -> str:
    """One line for each row and metric; what is not known is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*_ROW_COLUMNS, *_TABLE_COLUMNS])
    protocol = "" if table.protocol is None else table.protocol.name
    tail = (*map(as_text_cell, (protocol, table.selection, table.model)), table.seed)
    for row in table.rows:
        options = json.dumps(dict(row.options), default=str)
        head = (*map(as_text_cell, (row.title, row.method, options)), _text(row.smooth), row.shape or "")
        for name, cell in row.cells.items():
            estimate = cell.estimate
            interval = map(_text, (estimate.mean, estimate.low, estimate.high))
            numbers = (*interval, estimate.n, len(table.inputs), _text(row.seconds))
            writer.writerow([*head, as_text_cell(name), *numbers, *tail])
        for name in table.metrics if row.not_applicable or row.failed else ():
            numbers = (row.placeholder, "", "", 0, len(table.inputs), "")
            writer.writerow([*head, as_text_cell(name), *numbers, *tail])
    return buffer.getvalue()


def as_text_cell(text: str) -> str:
    """The text with an apostrophe before it where a spreadsheet would take it for a formula and run it."""
    unix_text = text.replace("\r\n", "\n").replace("\r", "\n")  # a bare \r would not be quoted, and end the line
    return f"'{unix_text}" if unix_text.startswith(_FORMULA_STARTS) else unix_text


def _text(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(value)


def to_dict(table: Table) -> dict[str, Any]:
    """Plain data for JSON: everything `from_dict` needs, and the estimates for other programs."""
    return {
        "format": FORMAT,
        "metrics": list(table.metrics),
        "inputs": list(table.inputs),
        "protocol": None if table.protocol is None else table.protocol.to_dict(),
        "described": table.recipe if table.protocol is None else table.protocol.describe(),
        **{name: getattr(table, name) for name in _COPIED_FIELDS},
        "versions": dict(table.versions),
        "remarks": list(table.remarks),
        "recipe": table.recipe,
        "unit": table.unit,
        "rows": [_row_to_dict(row) for row in table.rows],
    }


def from_dict(data: Mapping[str, Any]) -> Table:
    """The inverse of `to_dict`."""
    if data.get("format") != FORMAT:
        raise InputError(f"the table has format {data.get('format')!r}; this version reads format {FORMAT}")
    try:
        return Table(
            rows=tuple(_row_from_dict(row) for row in data["rows"]),
            metrics=tuple(data["metrics"]),
            inputs=tuple(data["inputs"]),
            protocol=None if data["protocol"] is None else _protocol_from_dict(data["protocol"]),
            **{name: data[name] for name in _COPIED_FIELDS},
            versions=data["versions"],
            remarks=tuple(data.get("remarks", ())),
            recipe=data.get("recipe", ""),
            unit=data.get("unit", "inputs"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"this is no whole table: {type(error).__name__} {error}") from None


def _protocol_from_dict(data: Mapping[str, Any]) -> Protocol:
    return Protocol.from_dict(_OLD_DEFAULTS | {_OLD_NAMES.get(name, name): value for name, value in data.items()})


def _row_to_dict(row: TableRow) -> dict[str, Any]:
    return {
        "title": row.title,
        "method": row.method,
        "options": dict(row.options),
        "smooth": row.smooth,
        "shape": row.shape,
        "seconds": _number(row.seconds),
        "measuring": _number(row.measuring),
        "steps": _number(row.steps),
        "settled": _number(row.settled),
        **{name: value for name in _REASONS if (value := getattr(row, name))},
        **{name: value for name in _PASSES if not math.isnan(value := getattr(row, name))},
        "failures": dict(row.failures),
        "curves": _numbers(row.curves),
        **({"run_means": _numbers(row.run_means)} if row.run_means else {}),
        "cells": {
            name: {
                "mean": _number(cell.estimate.mean),
                "low": _number(cell.estimate.low),
                "high": _number(cell.estimate.high),
                "n": cell.estimate.n,
                "values": [_number(value) for value in cell.values],
                **({} if cell.weights is None else {"weights": list(cell.weights)}),
                **({} if cell.recalls is None else {"recalls": [_number(value) for value in cell.recalls]}),
            }
            for name, cell in row.cells.items()
        },
    }


def _row_from_dict(data: Mapping[str, Any]) -> TableRow:
    cells = {
        name: Cell(
            tuple(map(_float, cell["values"])),
            tuple(cell["weights"]) if "weights" in cell else None,
            tuple(map(_float, cell["recalls"])) if "recalls" in cell else None,
        )
        for name, cell in data["cells"].items()
    }
    copied = {name: data[name] for name in ("title", "method", "options", "smooth", "failures")}
    seconds, measuring = _float(data["seconds"]), _float(data.get("measuring"))
    return TableRow(
        **copied,
        cells=cells,
        curves=_floats(data["curves"]),
        run_means=_floats(data.get("run_means", {})),
        seconds=seconds,
        measuring=measuring,
        shape=data.get("shape"),
        steps=_float(data.get("steps")),
        settled=_float(data.get("settled")),
        not_applicable=data.get("not_applicable", ""),
        failed=data.get("failed", ""),
        forward_passes=_float(data.get("forward_passes")),
        backward_passes=_float(data.get("backward_passes")),
    )


def _numbers(values_by_name: Mapping[str, Sequence[float]]) -> dict[str, list[float | None]]:
    return {name: [_number(value) for value in values] for name, values in values_by_name.items()}


def _floats(values_by_name: Mapping[str, Sequence[float | None]]) -> dict[str, tuple[float, ...]]:
    return {name: tuple(map(_float, values)) for name, values in values_by_name.items()}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _float(value: float | None) -> float:
    return math.nan if value is None else float(value)
