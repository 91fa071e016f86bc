"""The run for a GPU machine, with tiny models: files of every model, the log, and a short table at the end."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("PIL")
pytest.importorskip("skimage")
import image_tables

from rationales.evaluation.tables.table import Table


def test_a_dry_run_writes_every_model_and_prints_a_short_table(monkeypatch, tmp_path, capsys):
    rows = "saliency,attention,m-perturb"
    monkeypatch.setattr(sys, "argv", ["image_tables", "--out", str(tmp_path), "--tiny", "--rows", rows])
    image_tables.main()
    printed = capsys.readouterr().out
    assert printed.rstrip().splitlines()[-1].startswith("| Random |")
    for name in ("tiny-resnet", "tiny-vit"):
        assert "The paper's claims" in (tmp_path / f"{name}.md").read_text()
        assert len(Table.from_json(tmp_path / "models" / f"{name}.json").rows) == 5
    assert "| Attention | n/a | " in (tmp_path / "image-tables.md").read_text()
    assert "== tiny-vit" in (tmp_path / "log.txt").read_text()


def test_when_time_is_up_the_other_rows_are_left_out(monkeypatch, tmp_path, capsys):
    arguments = ["image_tables", "--out", str(tmp_path), "--tiny", "--rows", "saliency", "--minutes", "0"]
    monkeypatch.setattr(sys, "argv", arguments)
    image_tables.main()
    assert "no time is left for Saliency" in capsys.readouterr().out
