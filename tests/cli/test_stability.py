"""`rationales stability`: inputs from files, tables and folders; tables, JSON and a page without foreign markup."""

from __future__ import annotations

import json

import pytest
from commands import error, run
from reviews import BAD, GOOD, known_model

import rationales

HOSTILE = "<script>alert(1)</script> & the bread was good"
FAST = ("--methods", "random", "--seeds", "0,1", "--baselines", "mask")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = rationales.load
    monkeypatch.setitem(vars(rationales), "load", lambda source=None, **options: plain(*known_model()))
    (tmp_path / "a.txt").write_text(GOOD[0], encoding="utf-8")
    (tmp_path / "b.txt").write_text(BAD[0], encoding="utf-8")
    (tmp_path / "table.jsonl").write_text(
        "".join(json.dumps({"text": text, "name": name}) + "\n" for text, name in ((HOSTILE, "<u>1"), (GOOD[0], "2"))),
        encoding="utf-8",
    )
    return tmp_path


def test_files_a_table_and_a_folder_are_read(home):
    (home / "texts").mkdir()
    (home / "texts" / "c.txt").write_text(GOOD[1], encoding="utf-8")
    for paths, names in (
        (["a.txt", "b.txt"], ["a.txt", "b.txt"]),
        (["table.jsonl"], ["<u>1", "2"]),
        (["texts"], ["c.txt"]),
        (["a.txt"], ["a.txt"]),
    ):
        done = run("stability", *paths, *FAST, "--json")
        assert done.exit_code == 0, done.output
        assert [entry["name"] for entry in json.loads(done.stdout)["inputs"]] == names


def test_data_is_read_as_evaluate_reads_it(home):
    (home / "data.csv").write_text(f"text,label\n{GOOD[0]},good\n{BAD[0]},bad\n{GOOD[1]},good\n", encoding="utf-8")
    done = run("stability", "--data", "data.csv", "--limit", 2, *FAST, "--json")
    assert len(json.loads(done.stdout)["inputs"]) == 2


def test_the_page_and_the_file_are_written_and_nothing_in_them_is_markup(home):
    done = run("stability", "table.jsonl", *FAST, "--html", "s.html", "--save", "s.json")
    assert done.exit_code == 0, done.output
    assert "| seed only | 1 |" in done.stdout
    assert "wrote s.html" in done.stderr
    page = (home / "s.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<u>1" not in page
    assert "&lt;u&gt;1" in page
    assert 'class="matrix"' in page
    assert "Each baseline alone" in page
    assert "style=" not in page.partition("</head>")[2]  # the page's policy would block it
    assert json.loads((home / "s.json").read_text(encoding="utf-8"))["methods"][0]["method"] == "random"


def test_a_terminal_shows_tables(home, monkeypatch):
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    output = run("stability", "a.txt", "b.txt", *FAST).stdout
    assert "Agreement between runs" in output
    assert "seed only" in output


def test_options_presets_and_rates_reach_the_method(home):
    arguments = ("--set", "steps=3", "--preset", "words", "--seeds", "0", "--learning-rates", "0.1,0.2")
    done = run("stability", "a.txt", *arguments, "--baselines", "none", "--json")
    assert done.exit_code == 0, done.output
    (method,) = json.loads(done.stdout)["methods"]
    assert (method["options"]["steps"], method["options"]["field"]) == (3, "free")
    assert [entry["learning_rate"] for entry in method["runs"]] == [0.1, 0.2]
    assert method["baselines"] == []


def test_mistakes_are_told_before_a_model_is_loaded(home):
    assert "one of the two" in error(run("stability"))
    assert "one of the two" in error(run("stability", "a.txt", "--data", "sst"))
    assert "not 'x'" in error(run("stability", "a.txt", "--seeds", "0,x"))
    assert "did you mean" in error(run("stability", "a.txt", "--methods", "occlusio"))
    assert "marc:steps=50" in error(run("stability", "a.txt", "--methods", "marc,lime", "--set", "steps=5"))
    assert "go with --data" in error(run("stability", "a.txt", "--split", "test"))
    assert "would be overwritten" in error(run("stability", "a.txt", "--html", "a.txt"))
