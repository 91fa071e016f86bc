"""The script that tunes a language model: from data to an adapter that loads with its prompt."""

from __future__ import annotations

import json
import sys

import pytest
from language_models import tiny_language_model

import rationales
from zoo import prompt_adapter

pytest.importorskip("peft")


def test_from_data_to_a_model_that_loads_with_its_prompt(tmp_path, monkeypatch):
    module, tokenizer = tiny_language_model("llama")
    base, data, out = tmp_path / "base", tmp_path / "data", tmp_path / "tuned"
    module.save_pretrained(base)
    tokenizer.save_pretrained(base)
    data.mkdir()
    lines = ["sentence\tlabel", "the soup was lovely\t1", "the soup was cold\t0"]
    for split in ("train", "dev"):
        (data / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    arguments = ["sst2", "--data", str(data), "--out", str(out), "--base", str(base), "--steps", "3", "--batch", "2"]
    monkeypatch.setattr(sys, "argv", ["prompt_adapter", *arguments])
    prompt_adapter.main()
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["steps"] == 3
    assert 0 <= metrics["accuracy"] <= 1
    model = rationales.load(str(out))
    assert model.labels == ("positive", "negative")
    assert len(rationales.explain(model, "the soup was cold", method="saliency").scores) == 4
