"""A table as HTML for notebooks: plain elements, everything escaped, nothing fetched."""

from __future__ import annotations

import math
from html import escape

from rationales.evaluation.metrics import direction
from rationales.evaluation.tables.table import Table, TableRow, short


def to_html(table: Table, reference: str | None = None) -> str:
    """Means with their intervals, and the notes below; cells that differ from a reference row carry a star."""
    stars = table.stars(reference)
    timed = any(not math.isnan(row.seconds) for row in table.rows)
    heads = ["method", *(f"{name}{direction(name)}" for name in table.metrics), *(["s / input"] if timed else [])]
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in heads)
    body = "".join(f"<tr>{_row(table, row, timed, stars)}</tr>" for row in table.rows)
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes(reference) if note)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><small>{notes}</small>"


def _row(table: Table, row: TableRow, timed: bool, stars: set[tuple[str, str]]) -> str:
    cells = [_cell(table, row, name, "*" if (row.title, name) in stars else "") for name in table.metrics]
    if timed:
        cells.append("–" if math.isnan(row.seconds) else f"{row.seconds:.3g}")
    return f'<th scope="row">{escape(row.title)}</th>' + "".join(f"<td>{cell}</td>" for cell in cells)


def _cell(table: Table, row: TableRow, name: str, star: str) -> str:
    if name not in row.cells:
        return row.placeholder
    estimate = row.cells[name].estimate
    if estimate.n == 0:
        return "undefined"
    interval = "" if math.isnan(estimate.low) else f"<br><small>{short(estimate.low)} … {short(estimate.high)}</small>"
    missing = "" if estimate.n == len(table.inputs) else f"<br><small>n = {estimate.n}</small>"
    return f"{short(estimate.mean)}{star}{interval}{missing}"
