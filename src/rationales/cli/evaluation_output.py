"""What `rationales evaluate` prints and writes: tables, a page, and comparisons of protocols."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rationales.errors import OptionError

if TYPE_CHECKING:
    from rationales.evaluation.bias.protocol_comparison import ProtocolComparison
    from rationales.evaluation.tables.table import Table


def show_tables(tables: Mapping[str, Table], out: Path | None, as_json: bool) -> None:
    """Print tables; with a folder also the files of each, and one page with all of them.

    JSON is the table itself, or one object of tables by name where there are several.
    """
    from rationales.report.terminal.metric_table import show_table

    references = {name: _reference(table) for name, table in tables.items()}
    if out is not None:
        for name, table in tables.items():
            write_table(table, out, table.to_markdown(references[name]), name=name)
        _write_page(tables, out)
    if as_json:
        contents = {name: table.to_dict() for name, table in tables.items()}
        content = next(iter(contents.values())) if len(contents) == 1 else contents
        typer.echo(json.dumps(content, ensure_ascii=False, allow_nan=False, default=str))
        return
    for number, (name, table) in enumerate(tables.items()):
        if len(tables) > 1:
            typer.echo(("\n" if number else "") + f"## {name}\n")
        show_table(table, references[name])


def _reference(table: Table) -> str | None:
    """The first row, which the others are tested against; tables of seeds have tests of their own."""
    first = table.rows[0]
    return first.title if first.method != "random" and table.unit == "inputs" else None


def write_table(
    table: Table, out: Path, markdown: str, plotted_metrics: Sequence[str] | None = None, name: str = "table"
) -> None:
    """NAME.md, .csv, .json and a plot; stderr says what was written. `plotted_metrics`: not all, in the plot."""
    from rationales.files import write_text

    write_text(out / f"{name}.md", markdown)
    write_text(out / f"{name}.csv", table.to_csv())
    table.to_json(out / f"{name}.json")
    typer.echo(f"wrote {out / name}.md, {name}.csv, {name}.json", err=True)
    try:
        file_name = "plot.png" if name == "table" else f"{name}.png"
        plot = replace(table, metrics=tuple(plotted_metrics or table.metrics)).plot(out / file_name)
        typer.echo(f"wrote {plot}", err=True)
    except OptionError as error:
        typer.echo(f"no plot: {error}", err=True)


def _write_page(tables: Mapping[str, Table], out: Path) -> None:
    from rationales.files import write_text
    from rationales.report.html.table_page import table_page

    typer.echo(f"wrote {write_text(out / 'tables.html', table_page(tables))}", err=True)


def show_comparison(comparison: ProtocolComparison, out: Path | None, as_json: bool) -> None:
    """Print a comparison of protocols; with a folder also ranking.md and ranking.json."""
    from rationales.files import write_text

    if out is not None:
        write_text(out / "ranking.md", comparison.to_markdown())
        comparison.to_json(out / "ranking.json")
        typer.echo(f"wrote {out / 'ranking.md'}, ranking.json", err=True)
    typer.echo(comparison.to_json() if as_json else comparison.to_markdown(), nl=False)
