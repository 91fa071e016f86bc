"""`rationales evaluate --metrics roar,sanity`: tables of their own, on the terminal, in files and on a page."""

from __future__ import annotations

import json

import pytest
from bags import bag_of_words, examples
from commands import error, run
from methods.fillers import filler_folder

import rationales
from rationales.evaluation.tables.table import Table

QUICK = ["start=scratch", "epochs=1", "learning_rate=0.1", "seeds=2", "levels=[0.2]"]
STUDY = [argument for setting in QUICK for argument in ("--study", setting)]


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """Labelled texts for testing and training, and a model that looks for 'good' and 'bad'."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rationales.data.archives.cache_folder", lambda: tmp_path / "cache" / "data")
    plain = rationales.load
    monkeypatch.setitem(vars(rationales), "load", lambda *_, **__: plain(*bag_of_words()))
    for name, seed, count in (("test", 1, 10), ("train", 0, 24)):
        lines = [json.dumps({"text": item.text, "label": item.label}) for item in examples(count, seed)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def test_several_tables_in_one_go(data):
    done = run(
        *("evaluate", "test.jsonl", "--methods", "saliency", "--metrics", "comprehensiveness,sanity,roar"),
        *("--train", "train.jsonl", "--study", "runs=1", *STUDY, "--out", "results"),
    )
    assert done.exit_code == 0, done.output
    assert [line for line in done.stdout.splitlines() if line.startswith("##")] == ["## table", "## sanity", "## roar"]
    assert "roar@0% ↓ | roar@20% ↓" in done.stdout
    assert "24 training and 10 test texts" in done.stdout
    files = {path.name for path in (data / "results").iterdir()}
    assert {f"{name}.{end}" for name in ("table", "sanity", "roar") for end in ("md", "csv", "json")} <= files
    page = (data / "results" / "tables.html").read_text(encoding="utf-8")
    assert page.count("<section>") == 3
    assert "<script" not in page
    assert "sanity-sign-changes" in page
    assert Table.from_json(data / "results" / "roar.json").unit == "seeds"
    assert len(list((data / "cache" / "scores" / "retraining").glob("*.json"))) == 6


def test_one_study_alone_is_one_table_of_json():
    done = run("evaluate", "test.jsonl", "--methods", "random", "--metrics", "roar", "--json", *STUDY)
    assert done.exit_code == 0, done.output
    table = Table.from_json(done.stdout)
    assert table.metrics == ("roar@0%", "roar@20%")
    assert "8 training and 2 test texts" in table.recipe  # the file was divided
    both = run("evaluate", "test.jsonl", "--methods", "random", "--metrics", "sanity,sanity-cascade", "--json")
    assert set(json.loads(both.stdout)) == {"sanity", "sanity-cascade"}


def test_roar_bert_takes_the_filler():
    done = run(
        *("evaluate", "test.jsonl", "--methods", "random", "--metrics", "roar-bert", "--filler", filler_folder()),
        *STUDY,
    )
    assert done.exit_code == 0, done.output
    assert f"filled in together by {filler_folder()}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", "roar", "--study", "sedes=3"], "no setting 'sedes' (did you mean 'seeds'?)"),
        (["--metrics", "sanity", "--study", "seeds=3"], "no setting 'seeds'"),
        (["--metrics", "roar", "--study", "seeds=0"], "seeds is a whole number from 1"),
        (["--metrics", "roar", "--study", "seeds"], "--study takes name=value"),
        (["--study", "runs=3"], "no setting 'runs'"),
        (["--metrics", "roar", "--train", "nowhere.csv"], "nowhere.csv"),
        (["--metrics", "sanity", "--train", "train.jsonl"], "training examples (train=..., --train) are for roar"),
        (["--metrics", "comprehensiveness", "--train", "nowhere.csv"], "request one of them, or leave them out"),
        (["--train", "train.jsonl"], "training examples (train=..., --train) are for roar or roar-bert"),
    ],
)
def test_mistakes_are_one_line(arguments, message):
    assert message in error(run("evaluate", "test.jsonl", "--methods", "random", *arguments))


def test_a_masker_is_refused_before_the_tables_of_other_metrics(monkeypatch):
    monkeypatch.setitem(vars(rationales), "load", lambda *_, **__: pytest.fail("a model was loaded"))
    arguments = ("--methods", "saliency,marc-instant", "--metrics", "comprehensiveness,sanity")
    refused = error(run("evaluate", "test.jsonl", *arguments))
    assert "marc-instant cannot be checked with random weights: its masker was trained for the weights" in refused


def test_training_data_go_to_roar_alone():
    arguments = ("--metrics", "sanity,roar", "--train", "train.jsonl", "--study", "runs=1", *STUDY)
    done = run("evaluate", "test.jsonl", "--methods", "random", *arguments)
    assert done.exit_code == 0, done.output
    assert "24 training and 10 test texts" in done.stdout


def test_labels_are_needed_for_roar_and_not_for_sanity(data):
    lines = [json.dumps({"text": item.text}) for item in examples(4)]
    (data / "plain.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert "has no label" in error(run("evaluate", "plain.jsonl", "--methods", "random", "--metrics", "roar"))
    done = run("evaluate", "plain.jsonl", "--methods", "saliency", "--metrics", "sanity")
    assert done.exit_code == 0, done.output
