"""The order of the AML paper's tables on a GPU machine: tables that need few maskers first, Table 3 in two parts."""

from __future__ import annotations

import sys

import aml_tables
import pytest


@pytest.fixture
def run_script(monkeypatch, tmp_path):
    """Function that runs the script without its computations; returns (table, rows) of every call, in order."""
    calls = []

    def record(name):
        def reproduce(request, *_):
            calls.append((name, request.rows))

        return reproduce

    for name in ("table3", "table4", "table5", "table6"):
        monkeypatch.setattr(getattr(aml_tables, name), "reproduce", record(name))
    monkeypatch.setattr(aml_tables, "run_table1", record("table1"))
    monkeypatch.setattr(aml_tables, "write_report", lambda *_: None)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["aml_tables", "--data", str(tmp_path), "--out", str(tmp_path), *arguments])
        aml_tables.main()
        return calls

    return run


def test_tables_of_two_maskers_come_first_and_sentences_before_reviews(run_script):
    assert run_script()[:4] == [("table3", ["sst"]), ("table6", None), ("table3", ["movies"]), ("table1", None)]


def test_a_dry_run_leaves_out_the_long_reviews(run_script):
    assert ("table3", ["movies"]) not in run_script("--tiny")


def test_the_order_of_the_command_line_is_kept(run_script):
    calls = run_script("--tables", "aml-table4", "aml-table3-sst")
    assert calls == [("table4", None), ("table3", ["sst"])]


def test_another_encoder_is_that_of_tables_3_and_6_alone(run_script):
    calls = run_script("--tables", "aml-table3-sst", "aml-table6", "aml-table4", "--encoder", "distilbert")
    assert calls == [("table3", ["sst", "distilbert"]), ("table6", ["distilbert"]), ("table4", None)]
