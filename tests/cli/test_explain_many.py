"""`rationales explain` of many inputs: files, folders and tables make one page, and one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import error, run
from reviews import BAD, GOOD, known_model

import rationales
from rationales.cli.sources import gather
from rationales.errors import DataError, InputError, OptionError

RANDOM = ("--method", "random")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = rationales.load
    monkeypatch.setitem(
        vars(rationales),
        "load",
        lambda source=None, **options: plain(*known_model()) if source is None else plain(source),
    )
    Path("a.txt").write_text(GOOD[0], encoding="utf-8")
    Path("b.txt").write_text(BAD[0], encoding="utf-8")
    return tmp_path


def gathered(*files: str, arguments: tuple[str, ...] = (), **options):
    return gather(arguments, [Path(file) for file in files], [], [], None, **options)


@pytest.mark.parametrize("arguments", [["--file", "a.txt", "b.txt"], ["--file", "a.txt", "--file", "b.txt"]], ids=str)
def test_several_files_make_one_page_with_an_index(arguments):
    done = run("explain", *arguments, *RANDOM, "--html", "why.html")
    assert done.exit_code == 0, done.output
    page = Path("why.html").read_text(encoding="utf-8")
    assert page.count("<article") == 2
    assert '<nav aria-label="Index">' in page
    assert page.count('"stops":') == 2  # the slider knows the probabilities of its stops
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == ["a.txt", "b.txt"]


def test_json_has_one_object_a_line():
    done = run("explain", "--file", "a.txt", "b.txt", *RANDOM, "--json")
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(entry["name"], entry["text"]) for entry in objects] == [("a.txt", GOOD[0]), ("b.txt", BAD[0])]


def test_without_a_page_each_is_shown():
    done = run("explain", "--file", "a.txt", "b.txt", *RANDOM, "--top", "1")
    assert done.stdout.count("Rationale alone") == 2
    assert done.stdout.count("1 span · 1 of") == 2


def test_a_folder_of_texts_in_the_order_of_their_paths(home):
    (home / "more" / "deep").mkdir(parents=True)
    for name in ("z.txt", "deep/c.md", ".hidden.txt", "other.bin"):
        (home / "more" / name).write_text(name, encoding="utf-8")
    sources = gathered("more")
    assert (sources.kind, sources.several) == ("text", True)
    assert sources.names == ["deep/c.md", "z.txt"]
    assert sources.inputs == ["deep/c.md", "z.txt"]


def test_a_folder_of_pictures(home):
    (home / "photos").mkdir()
    for name in ("b.png", "a.JPG"):
        (home / "photos" / name).write_bytes(b"")
    for sources in (gathered("photos"), gather([], [], [Path("photos")], [], None)):
        assert sources.kind == "image"
        assert sources.names == ["a.JPG", "b.png"]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("t.csv", 'review,id\n"one, two",x\nthree,\n'),
        ("t.tsv", "review\tid\none, two\tx\nthree\t\n"),
        ("t.jsonl", '{"review": "one, two", "id": "x"}\n{"review": "three"}\n'),
    ],
)
def test_a_column_of_a_table(file, content):
    Path(file).write_text(content, encoding="utf-8")
    sources = gathered(file, text_column="review")
    assert sources.inputs == ["one, two", "three"]
    assert sources.names == ["x", f"{file} 2"]
    assert gathered(file, text_column="review", limit=1).inputs == ["one, two"]
    with pytest.raises(DataError, match=r"no column 'text'; say --text-column, one of: review, id"):
        gathered(file)


def test_pairs_stand_in_a_table():
    Path("t.csv").write_text("text,pair\na man,a woman\nalone,\n")
    assert gathered("t.csv").inputs == [("a man", "a woman"), "alone"]


def test_what_cannot_be_gathered_is_told(home):
    (home / "empty").mkdir()
    with pytest.raises(InputError, match=r"nothing to explain in the folder empty; looked for \.txt"):
        gathered("empty")
    with pytest.raises(InputError, match=r"no file c\.txt"):
        gathered("a.txt", "c.txt")
    with pytest.raises(OptionError, match="--text-column"):
        gathered("a.txt", text_column="review")
    Path("t.csv").write_text("text\n  \n")
    with pytest.raises(DataError, match=r"t\.csv, line 2: the column 'text' holds no text"):
        gathered("t.csv")
    assert "quotation marks" in error(run("explain", "not", "a", "good", "film"))
    assert "one input" in error(run("explain", "--file", "a.txt", "b.txt", "--save", "r.json"))
    assert "--pair goes with one text" in error(run("explain", "--file", "a.txt", "b.txt", "--pair", "x"))
    assert "overwritten" in error(run("explain", "--file", "a.txt", "--file", "b.txt", "--html", "b.txt"))


def test_the_selection_is_the_users():
    done = run("explain", GOOD[0], *RANDOM, "--top", "2", "--json")
    data = json.loads(done.stdout)
    assert data["rule"] == {"top": 2}
    assert sum(span["last"] - span["first"] + 1 for span in data["spans"]) == 2
    assert "exactly one of" in error(run("explain", "a", "--top", "2", "--share", "0.5"))
    assert "from 0 to 1" in error(run("compare", "a", "--share", "5"))
    compared = json.loads(run("compare", GOOD[0], "--methods", "random,occlusion", "--top", "1", "--json").stdout)
    assert [result["rule"] for result in compared["results"]] == [{"top": 1}] * 2
