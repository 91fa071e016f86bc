"""Table 2 of the AML paper from the rows of several runs."""

from __future__ import annotations

import json

import pytest

from bench import prompt_tables
from rationales.evaluation.protocols import find_protocol
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.experiments.aml.row_specs import COLUMNS, ROWS

SCENARIO = "smollm2-few-shot-rt"


def stored_run(folder, value, *keys, inputs=("a", "b", "c")):
    """A folder as a run leaves it: rows of Rotten Tomatoes whose values are all `value`."""
    cells = {metric: Cell((value,) * len(inputs)) for metric in COLUMNS}
    rows = tuple(TableRow(ROWS[key].title, cells, method=ROWS[key].method, seconds=2.0) for key in keys)
    table = Table(
        rows,
        COLUMNS,
        inputs=inputs,
        model="smollm2",
        protocol=find_protocol("aml"),
        selection="",
        baseline="pad",
        seed=0,
        versions={},
    )
    (folder / "scenarios").mkdir(parents=True)
    table.to_json(folder / "scenarios" / f"{SCENARIO}.json")
    return folder


def row_of(report, key):
    """The first line of a report about a row."""
    return next(line for line in report.splitlines() if line.startswith(f"| {ROWS[key].title}"))


def test_rows_of_all_runs_are_in_the_table_and_the_first_run_counts(tmp_path):
    first = stored_run(tmp_path / "first", 0.25, "marc", "random")
    second = stored_run(tmp_path / "second", 0.75, "random", "faml")
    prompt_tables.merge([first, second], tmp_path / "out")
    report = (tmp_path / "out" / "table.md").read_text()
    assert ".250" in row_of(report, "marc")
    assert ".250" in row_of(report, "random")
    assert ".750" in row_of(report, "faml")
    assert "18 s in all" in report  # three rows of two seconds for each of three inputs


def test_replies_of_the_runs_are_counted(tmp_path):
    run = stored_run(tmp_path / "run", 0.25, "random")
    replies = {SCENARIO: {"texts": 10, "named": 50, "invented": 20, "empty": 3}}
    (run / prompt_tables.REPLIES).write_text(json.dumps(replies))
    prompt_tables.merge([run], tmp_path / "out")
    assert "| 10 | 5.0 | 40% | 3 |" in (tmp_path / "out" / "table.md").read_text()


def test_runs_of_other_texts_are_refused(tmp_path):
    first = stored_run(tmp_path / "first", 0.25, "random")
    second = stored_run(tmp_path / "second", 0.25, "marc", inputs=("a", "b"))
    with pytest.raises(SystemExit, match=f"{SCENARIO}: the runs have other inputs"):
        prompt_tables.merge([first, second], tmp_path / "out")


def test_folders_without_rows_are_an_error(tmp_path):
    with pytest.raises(SystemExit, match="has no rows"):
        prompt_tables.merge([tmp_path], tmp_path / "out")
