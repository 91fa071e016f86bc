"""A known cause in a stock BERT: methods that look inside it, and maskers trained for it, point at the plant."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from groundtruth.test_dry_run import QUICK, texts
from groundtruth.test_training import cases, planted_texts
from rationales.errors import ModelError
from rationales.groundtruth import masker_training
from rationales.groundtruth.dryrun import dry_run
from rationales.groundtruth.explainable import word_model
from rationales.groundtruth.masker_training import needs_masker, with_trained_masker
from rationales.groundtruth.metrics import attribution_on_region
from rationales.groundtruth.networks.stock_bert import small_bert
from rationales.groundtruth.training import Recipe, train
from rationales.methods import build


@pytest.fixture(scope="module")
def planted():
    """A small BERT that must read the articles, its test texts and its training texts."""
    (train_data, _, test), tokenizer, data = planted_texts("articles")
    recipe = Recipe(20, learning_rate=2e-3, batch_size=32)
    trained = train(lambda: small_bert(len(tokenizer), test.labels, 32, 2, 2, 64), data, recipe)
    assert trained.reached_target
    assert trained.reliance(train_data.bound).relies
    return word_model(trained.module, tokenizer), test, [example.text for example in train_data.examples]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("decompx", {"output": "logit"}),
        ("chefer", {"output": "logit"}),
        ("alti", {}),
        ("globenc", {}),
        ("sequential-ig", {"output": "logit", "steps": 5}),
    ],
)
def test_methods_inside_the_encoder_find_the_plant(planted, name, options):
    model, test, _ = planted
    share = attribution_on_region(cases(model, test, build(name, options)))
    assert share.attribution.low > share.area.mean


def test_a_masker_is_trained_for_the_network_and_finds_the_plant(planted, tmp_path):
    model, test, texts = planted
    method = build("aml-pretrained")
    assert needs_masker(method)
    training = replace(masker_training.TRAINING, trials=0, epochs=6, texts=200, validation_texts=20)
    ready = with_trained_masker(method, model, texts, tmp_path, training)
    assert not needs_masker(ready)
    share = attribution_on_region(cases(model, test, ready))
    assert share.attribution.low > share.area.mean
    written = (tmp_path / "masker.safetensors").stat().st_mtime_ns
    again = with_trained_masker(build("aml-finetuned"), model, texts, tmp_path, training)
    assert again.masker == ready.masker
    assert (tmp_path / "masker.safetensors").stat().st_mtime_ns == written


def test_other_methods_need_no_masker_and_no_texts_are_an_error(planted, tmp_path):
    model, _, _ = planted
    marc = build("marc")
    assert with_trained_masker(marc, model, [], tmp_path) is marc
    with pytest.raises(ModelError, match="needs texts to train its masker"):
        with_trained_masker(build("aml-pretrained"), model, [], tmp_path)


def test_padding_changes_nothing():
    torch.manual_seed(0)
    module = small_bert(20, ["no", "yes"], 16, 2, 2, 32).eval()
    ids = torch.tensor([[5, 6, 7, 0, 0], [5, 6, 7, 8, 9]])
    together = module(ids, (ids > 0).long()).logits
    alone = module(ids[:1, :3], torch.ones(1, 3).long()).logits
    assert torch.allclose(together[:1], alone, atol=1e-6)


@pytest.mark.slow
def test_a_dry_run_judges_methods_inside_an_encoder_and_maskers(monkeypatch):
    training = replace(masker_training.TRAINING, trials=0, epochs=6, texts=100, validation_texts=10)
    monkeypatch.setattr(masker_training, "TRAINING", training)
    result = dry_run(
        texts(), network="bert", methods=["decompx", "aml-pretrained"], training=QUICK | {"epochs": 25}, inputs=12
    )
    (plant,) = result.plants
    assert plant.network == "bert"
    assert not plant.no_verdict
    by_title = {method.title: method for method in plant.methods}
    assert list(by_title) == ["decompx", "aml-pretrained", "random"]
    for title in ("decompx", "aml-pretrained"):
        assert by_title[title].error == ""
        assert by_title[title].region.attribution.mean > by_title["random"].region.attribution.mean
