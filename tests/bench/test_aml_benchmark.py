"""The benchmark of AML: fine-tuning together and in turn give the same, and both are timed."""

from __future__ import annotations

import json
import sys

import aml


def test_it_prints_a_table_and_writes_its_figures(monkeypatch, tmp_path, capsys):
    arguments = ("--texts", "2", "--steps", "1", "--pretrain", "5", "--trials", "0", "--out", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["aml", *arguments])
    aml.main()
    figures = json.loads((tmp_path / "aml.json").read_text(encoding="utf-8"))
    printed = capsys.readouterr().out
    assert figures["pretraining"]["texts"] == 5
    for tune in ("head", "low-rank", "all"):
        assert figures[tune]["difference"] < 1e-4
        assert f"\n{tune}" in printed
