"""The script that trains AML maskers for several models: what it writes, and that it does nothing twice."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from families import tiny

import rationales
from rationales.masks.instant.aml.masker import load_aml_masker
from zoo import aml_maskers
from zoo.aml_maskers import TINY, TINY_TEXTS, MaskerJob, masker_path, print_table, train_maskers

METRICS = ("sufficiency", "log-odds")


@pytest.fixture
def job():
    return MaskerJob("tiny", rationales.load(*tiny("bert")), TINY_TEXTS, "own words")


def test_a_masker_and_its_card_are_written_for_each_metric_and_never_twice(job, tmp_path, monkeypatch, capsys):
    files = train_maskers([job], tmp_path / "out", METRICS, TINY)
    assert list(files) == [("tiny", metric) for metric in METRICS]
    for metric in METRICS:
        path = masker_path(tmp_path / "out", "tiny", metric)
        assert load_aml_masker(path).card.training["metric"] == metric
        assert json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["training"]["data"] == "own words"
    assert not list((tmp_path / "out").glob("*.progress"))
    monkeypatch.setattr(aml_maskers, "pretrain_for_metrics", lambda *_, **__: pytest.fail("trained again"))
    assert train_maskers([job], tmp_path / "out", METRICS, TINY) == files
    print_table(files)
    assert capsys.readouterr().out.count("tiny  ") >= 2


def test_maskers_of_other_settings_are_trained_again_and_named(job, tmp_path, capsys):
    files = train_maskers([job], tmp_path, METRICS[:1], TINY)
    before = load_aml_masker(files["tiny", METRICS[0]]).card
    capsys.readouterr()
    train_maskers([job], tmp_path, METRICS[:1], replace(TINY, learning_rate=1e-3))
    assert "tiny-sufficiency.safetensors was trained in another way" in capsys.readouterr().out
    after = load_aml_masker(files["tiny", METRICS[0]]).card
    assert after.training["settings"]["learning_rate"] == 1e-3
    assert before.digest != after.digest


def test_what_is_missing_alone_is_trained(job, tmp_path):
    files = train_maskers([job], tmp_path, METRICS, TINY)
    kept, missing = (files["tiny", metric] for metric in METRICS)
    before = kept.stat().st_mtime_ns
    missing.unlink()
    train_maskers([job], tmp_path, METRICS, TINY, minutes=1)
    assert missing.exists()
    assert kept.stat().st_mtime_ns == before
