"""A table as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from typing import Any

from rationales.errors import InputError
from rationales.evaluation.protocol import WHITESPACE_TOKENS, Protocol
from rationales.evaluation.table import Cell, Row, Table

FORMAT = 1  # raised when the saved form changes so that older files would be misread
_HEAD = ("title", "method", "options", "smooth", "metric", "mean", "low", "high", "n", "inputs", "seconds")
_BEFORE = {"agreement_on": WHITESPACE_TOKENS}  # what tables were made with before the protocol said it
_FORMULA = ("=", "+", "-", "@", "\t", "\n")
_TAIL = ("protocol", "selection", "model", "seed")


def to_csv(table: Table) -> str:
    """One line for each row and metric; what is not known is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*_HEAD, *_TAIL])
    protocol = "" if table.protocol is None else table.protocol.name
    tail = (*map(as_text_cell, (protocol, table.selection, table.model)), table.seed)
    for row in table.rows:
        options = json.dumps(dict(row.options), default=str)
        head = (*map(as_text_cell, (row.title, row.method, options)), _text(row.smooth))
        for name, cell in row.cells.items():
            own = cell.estimate
            numbers = (_text(own.mean), _text(own.low), _text(own.high), own.n, len(table.inputs), _text(row.seconds))
            writer.writerow([*head, as_text_cell(name), *numbers, *tail])
    return buffer.getvalue()


def as_text_cell(text: str) -> str:
    """The text with an apostrophe before it where a spreadsheet would take it for a formula and run it."""
    one_kind = text.replace("\r\n", "\n").replace("\r", "\n")  # a bare \r would not be quoted, and end the line
    return f"'{one_kind}" if one_kind.startswith(_FORMULA) else one_kind


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
        "selection": table.selection,
        "model": table.model,
        "baseline": table.baseline,
        "seed": table.seed,
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
            protocol=None if data["protocol"] is None else Protocol.from_dict(_BEFORE | data["protocol"]),
            selection=data["selection"],
            model=data["model"],
            baseline=data["baseline"],
            seed=data["seed"],
            versions=data["versions"],
            remarks=tuple(data.get("remarks", ())),
            recipe=data.get("recipe", ""),
            unit=data.get("unit", "inputs"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"this is no whole table: {type(error).__name__} {error}") from None


def _row_to_dict(row: Row) -> dict[str, Any]:
    return {
        "title": row.title,
        "method": row.method,
        "options": dict(row.options),
        "smooth": row.smooth,
        "seconds": _number(row.seconds),
        "measuring": _number(row.measuring),
        "failures": dict(row.failures),
        "curves": {name: [_number(one) for one in values] for name, values in row.curves.items()},
        "cells": {
            name: {
                "mean": _number(cell.estimate.mean),
                "low": _number(cell.estimate.low),
                "high": _number(cell.estimate.high),
                "n": cell.estimate.n,
                "values": [_number(one) for one in cell.values],
                **({} if cell.weights is None else {"weights": list(cell.weights)}),
            }
            for name, cell in row.cells.items()
        },
    }


def _row_from_dict(data: Mapping[str, Any]) -> Row:
    cells = {
        name: Cell(tuple(_float(one) for one in cell["values"]), tuple(cell["weights"]) if "weights" in cell else None)
        for name, cell in data["cells"].items()
    }
    curves = {name: tuple(_float(one) for one in values) for name, values in data["curves"].items()}
    return Row(
        data["title"],
        cells,
        data["method"],
        data["options"],
        data["smooth"],
        _float(data["seconds"]),
        data["failures"],
        curves,
        _float(data.get("measuring")),
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _float(value: float | None) -> float:
    return math.nan if value is None else float(value)
