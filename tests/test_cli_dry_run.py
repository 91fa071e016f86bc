"""`rationales dry-run`: data in, verdicts and a page out; mistakes in one line, no verdict with a code of its own."""

from __future__ import annotations

import json

import pytest
from commands import error, run
from groundtruth.dry_data import photographs, sentences, table

pytest.importorskip("PIL")

from rationales.cli.dry_run import NO_VERDICT, plant_rows
from rationales.errors import OptionError
from rationales.groundtruth import PLANTS

QUICK = ("--train", "epochs=8", "--train", "least=2", "--train", "rate=0.003", "--inputs", "8")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_texts_as_a_new_user_would(home):
    table(home / "reviews.csv", sentences(150), column="review")
    done = run(
        *("dry-run", "reviews.csv", "--text-column", "review", "--methods", "occlusion:window=1:title=each word"),
        *QUICK,
        *("--out", "report.html"),
    )
    assert done.exit_code == 0, done.output
    assert "**trigger: found by each word**" in done.stdout
    assert "| random | missed |" in done.stdout
    assert "wrote report.html" in done.stderr
    content = (home / "report.html").read_text(encoding="utf-8")
    assert content.startswith("<!doctype html>")
    assert 'class="verdict found"' in content


def test_json_and_a_model_that_never_gets_there(home):
    photographs(home / "photos", 60)
    (home / "photos" / "owl" / "broken.png").write_bytes(b"nothing")
    (home / "our_model.py").write_text(
        "from torch import nn\n\n\ndef make(labels):\n"
        "    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, labels))\n",
        encoding="utf-8",
    )
    done = run(
        *("dry-run", "photos", "--model-factory", "our_model:make", "--methods", "saliency", "--json"),
        *("--size", "64", "--train", "epochs=1", "--out", "report.html"),
    )
    assert done.exit_code == NO_VERDICT, done.output
    data = json.loads(done.stdout)
    assert data["plants"][0]["verdict"] is False
    assert "best validation accuracy in 1 epochs" in data["plants"][0]["why"]
    assert "broken.png" in done.stderr
    assert "No verdict." in (home / "report.html").read_text(encoding="utf-8")


def test_mistakes_are_one_line(home):
    texts = table(home / "t.csv", sentences(60), "ab")
    second = table(home / "second.csv", sentences(60), column="sentence")
    (home / "empty").mkdir()
    photographs(home / "five", 10)
    photographs(home / "many", 60)
    for arguments, message in [
        ((), "no data given"),
        (("nowhere",), "there is no data set and no file"),
        (("empty",), "is empty; put pictures into it"),
        (("five", "--size", "64"), "class 'owl' has 5 examples, too few"),
        ((second,), "there is no column 'text'; say which is the text column (--text-column), one of: sentence"),
        (("many", "--plant", "noise:top=0:bottom=224", "--size", "32"), "covers 100% of the inputs"),
        ((texts, "--plant", "blur"), "blur is planted in pictures"),
        ((texts, "--plant", ","), "no plant to try"),
        ((texts, "--methods", ","), "no method"),
        ((texts, "--network", "bilstm", "--model-factory", "a:b"), "not both"),
        ((texts, "--model-factory", "a"), "package.module:function"),
        ((texts, "--out", "nowhere/report.html"), "the folder nowhere does not exist"),
        ((texts, "--device", "nonsense"), "nonsense"),
        ((texts, "--accuracy", "1.5"), "between 0 and 1"),
    ]:
        assert message in error(run("dry-run", *arguments))


def test_the_list_names_every_plant():
    listing = run("dry-run", "--list").stdout
    assert all(f"  {name} " in listing for name in PLANTS)
    assert 'inserted=["larkspur", "foxglove"]' in listing


def test_plants_with_parameters():
    assert plant_rows(["watermark:level=3,blur:std=8", "noise"]) == [
        {"name": "watermark", "level": 3},
        {"name": "blur", "std": 8},
        {"name": "noise"},
    ]
    assert plant_rows(['trigger:inserted=["so, so","or: or"]:copies=2']) == [
        {"name": "trigger", "inserted": ["so, so", "or: or"], "copies": 2}
    ]
    with pytest.raises(OptionError, match="name=value"):
        plant_rows(["blur:std"])
