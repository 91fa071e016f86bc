"""Maskers of language models: marc-instant's, and AML's with an encoder that has a tokenizer of its own."""

from __future__ import annotations

import numpy as np
from language_models import tiny_language_model
from methods.aml_maskers import LOSSES, tiny_backbone
from methods.maskers import sentences

import rationales
from rationales.masks.instant.aml.pretraining import pretrain
from rationales.masks.instant.aml.settings import AmlTraining
from rationales.masks.instant.training import TrainSettings, train

PROMPT = {"labels": ["good", "not good"], "template": "Review: {text}\nSentiment:"}
TEXT = "The boat drifted slowly towards the old bridge."


def check(model, masker, path, method):
    options = {"masker": str(masker.save(path))} | ({"steps": 2} if method == "aml-finetuned" else {})
    result = rationales.explain(model, TEXT, method=method, options=options)
    assert result.scores.shape == (len(result.units),)
    assert np.isfinite(result.scores).all()


def test_marc_instant(tmp_path):
    model = rationales.load(*tiny_language_model("llama"), **PROMPT)
    settings = TrainSettings(steps=4, inputs=4, width=16, layers=1, heads=2, held_out=4, validations=1)
    check(model, train(model, sentences(16), settings), tmp_path / "masker.safetensors", "marc-instant")


def test_aml_with_an_encoder_of_another_tokenizer(tmp_path):
    model = rationales.load(*tiny_language_model("llama"), **PROMPT)
    settings = AmlTraining(texts=12, validation_texts=4, epochs=1, inputs=6, trials=0, patience=0, dropout=False)
    masker = pretrain(model, sentences(16), settings, LOSSES, backbone=tiny_backbone(width=16))
    assert not masker.backbone.shares_tokenizer
    for method in ("aml-pretrained", "aml-finetuned"):
        check(model, masker, tmp_path / "aml.safetensors", method)
