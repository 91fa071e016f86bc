"""Tables in the terminal: the same numbers as in Markdown, best ones bold, control characters harmless."""

from __future__ import annotations

import io
import math

from rich.console import Console

from rationales.evaluation.protocols import PRESETS
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.report.terminal.metric_table import rich_table, show_table


def small_table() -> Table:
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
    show_table(small_table(), "marc", Console(file=buffer, force_terminal=terminal, width=100, color_system=None))
    return buffer.getvalue()


def test_a_pipe_gets_markdown():
    assert printed(terminal=False) == small_table().to_markdown("marc")


def test_a_terminal_gets_means_intervals_and_notes():
    output = printed(terminal=True)
    assert "| --- |" not in output
    for fragment in (
        ".100",
        ".000–.200",
        "n = 2",
        "undefined",
        "–",
        "1.5",
        "one more thing",
        "Protocol marc",
        "differs",
    ):
        assert fragment in output
    assert "\x1b" not in output


def test_the_best_of_a_column_is_bold():
    table = rich_table(small_table())
    bold = [str(cell.style) == "bold" for cell in table.columns[1].cells if hasattr(cell, "style")]
    assert bold == [True, False, False]


def test_remarks_survive_a_file(tmp_path):
    small_table().to_json(tmp_path / "t.json")
    assert Table.from_json(tmp_path / "t.json").remarks == ("one more thing",)
