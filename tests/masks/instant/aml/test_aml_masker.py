"""A masker's file: complete, safe, and refused with the reason where it does not belong."""

from __future__ import annotations

import json

import pytest
import torch
from families import tiny, tokenizer_of
from methods.aml_maskers import LOSSES, untrained_aml_masker
from methods.maskers import text_batch, untrained_masker
from safetensors import safe_open
from transformers import PreTrainedTokenizerFast

import rationales
from rationales.errors import ModelError, OptionError
from rationales.masks.instant.aml.masker import HEADER, load_aml_masker
from rationales.masks.instant.aml.settings import AmlLosses
from rationales.masks.instant.masker_file import load_masker

TEXTS = ["Dull.", "I did not like the soup, but the bread wasn't bad at all!"]


@pytest.fixture
def model():
    return rationales.load(*tiny("bert"))


def maps(masker, model):
    with model.frozen():
        return masker.attributions(text_batch(model, TEXTS), torch.tensor([0, 1]))


@pytest.mark.parametrize("backbone", ["own", "small", "other"])
def test_a_masker_that_was_saved_gives_the_same_maps(model, backbone, tmp_path):
    masker = untrained_aml_masker(model, tiny("roberta") if backbone == "other" else backbone)
    loaded = load_aml_masker(masker.save(tmp_path / "m.safetensors"))
    assert torch.allclose(maps(masker, model), maps(loaded, model), atol=1e-6)
    assert loaded.card == masker.card
    assert loaded.backbone.limit == masker.backbone.limit
    half = load_aml_masker(masker.save(tmp_path / "h.safetensors", half=True))
    assert torch.allclose(maps(masker, model), maps(half, model), atol=2e-2)
    assert (tmp_path / "h.safetensors").stat().st_size < (tmp_path / "m.safetensors").stat().st_size


def test_a_backbone_whose_configuration_asks_for_half_precision_runs_in_single_precision(model, tmp_path):
    encoder, tokenizer = tiny("roberta")
    encoder.config.dtype = torch.float16  # as from_pretrained leaves it with weights in half precision
    masker = untrained_aml_masker(model, (encoder, tokenizer))
    loaded = load_aml_masker(masker.save(tmp_path / "m.safetensors"))
    assert torch.allclose(maps(masker, model), maps(loaded, model), atol=1e-6)


def test_a_learned_mask_vector_is_saved(model, tmp_path):
    masker = untrained_aml_masker(model, losses=AmlLosses(replacement="learned"))
    loaded = load_aml_masker(masker.save(tmp_path / "m.safetensors"))
    assert torch.equal(loaded.network.mask_vector, masker.network.mask_vector)


def test_word_embeddings_of_the_model_are_not_stored_twice(model, tmp_path):
    file = untrained_aml_masker(model, "own").save(tmp_path / "m.safetensors")
    with safe_open(file, framework="pt") as opened:
        assert not any("word_embeddings" in name for name in opened.keys())  # noqa: SIM118
        card = json.loads(opened.metadata()[HEADER])["card"]
    assert card["labels"] == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert card["losses"]["attribution_weight"] == LOSSES.attribution_weight


class TestRefusedWithTheReason:
    @pytest.fixture
    def masker(self, model):
        return untrained_aml_masker(model)

    def test_another_model(self, masker):
        with pytest.raises(OptionError, match=r"another model, or has other weights; train one .*--kind aml"):
            maps(masker, rationales.load(*tiny("bert", seed=1)))

    def test_other_labels(self, masker):
        module, tokenizer = tiny("bert")
        module.config.id2label = {0: "good", 1: "bad", 2: "neither"}
        with pytest.raises(
            OptionError, match=r"labels LABEL_0, LABEL_1, LABEL_2, and this model's labels are good, bad"
        ):
            maps(masker, rationales.load(module, tokenizer))

    def test_another_tokenizer(self, masker):
        module, tokenizer = tiny("bert")
        core = tokenizer_of("bert").backend_tokenizer
        core.add_tokens(["soup"])
        named = {name: getattr(tokenizer, name) for name in ("pad_token", "unk_token", "mask_token")}
        extended = PreTrainedTokenizerFast(tokenizer_object=core, **named)
        with pytest.raises(OptionError, match="with another tokenizer"):
            maps(masker, rationales.load(module, extended))

    def test_other_units(self, masker):
        with pytest.raises(OptionError, match="for words, and here each token is a unit"):
            maps(masker, rationales.load(*tiny("bert"), unit="token"))

    def test_another_baseline_is_no_other_model(self, masker, model):
        mask_baseline = rationales.load(*tiny("bert"), baseline="mask")
        assert torch.equal(maps(masker, model), maps(masker, mask_baseline))

    def test_a_masker_of_the_other_kind(self, model, tmp_path):
        marc, aml = tmp_path / "marc.safetensors", tmp_path / "aml.safetensors"
        untrained_masker(model).save(marc)
        untrained_aml_masker(model).save(aml)
        with pytest.raises(ModelError, match="masker of marc-instant, not of AML"):
            load_aml_masker(marc)
        with pytest.raises(ModelError, match="AML masker, for aml-pretrained and aml-finetuned"):
            load_masker(aml)

    def test_a_damaged_or_missing_file(self, masker, tmp_path):
        file = masker.save(tmp_path / "m.safetensors")
        file.write_bytes(file.read_bytes()[:-100])
        with pytest.raises(ModelError, match=r"no AML masker, or a damaged one"):
            load_aml_masker(file)
        with pytest.raises(OptionError, match="there is no masker"):
            load_aml_masker(tmp_path / "no")
