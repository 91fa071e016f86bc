"""Tables in the terminal: the same numbers as in Markdown, best ones bold, control characters harmless."""

from __future__ import annotations

import io
import math

from rich.console import Console

from rationales.evaluation.protocols import PRESETS
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.report.tables import drawn, show_table


def made() -> Table:
    rows = (
        TableRow(
            "marc", {"sufficiency": Cell((0.0, 0.1, 0.2)), "average-precision": Cell((0.5, 0.6, 0.7))}, "marc",
            seconds=1.5,
        ),
        TableRow("evil\x1b[2J", {"sufficiency": Cell((math.nan, 0.4, 0.6))}, "random", {}, None, 0.25),
        TableRow("people", {"average-precision": Cell((math.nan,) * 3)}),
    )  # fmt: skip
    return Table(
        rows, ("sufficiency", "average-precision"), ("a", "b", "c"), PRESETS["marc"], "fitted", "m", "pad", 0, {},
        ("one more thing",),
    )  # fmt: skip


def printed(terminal: bool) -> str:
    buffer = io.StringIO()
    show_table(made(), "marc", Console(file=buffer, force_terminal=terminal, width=100, color_system=None))
    return buffer.getvalue()


def test_a_pipe_gets_markdown():
    assert printed(terminal=False) == made().to_markdown("marc")


def test_a_terminal_gets_means_intervals_and_notes():
    shown = printed(terminal=True)
    assert "| --- |" not in shown
    for part in (".100", ".000–.200", "n = 2", "undefined", "–", "1.5", "one more thing", "Protocol marc", "differs"):
        assert part in shown
    assert "\x1b" not in shown


def test_the_best_of_a_column_is_bold():
    table = drawn(made())
    bold = [str(cell.style) == "bold" for cell in table.columns[1].cells if hasattr(cell, "style")]
    assert bold == [True, False, False]


def test_remarks_survive_a_file(tmp_path):
    made().to_json(tmp_path / "t.json")
    assert Table.from_json(tmp_path / "t.json").remarks == ("one more thing",)
