"""`rationales evaluate --protocols`: how the ranking of methods changes with the way of removal."""

from __future__ import annotations

import json

import pytest
from commands import error, run
from methods.fillers import filler_folder
from reviews import GOOD, known_model

import rationales


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """Labelled texts, and a model that looks for 'bread'."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rationales.data.archives.cache_folder", lambda: tmp_path / "cache" / "data")
    plain = rationales.load
    monkeypatch.setitem(vars(rationales), "load", lambda *_, **__: plain(*known_model()))
    lines = [json.dumps({"text": text, "label": "positive"}) for text in GOOD]
    (tmp_path / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def test_ranks_correlations_and_warnings_are_printed_and_written(data):
    done = run(
        *("evaluate", "t.jsonl", "--methods", "loo-empty,saliency", "--protocols", "delete,pad,unk"),
        *("--protocols", "mask", "--out", "results"),
    )
    assert done.exit_code == 0, done.output
    assert "## deletion ↓: rank (mean) under each protocol" in done.stdout
    assert "| method | delete | pad | unk | mask |" in done.stdout
    assert "| delete – pad |" in done.stdout
    assert "Warning: loo-empty deletes units, and so does delete: these figures favour it." in done.stdout
    assert (data / "results" / "ranking.md").read_text(encoding="utf-8") == done.stdout
    ranking = json.loads((data / "results" / "ranking.json").read_text(encoding="utf-8"))
    assert ranking["protocols"] == ["delete", "pad", "unk", "mask"]
    assert set(ranking["tables"]) == set(ranking["protocols"])


def test_words_are_filled_in_by_the_filler_of_the_command_line():
    done = run(
        *("evaluate", "t.jsonl", "--methods", "input-marginalization:candidates=2,random", "--protocols", "im,im-bert"),
        *("--filler", filler_folder(), "--json"),
    )
    assert done.exit_code == 0, done.output
    ranking = json.loads(done.stdout)
    assert ranking["rows"] == ["input-marginalization (candidates=2)", "random"]
    (warning,) = ranking["warnings"]
    assert warning.startswith("input-marginalization (candidates=2) fills units in with a masked language model, and")
    assert "so does im-bert" in warning
    assert ranking["tables"]["im-bert"]["protocol"]["filler"] == filler_folder()


def test_one_protocol_takes_the_filler_too():
    done = run(
        *("evaluate", "t.jsonl", "--methods", "random", "--protocol", "im-bert", "--filler", filler_folder()),
        *("--metrics", "deletion"),
    )
    assert done.exit_code == 0, done.output
    assert f"filled in one after the other by {filler_folder()}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--protocols", "delete"], "at least two protocols"),
        (["--protocols", "delete,erase"], "no protocol or removal 'erase'"),
        (["--protocols", "delete,pad", "--metrics", "token-f1"], "token-f1 does not depend on how words are removed"),
        (["--protocols", "delete,pad", "--selection", "otsu"], "--selection is for metrics of selected words"),
        (["--protocol", "im-bert", "--filler", "./nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_one_line(arguments, message):
    assert message in error(run("evaluate", "t.jsonl", "--methods", "random", *arguments))
