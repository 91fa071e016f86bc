"""A table of methods and metrics: drawn on a terminal, Markdown elsewhere."""

from __future__ import annotations

import math

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from rationales.evaluation.metrics import direction
from rationales.evaluation.tables.table import Table, TableRow, short
from rationales.report.terminal.show import safe

MAX_HEADING_WIDTH = 9  # characters; longer headings are broken at hyphens


def show_table(table: Table, reference: str | None = None, console: Console | None = None) -> None:
    """Print the table: drawn on a terminal, with intervals below the means; as Markdown into a pipe or a file."""
    console = console or Console()
    if not console.is_terminal:
        console.file.write(table.to_markdown(reference))
        return
    console.print(rich_table(table, reference))
    for line in filter(None, table.notes(reference)):
        console.print(Text(safe(line), style="dim"))


def rich_table(table: Table, reference: str | None = None) -> RichTable:
    """The table as a rich table; the best mean of every column is bold, chance excluded."""
    stars = table.stars(reference)
    best = {name: _best(table, name) for name in table.metrics}
    rendered = RichTable(box=SIMPLE_HEAD, pad_edge=False)
    rendered.add_column("method", overflow="fold")
    for name in table.metrics:
        rendered.add_column(_heading(name), justify="right")
    timed = any(not math.isnan(row.seconds) for row in table.rows)
    if timed:
        rendered.add_column("s / input", justify="right")
    for row in table.rows:
        cells = [_cell(table, row, name, (row.title, name) in stars, best[name]) for name in table.metrics]
        seconds = [Text("–" if math.isnan(row.seconds) else f"{row.seconds:.3g}")] if timed else []
        rendered.add_row(Text(safe(row.title)), *cells, *seconds)
    return rendered


def _heading(name: str) -> str:
    """The metric's name broken into short lines, so that columns are only as wide as their numbers."""
    return (name.replace("-", "-\n") if len(name) > MAX_HEADING_WIDTH else name).replace("@", "\n@") + direction(name)


def _best(table: Table, name: str) -> float:
    """The best mean of a column; NaN where neither direction is better."""
    arrow = direction(name).strip()
    means = [row.cells[name].estimate.mean for row in table.rows if name in row.cells and row.method]
    known = [mean for mean in means if not math.isnan(mean)]
    return (max(known) if arrow == "↑" else min(known)) if known and arrow else math.nan


def _cell(table: Table, row: TableRow, name: str, star: bool, best: float) -> Text:
    if name not in row.cells:
        return Text(row.placeholder, style="dim")
    estimate = row.cells[name].estimate
    if estimate.n == 0:
        return Text("undefined", style="dim")
    text = Text(short(estimate.mean) + ("*" if star else ""), style="bold" if estimate.mean == best else "")
    if not math.isnan(estimate.low):
        text.append(f"\n{short(estimate.low)}–{short(estimate.high)}", style="not bold dim")
    if estimate.n < len(table.inputs):
        text.append(f"\nn = {estimate.n}", style="not bold dim")
    return text
