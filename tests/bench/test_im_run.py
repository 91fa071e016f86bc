"""All tables of Input Marginalization in one run: what a stopped run leaves behind, and how another goes on with it."""

from __future__ import annotations

import json
import sys

import pytest
from experiments.im_data import write_data

from bench import im_tables
from rationales.errors import OptionError
from rationales.experiments.input_marginalization.tables import TABLES
from rationales.experiments.input_marginalization.workspace import Workspace


@pytest.fixture
def run(monkeypatch):
    """Function that runs the script with these arguments and tiny random models."""

    def run_script(*arguments):
        monkeypatch.setattr(sys, "argv", ["im_tables", "--tiny", "--minutes", "1000", *map(str, arguments)])
        im_tables.main()

    return run_script


@pytest.fixture
def step(monkeypatch):
    """The workspace and the results that the steps get, without running them."""
    calls = []

    def run_steps(workspace, results, *_):
        calls.append((workspace, results))
        results.reports["none"] = ""

    monkeypatch.setattr(im_tables, "run_steps", run_steps)
    monkeypatch.setattr(im_tables, "tiny_workspace", lambda request: Workspace(request, {"minilm-sst2": None}))
    return calls


def test_every_table_is_a_step():
    steps = {*im_tables.STEPS} - {*im_tables.RETRAINED, *im_tables.APPENDIX_PARTS, "multirc"}
    assert steps | {"im-appendix"} == set(TABLES)


def test_accuracies_are_kept_without_a_cache_of_ones_own_and_read_elsewhere(run, step, tmp_path):
    run("--data", tmp_path, "--out", tmp_path / "first")
    workspace, results = step[-1]
    assert workspace.request.cache == tmp_path / "first" / "cache"
    results.accuracies.mkdir(parents=True)
    (results.accuracies / "abc.json").write_text("[0.5, 0.6]")
    results.save_progress()
    stored = tmp_path / "first" / "accuracies.json"
    assert json.loads(stored.read_text()) == {"abc": "[0.5, 0.6]"}
    run("--data", tmp_path, "--out", tmp_path / "second", "--accuracies", stored)
    assert (tmp_path / "second" / "cache" / "retraining" / "abc.json").read_text() == "[0.5, 0.6]"
    run("--data", tmp_path, "--out", tmp_path / "third", "--cache", tmp_path / "other", "--accuracies", stored)
    assert (tmp_path / "other" / "retraining" / "abc.json").is_file()


def test_accuracies_that_are_not_there(run, step, tmp_path):
    with pytest.raises(OptionError, match=r"no file .*nothing.json; --accuracies takes the accuracies.json of an ear"):
        run("--data", tmp_path, "--out", tmp_path, "--accuracies", tmp_path / "nothing.json")


@pytest.mark.slow
def test_the_recipe_of_the_manual_retrains_nothing_twice(run, monkeypatch, tmp_path):
    steps = ("--steps", "roar-lime", "im-a6", "--retrained-rows", "lime", "random", "--removals", "roar")
    arguments = ("--data", write_data(tmp_path), *steps)
    run(*arguments, "--out", tmp_path / "first")

    def nothing_to_train(_start, tasks, *_):
        assert not tasks
        return []

    monkeypatch.setattr("rationales.evaluation.retraining.roar.train_tasks", nothing_to_train)
    run(*arguments, "--out", tmp_path / "first")  # from its own cache
    run(*arguments, "--out", tmp_path / "second", "--accuracies", tmp_path / "first" / "accuracies.json")
    texts = [(tmp_path / name / "im-tables.md").read_text() for name in ("first", "second")]
    assert texts[0] == texts[1]
    assert texts[0].startswith("# im-appendix: A6: ROAR (deleted)")
