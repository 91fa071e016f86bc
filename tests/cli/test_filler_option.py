"""The methods that write other words into texts, from the command line."""

from __future__ import annotations

import json

import pytest
from commands import run
from methods.fillers import filler_folder

TEXT = "the soup was very cold"


@pytest.mark.parametrize(
    "method", ["loo-empty", "loo-pad", "loo-unk", "input-marginalization", "lime-text", "lime-bert"]
)
def test_they_are_listed_with_what_they_need(method):
    lines = [line for line in run("methods").stdout.splitlines() if line.startswith(f"{method} ")]
    assert len(lines) == 1
    assert "needs texts" in lines[0]
    assert ("a filler" in lines[0]) == (method in ("input-marginalization", "lime-bert"))


@pytest.mark.parametrize(
    ("method", "settings"),
    [("input-marginalization", ["candidates=3", "phrase=2"]), ("lime-bert", ["samples=20", "one_by_one=true"])],
)
def test_a_filler_is_set_by_its_folder(method, settings):
    values = [f"filler={filler_folder()}", *settings]
    options = [argument for value in values for argument in ("--set", value)]
    done = run("explain", TEXT, "--method", method, "--json", *options)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["options"]["filler"] == filler_folder()
    assert len(result["scores"]) == 5


def test_a_filler_that_is_not_there_is_one_line():
    done = run("explain", TEXT, "--method", "lime-bert", "--set", "filler=./nowhere")
    assert done.exit_code == 2
    assert "nowhere" in done.output
    assert "Traceback" not in done.output
