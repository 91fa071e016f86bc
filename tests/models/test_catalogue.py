"""The models of our own."""

from __future__ import annotations

import pytest
import torch

import rationales
from rationales.errors import ModelError
from rationales.models.catalogue import (
    AUDIO_MODEL,
    CATALOGUE,
    DELTA_MODELS,
    EMBEDDED,
    IMAGE_MODEL_NAMES,
    LANGUAGE_MODELS,
    SMALL_MODELS,
    list_models,
)


class TestCatalogue:
    def test_the_default_comes_first(self):
        models = list_models()
        assert [info.name for info in models] == [*CATALOGUE, *LANGUAGE_MODELS, *IMAGE_MODEL_NAMES, AUDIO_MODEL]
        assert models[0].name == EMBEDDED
        assert all(info.summary for info in models)
        assert all(bool(info.where) == info.available for info in models)

    def test_no_argument_means_the_embedded_model(self):
        model, named = rationales.load(), rationales.load(EMBEDDED)
        assert model.name == named.name == EMBEDDED
        text = "This movie was not good ."
        mine, theirs = (rationales.explain(loaded, text, method="occlusion") for loaded in (model, named))
        assert mine.probabilities == theirs.probabilities
        assert next(model.networks[0].module.parameters()).dtype == torch.float32

    @pytest.mark.parametrize("name", DELTA_MODELS)
    def test_a_model_that_is_not_here_says_what_it_needs(self, name, monkeypatch, tmp_path):
        monkeypatch.setattr("rationales.models.delta.encoder_folder", lambda: None)
        with pytest.raises(ModelError, match="pip install"):
            rationales.load(name)
        monkeypatch.setattr("rationales.models.delta.encoder_folder", lambda: tmp_path)
        monkeypatch.setattr("rationales.models.delta.DELTA_FOLDER", tmp_path)
        with pytest.raises(ModelError, match="checkout"):
            rationales.load(name)

    @pytest.mark.parametrize("name", SMALL_MODELS)
    def test_a_small_model_needs_the_checkout_alone(self, name, monkeypatch, tmp_path):
        monkeypatch.setattr("rationales.models.delta.encoder_folder", lambda: None)
        monkeypatch.setattr("rationales.models.delta.DELTA_FOLDER", tmp_path)
        with pytest.raises(ModelError, match="checkout"):
            rationales.load(name)

    def test_a_broken_installation_says_so(self, monkeypatch, tmp_path):
        monkeypatch.setattr("rationales.models.catalogue._HERE", tmp_path)
        assert not list_models()[0].available
        with pytest.raises(ModelError, match="install the package again"):
            rationales.load()
