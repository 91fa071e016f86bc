"""Stored fields give the ranking that the method itself gives, without running the network again."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import span_orders
import torch
from reviews import movies

import rationales
from rationales.data import read_data
from rationales.methods import build
from rationales.pipeline.scoring import open_batch, run_method


@pytest.mark.slow
def test_the_default_is_that_of_the_method(monkeypatch, tmp_path, capsys):
    options = {"steps": 4}
    monkeypatch.setattr(span_orders, "DEFAULT", replace(span_orders.DEFAULT, **options))
    monkeypatch.setattr(span_orders, "CLAUSES", replace(span_orders.CLAUSES, **options))
    data, out = movies(tmp_path / "data", ending=" The rest of it is as long as any." * 20), tmp_path / "out"
    for further in (["--collect"], []):
        arguments = ["--data", str(data), "--out", str(out), "--models", "embedded", "--limit", "2", *further]
        monkeypatch.setattr(sys, "argv", ["span_orders", *arguments])
        span_orders.main()
    printed = capsys.readouterr().out
    assert all(title in printed for title in span_orders.ORDERS)
    examples = read_data("eraser-movies", "val", data)
    (stored,) = span_orders.read_fields("embedded", examples, out)
    model = rationales.load()
    encoded = model.encode([model.read(example.raw_input(), None) for example in stored.examples])
    with open_batch(model, encoded, 0) as batch:
        expected = {
            preset: run_method(batch, build("marc", {"preset": preset, **options}), stored.target)
            for preset in ("default", "clauses")
        }
    real = stored.batch.rows.real
    torch.testing.assert_close(
        span_orders.default_scores(stored)[real], expected["default"].span_scores[real], atol=1e-4, rtol=0
    )
    clauses = span_orders.steep_scores(stored, "clauses")
    torch.testing.assert_close(clauses[real], expected["clauses"].scores[real], atol=1e-4, rtol=0)
