"""The public names: lists that agree in form, results as data frames, and renderers that results do not import."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from samples import make_rationale

import rationales
from rationales.data_frames import unit_columns
from rationales.errors import OptionError
from rationales.rationale import Frames, Grid, Rationale
from rationales.rendering import RENDERERS

PACKAGE = Path(rationales.__file__).parent
LISTS = ("list_methods", "list_metrics", "list_models")
RESULTS = ("rationale.py", "rationale_parts.py", "rendering.py", "storage.py", "data_frames.py")


@pytest.mark.parametrize("name", LISTS)
def test_every_list_holds_frozen_entries_with_unique_names_and_summaries(name):
    entries = getattr(rationales, name)()
    assert isinstance(entries, list)
    assert entries
    for entry in entries:
        assert entry.name
        assert entry.summary
        with pytest.raises(dataclasses.FrozenInstanceError):
            entry.name = "another"
    assert len({entry.name for entry in entries}) == len(entries)


def test_the_types_and_functions_of_the_front_door_are_public():
    for name in ("Attribution", "Batch", "Example", "Method", "Rationale", "Table"):
        assert isinstance(getattr(rationales, name), type)
        assert getattr(rationales, name).__name__ == name
    for name in ("dry_run", "evaluate", "explain", "load", "page", "read_data", *LISTS):
        assert callable(getattr(rationales, name))


def imported_modules(path):
    """All modules that a file imports, also inside functions, and all strings in it that name a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            yield node.value


@pytest.mark.parametrize("file", RESULTS)
def test_results_do_not_import_the_reports(file):
    upward = ("rationales.report", "rationales.evaluation", "rationales.groundtruth", "rationales.cli")
    assert not [module for module in imported_modules(PACKAGE / file) if module.startswith(upward)]


def test_every_renderer_is_registered_and_exists():
    assert RENDERERS.keys() == rationales._RENDERERS.keys()
    assert RENDERERS.keys() >= {"html", "html-fragment", "text", "image-png", "sound-png", "dry-run-html"}
    for module, function in rationales._RENDERERS.values():
        assert callable(getattr(importlib.import_module(module), function))


def test_renderers_are_loaded_when_they_are_first_used():
    code = (
        "import json, sys; from rationales.rationale import Rationale; before = 'rationales.report' in sys.modules;"
        "import numpy; from rationales.rationale import Unit;"
        "r = Rationale('a', (Unit('a', 0, 1),), numpy.ones(1, 'float32'), 'x', ('x',), {}, 'm', 'm'); str(r);"
        "print(json.dumps([before, 'rationales.report' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [False, True]


def test_without_pandas_to_frame_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(OptionError, match="pip install pandas"):
        make_rationale("a b").to_frame()


def test_a_frame_has_the_columns_of_the_units():
    pandas = pytest.importorskip("pandas")
    rationale = make_rationale("so good", [0.25, 1])
    pandas.testing.assert_frame_equal(rationale.to_frame(), pandas.DataFrame(unit_columns(rationale)))


class TestColumns:
    def test_a_row_for_each_word_of_a_text(self):
        columns = unit_columns(make_rationale("so good", [0.25, 1]))
        expected = {"text": ["so", "good"], "start": [0, 3], "end": [2, 7], "score": [0.25, 1], "selected": [0, 1]}
        assert [(name, list(values)) for name, values in columns.items()] == list(expected.items())

    def test_a_pair_says_which_text_a_word_belongs_to(self):
        assert unit_columns(make_rationale("a b", pair="c"))["text_index"] == [0, 0, 1]

    def test_a_row_for_each_pixel_of_an_image(self):
        scores = np.arange(6, dtype=np.float32) / 5
        columns = unit_columns(Rationale("", Grid(2, 3), scores, "x", ("x",), {}, "marc", "m"))
        assert [*columns] == ["row", "column", "score", "selected"]
        assert columns["row"].tolist() == [0, 0, 0, 1, 1, 1]
        assert columns["column"].tolist() == [0, 1, 2, 0, 1, 2]
        assert columns["score"].tolist() == scores.tolist()
        assert columns["selected"].tolist() == (scores > 0.5).tolist()

    def test_a_row_for_each_frame_of_a_sound(self):
        sound = Rationale("", Frames(2, 0.5, 0.75), np.ones(2, np.float32), "x", ("x",), {}, "marc", "m")
        columns = unit_columns(sound)
        assert columns["start"].tolist() == [0.0, 0.5]
        assert columns["end"].tolist() == [0.5, 0.75]
