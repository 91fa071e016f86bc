"""The runs for a GPU machine in small: tables of rows that are resumed, stability, and a short table at the end."""

from __future__ import annotations

import sys
import tarfile

import marc_tables
import pytest
from reviews import movies

from rationales.evaluation.tables.table import Table
from rationales.experiments.marc_table1.row_specs import ROWS, key_of


@pytest.fixture
def dry_run(monkeypatch, capsys):
    """Function that runs the script with these arguments on invented reviews; returns its output."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["marc_tables", "--tiny", *map(str, arguments)])
        marc_tables.main()
        return capsys.readouterr().out

    return run


def test_rows_of_all_steps_exist():
    assert all(set(step.rows) <= set(ROWS) for step in marc_tables.STEPS.values())


@pytest.mark.slow
def test_an_interrupted_run_goes_on_with_the_rows_that_are_missing(dry_run, monkeypatch, tmp_path):
    data = movies(tmp_path / "data")
    row_keys = ("marc-default", "saliency-norm", "saliency-norm-shaped")
    monkeypatch.setitem(marc_tables.STEPS, "core-reviews", marc_tables.Step("reviews", row_keys, 0.1))
    monkeypatch.setitem(marc_tables.STEPS, "paper-reviews", marc_tables.Step("reviews", ("marc",), 0.1))
    first = dry_run("--data", data, "--out", tmp_path / "out", "--steps", "core-reviews", "stability-reviews")
    assert "stability-reviews FAILED" not in first
    assert first.rstrip().splitlines()[-1].startswith("| Random |")
    archive = tmp_path / "out" / "marc-tables.tar"
    second = dry_run("--data", data, "--out", tmp_path / "again", "--steps", "paper-reviews", "--resume", archive)
    assert "[1/1] MaRC [1 of 900 steps]" in second, "the other rows are there already"
    with tarfile.open(tmp_path / "again" / "marc-tables.tar") as files:
        assert {"stability-reviews.html", "stability-reviews.json", "reviews/table.json"} <= set(files.getnames())
        files.extract("reviews/table.json", tmp_path, filter="data")
    keys = {key_of(row.title) for row in Table.from_json(tmp_path / "reviews" / "table.json").rows} - {None}
    assert keys == {*row_keys, "marc", "random"}


def test_a_step_without_time_is_left_out(monkeypatch, tmp_path, capsys):
    results = marc_tables.Results(tmp_path, tmp_path)
    marc_tables.run_steps(results, marc_tables.Request(), ["shapley-movies"], {}, 1.0, tiny=False)
    assert "left out" in capsys.readouterr().out
