"""A table of methods and metrics in the terminal; where nobody watches, as Markdown."""

from __future__ import annotations

import math

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from rationales.evaluation.metrics import direction
from rationales.evaluation.tables.table import Table, TableRow, short
from rationales.report.terminal import safe

NARROW = 9  # characters of a heading that stay on one line


def show_table(table: Table, reference: str | None = None, console: Console | None = None) -> None:
    """Print the table: drawn on a terminal, with intervals below the means; as Markdown into a pipe or a file."""
    console = console or Console()
    if not console.is_terminal:
        console.file.write(table.to_markdown(reference))
        return
    console.print(drawn(table, reference))
    for line in filter(None, table.notes(reference)):
        console.print(Text(safe(line), style="dim"))


def drawn(table: Table, reference: str | None = None) -> RichTable:
    """The table for a terminal; the best mean of every column is bold, chance left aside."""
    stars = table.stars(reference)
    best = {name: _best(table, name) for name in table.metrics}
    made = RichTable(box=SIMPLE_HEAD, pad_edge=False)
    made.add_column("method", overflow="fold")
    for name in table.metrics:
        made.add_column(_heading(name), justify="right")
    timed = any(not math.isnan(row.seconds) for row in table.rows)
    if timed:
        made.add_column("s / input", justify="right")
    for row in table.rows:
        cells = [_cell(table, row, name, (row.title, name) in stars, best[name]) for name in table.metrics]
        seconds = [Text("–" if math.isnan(row.seconds) else f"{row.seconds:.3g}")] if timed else []
        made.add_row(Text(safe(row.title)), *cells, *seconds)
    return made


def _heading(name: str) -> str:
    """The name on short lines: columns are as wide as their numbers, not as their names."""
    return (name.replace("-", "-\n") if len(name) > NARROW else name).replace("@", "\n@") + direction(name)


def _best(table: Table, name: str) -> float:
    """The best mean of a column; NaN where neither way is better."""
    arrow = direction(name).strip()
    means = [row.cells[name].estimate.mean for row in table.rows if name in row.cells and row.method]
    known = [mean for mean in means if not math.isnan(mean)]
    return (max(known) if arrow == "↑" else min(known)) if known and arrow else math.nan


def _cell(table: Table, row: TableRow, name: str, star: bool, best: float) -> Text:
    if name not in row.cells:
        return Text("–", style="dim")
    own = row.cells[name].estimate
    if own.n == 0:
        return Text("undefined", style="dim")
    text = Text(short(own.mean) + ("*" if star else ""), style="bold" if own.mean == best else "")
    if not math.isnan(own.low):
        text.append(f"\n{short(own.low)}–{short(own.high)}", style="not bold dim")
    if own.n < len(table.inputs):
        text.append(f"\nn = {own.n}", style="not bold dim")
    return text
