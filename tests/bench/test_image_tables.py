"""The run for a GPU machine, with tiny models: tasks that processes share, and tables of what is finished."""

from __future__ import annotations

import json
import sys

import pytest

pytest.importorskip("PIL")
pytest.importorskip("skimage")
import image_tables

from rationales.evaluation.tables.table import Table


def run(monkeypatch, out, *arguments):
    monkeypatch.setattr(sys, "argv", ["image_tables", "--out", str(out), *arguments])
    image_tables.main()


def test_a_dry_run_writes_every_model_and_prints_a_short_table(monkeypatch, tmp_path, capsys):
    rows = "random,saliency,attention,m-perturb,marc-default"
    run(monkeypatch, tmp_path, "--tiny", "--rows", rows)
    printed = capsys.readouterr().out
    assert printed.rstrip().splitlines()[-1].startswith("| Random |")
    assert "| Attention | n/a | " in printed
    report = (tmp_path / "image-tables.md").read_text()
    assert "The paper's claims" in report
    assert "Attention: n/a" in report
    assert "of these pictures correctly" in report
    for name in ("tiny-resnet", "tiny-vit"):
        assert len(Table.from_json(tmp_path / f"{name}.json").rows) == 5
    assert "tiny-vit: Saliency" in (tmp_path / "log-a.txt").read_text()


def test_what_is_finished_or_taken_is_left_to_others(monkeypatch, tmp_path, capsys):
    run(monkeypatch, tmp_path, "--tiny", "--rows", "random")
    (tmp_path / "taken" / "tiny-vit.saliency.0").touch()
    with (tmp_path / "rows" / "a.jsonl").open("a") as file:
        file.write('{"task": {"mod')  # ended in the middle of a line
    for path in (tmp_path / "taken").glob("*.random.*"):
        path.unlink()
    capsys.readouterr()
    run(monkeypatch, tmp_path, "--tiny", "--rows", "random,saliency", "--worker", "b")
    lines = (tmp_path / "rows" / "b.jsonl").read_text().splitlines()
    assert [json.loads(line)["task"] for line in lines] == [{"model": "tiny-resnet", "row": "saliency", "part": 0}]


def test_when_time_is_up_no_task_is_begun(monkeypatch, tmp_path, capsys):
    with pytest.raises(Exception, match="no task is finished"):
        run(monkeypatch, tmp_path, "--tiny", "--rows", "saliency", "--minutes", "0")
    assert "no time is left" in capsys.readouterr().out


def test_parts_become_one_row_with_nothing_for_pictures_that_are_missing(monkeypatch, tmp_path):
    """Two parts of four pictures, the second without saliency."""
    monkeypatch.setattr(image_tables, "PART", 2)
    monkeypatch.setattr(image_tables, "FIRST_PARTS", {"cheap": 1, "expensive": 1})
    models = ["tiny-resnet"]
    with_parts = image_tables.tasks(models, ["random", "saliency"], 2, "cheap")
    assert len({task.file_name for task in with_parts}) == len(with_parts) == 4
    subjects = image_tables.Subjects(image_tables.Request(), opened=image_tables.tiny_models(tmp_path))
    log = image_tables.RunLog(tmp_path)
    left_out = image_tables.Task("tiny-resnet", "saliency", 1)
    image_tables.work(log, subjects, [task for task in with_parts if task != left_out], "a", 1.0)
    table = image_tables.merge(tmp_path)["tiny-resnet"]
    undivided = image_tables.ModelRun(*subjects.opened["tiny-resnet"], image_tables.Request())
    expected = undivided.measure(image_tables.ROWS["random"]).cells["sufficiency"].values
    random, saliency = (table[title].cells["sufficiency"] for title in ("Random", "Saliency"))
    order = [table.inputs.index(name) for name in undivided.table([]).inputs]
    assert [random.values[number] for number in order] == pytest.approx(expected, abs=1e-6)
    assert (random.estimate.n, saliency.estimate.n) == (4, 2)
    assert float(table.versions[image_tables.ACCURACY]) == pytest.approx(undivided.accuracy())


def test_every_row_is_cheap_or_expensive_and_every_task_comes_once():
    rows = (*image_tables.CHEAP, *image_tables.EXPENSIVE)
    assert sorted(rows) == sorted(image_tables.ROWS)
    for first in ("cheap", "expensive"):
        queue = image_tables.tasks(["x", "y", "z"], rows, 10, first)
        assert len(queue) == len(set(queue)) == 3 * len(rows) * 10
