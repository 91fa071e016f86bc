"""The models of our own."""

from __future__ import annotations

import copy

import pytest
import torch
from families import tiny

import rationales
from rationales.errors import ModelError
from rationales.models.catalogue import AUDIO_MODEL, CATALOGUE, EMBEDDED, IMAGE_MODEL, apply_delta, list_models

QUERY = "bert.encoder.layer.0.attention.self.query.weight"


@pytest.fixture
def module():
    return tiny("bert")[0]


def low_rank(rank=2):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(32, rank, generator=generator), torch.randn(rank, 32, generator=generator)


class TestDelta:
    def test_low_rank_pairs_are_added_and_whole_tensors_put_in_place(self, module):
        before = copy.deepcopy(module.state_dict())
        up, down = low_rank()
        bias = torch.arange(3.0)
        apply_delta(module, {f"{QUERY}.up": up, f"{QUERY}.down": down, "classifier.bias": bias})
        after = module.state_dict()
        assert torch.allclose(after[QUERY], before[QUERY] + up @ down, atol=1e-6)
        assert torch.equal(after["classifier.bias"], bias)
        unchanged = set(before) - {QUERY, "classifier.bias"}
        assert all(torch.equal(after[name], before[name]) for name in unchanged)

    def test_half_precision_is_added_in_the_models_own(self, module):
        before = module.state_dict()[QUERY].clone()
        up, down = (factor.half() for factor in low_rank())
        apply_delta(module, {f"{QUERY}.down": down, f"{QUERY}.up": up})
        assert torch.allclose(module.state_dict()[QUERY], before + up.float() @ down.float(), atol=1e-6)

    @pytest.mark.parametrize(
        "delta",
        [
            {"nothing.weight": torch.zeros(2)},
            {"nothing.weight.up": torch.zeros(2, 1), "nothing.weight.down": torch.zeros(1, 2)},
            {"nothing.weight.down": torch.zeros(1, 2)},
            {f"{QUERY}.up": torch.zeros(32, 2)},
            {f"{QUERY}.down": torch.zeros(2, 32)},
            {f"{QUERY}.up": torch.ones(1, 2), f"{QUERY}.down": torch.ones(2, 32)},  # would be broadcast
            {"classifier.bias": torch.ones(1)},
        ],
        ids=["whole", "pair", "half of nothing", "up alone", "down alone", "shape", "shape of the whole"],
    )
    def test_what_does_not_fit_is_an_error_and_changes_nothing(self, module, delta):
        before = copy.deepcopy(module.state_dict())
        with pytest.raises(ModelError, match=next(iter(delta)).rpartition(".")[0]):
            apply_delta(module, {"classifier.weight": torch.zeros(3, 32)} | delta)
        assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


class TestCatalogue:
    def test_the_default_comes_first(self):
        models = list_models()
        assert [info.name for info in models] == [*CATALOGUE, IMAGE_MODEL, AUDIO_MODEL]
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

    @pytest.mark.parametrize("name", [name for name in CATALOGUE if name != EMBEDDED])
    def test_a_model_that_is_not_here_says_what_it_needs(self, name, monkeypatch, tmp_path):
        monkeypatch.setattr("rationales.models.catalogue._encoder_folder", lambda: None)
        with pytest.raises(ModelError, match="pip install"):
            rationales.load(name)
        monkeypatch.setattr("rationales.models.catalogue._encoder_folder", lambda: tmp_path)
        monkeypatch.setattr("rationales.models.catalogue._DELTA", tmp_path)
        with pytest.raises(ModelError, match="checkout"):
            rationales.load(name)

    def test_a_broken_installation_says_so(self, monkeypatch, tmp_path):
        monkeypatch.setattr("rationales.models.catalogue._HERE", tmp_path)
        assert not list_models()[0].available
        with pytest.raises(ModelError, match="install the package again"):
            rationales.load()
