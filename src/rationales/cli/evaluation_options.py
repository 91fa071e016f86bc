"""Options of `rationales evaluate` that need more than a line, and what it prints and writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rationales.cli.inputs import options
from rationales.errors import OptionError

if TYPE_CHECKING:
    from rationales.evaluation.bias.protocol_comparison import ProtocolComparison
    from rationales.evaluation.protocols import Protocol
    from rationales.evaluation.tables.table import Table


def protocol_named(text: str) -> str | Protocol:
    """The preset that `text` names, with the fields that it sets."""
    from rationales.evaluation.protocols import PRESETS, unknown_protocol

    name, *settings = text.split(":")
    if not settings:
        return name
    if name not in PRESETS:
        raise unknown_protocol(name)
    changed: dict[str, Any] = options(settings, f"--protocol {name}:")
    fields = PRESETS[name].to_dict()
    changes = ", ".join(f"{field}={value}" for field, value in changed.items())
    return replace(type(PRESETS[name]).from_dict(fields | changed), name=f"{name} ({changes})")


def with_filler(rows: Sequence[dict[str, Any]], filler: str | None) -> list[dict[str, Any]]:
    """The rows of methods; those that fill words in and name no filler take this one."""
    if filler is None:
        return list(rows)
    from rationales.methods import METHODS

    filled = []
    for row in rows:
        method = METHODS.get(row["name"])
        takes_one = method is not None and "filler" in method.__dataclass_fields__ and "filler" not in row["options"]
        # without a title of its own the row would be called after the filler
        filled.append(
            row | {"options": row["options"] | {"filler": filler}, "title": row.get("title", _title(row))}
            if takes_one
            else row
        )
    return filled


def _title(row: dict[str, Any]) -> str:
    settings = [f"{name}={value}" for name, value in row["options"].items()]
    settings += [f"smooth {row['smooth']:g}"] if "smooth" in row else []
    settings += [f"shape {row['shape']}"] if "shape" in row else []
    return f"{row['name']} ({', '.join(settings)})" if settings else str(row["name"])


def check_comparison(
    compared: Sequence[str | Protocol], base: str | Protocol, metrics: Sequence[str] | None, selection: str | None
) -> None:
    """Say what is wrong with --protocols before anything is loaded."""
    from rationales.evaluation.bias.protocol_comparison import compared_metrics
    from rationales.evaluation.bias.removal_operations import resolve_protocols
    from rationales.evaluation.protocols import find_protocol

    if selection is not None:
        raise OptionError("--selection is for metrics of selected words; --protocols compares those that remove words")
    resolve_protocols(compared, base, "text")
    compared_metrics(metrics, find_protocol(base))


def show_tables(tables: Mapping[str, Table], out: Path | None, as_json: bool) -> None:
    """Print tables; with a folder also the files of each, and one page with all of them.

    JSON is the table itself, or one object of tables by name where there are several.
    """
    from rationales.report.terminal.metric_table import show_table

    references = {name: _reference(table) for name, table in tables.items()}
    if out is not None:
        for name, table in tables.items():
            write_table(table, out, table.to_markdown(references[name]), name=name)
        _write_page(tables, references, out)
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
    """The first row with values, which the others are tested against; tables of seeds have tests of their own."""
    first = next((row for row in table.rows if row.cells), table.rows[0])
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


def _write_page(tables: Mapping[str, Table], references: Mapping[str, str | None], out: Path) -> None:
    from rationales.files import write_text
    from rationales.report.html.table_page import table_page

    page = table_page(tables, references=references)
    typer.echo(f"wrote {write_text(out / 'tables.html', page)}", err=True)


def show_comparison(comparison: ProtocolComparison, out: Path | None, as_json: bool) -> None:
    """Print a comparison of protocols; with a folder also ranking.md and ranking.json."""
    from rationales.files import write_text

    if out is not None:
        write_text(out / "ranking.md", comparison.to_markdown())
        comparison.to_json(out / "ranking.json")
        typer.echo(f"wrote {out / 'ranking.md'}, ranking.json", err=True)
    typer.echo(comparison.to_json() if as_json else comparison.to_markdown(), nl=False)
