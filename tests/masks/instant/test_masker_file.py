"""A masker and what it was trained for lie in one file, and it is refused where it does not belong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from families import tiny
from methods.maskers import text_batch, untrained_masker
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

import rationales
from rationales.errors import InputError, ModelError, OptionError
from rationales.masks.instant.masker_file import load_masker

TEXT = "The bread wasn't bad at all!"


def with_other_normaliser(tokenizer):
    """A copy of the tokenizer that makes no lower case of its text, or one that does."""
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    settings["normalizer"] = {"type": "Lowercase"} if settings["normalizer"] is None else None
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    special = {name: getattr(tokenizer, name) for name in names}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(settings)), **special)


@pytest.fixture
def model():
    return rationales.load(*tiny("bert"))


def predictions(masker, model):
    with model.frozen():
        return masker(text_batch(model, [TEXT]), torch.tensor([1]))


class TestSavingAndLoading:
    def test_the_same_bits_come_back(self, model, tmp_path):
        masker = untrained_masker(model)
        path = masker.save(tmp_path / "m.safetensors")
        read = load_masker(path)
        assert read.card == masker.card
        assert read.network.shape == masker.network.shape
        for original, restored in zip(predictions(masker, model), predictions(read, model), strict=True):
            assert torch.equal(original, restored)
        assert not any(weight.requires_grad for weight in read.network.parameters())

    def test_half_precision_is_half_as_large_and_nearly_the_same(self, model, tmp_path):
        masker = untrained_masker(model, width=64)
        full, half = masker.save(tmp_path / "whole"), masker.save(tmp_path / "half", half=True)
        assert half.stat().st_size < 0.6 * full.stat().st_size
        read = load_masker(half)
        assert all(weight.dtype == torch.float32 for weight in read.network.parameters())
        assert torch.allclose(predictions(read, model)[0], predictions(masker, model)[0], atol=0.02)

    def test_the_header_says_what_it_is_for(self, model, tmp_path):
        masker = untrained_masker(model)
        with safe_open(masker.save(tmp_path / "m"), framework="pt") as file:
            metadata = json.loads(file.metadata()["masker"])
        assert metadata["card"]["labels"] == ["LABEL_0", "LABEL_1", "LABEL_2"]
        assert metadata["card"]["objective"]["sparsity"] == 1.0
        assert re.fullmatch("[0-9a-f]{32}", metadata["card"]["fingerprint"])

    def test_nothing_half_written_stays(self, model, tmp_path):
        with pytest.raises(InputError, match="does not exist"):
            untrained_masker(model).save(tmp_path / "nowhere" / "m")
        assert list(tmp_path.iterdir()) == []

    def test_a_file_that_was_written_anew_is_read_anew(self, model, tmp_path):
        path = untrained_masker(model).save(tmp_path / "m")
        first = load_masker(path)
        assert load_masker(path) is first
        untrained_masker(model, width=32).save(path)
        assert load_masker(path).network.shape.width == 32


class TestRefused:
    def test_what_is_not_there(self, tmp_path):
        with pytest.raises(OptionError, match=r"no masker .*train one: rationales train-masker"):
            load_masker(tmp_path / "m")
        with pytest.raises(OptionError, match="no masker"):
            load_masker(tmp_path)

    @pytest.mark.parametrize("content", [b"", b"hello", b"\x10\x00\x00\x00\x00\x00\x00\x00{" + b" " * 40])
    def test_what_is_no_safetensors_file(self, tmp_path, content):
        path = tmp_path / "m"
        path.write_bytes(content)
        with pytest.raises(ModelError, match="no masker, or a damaged one"):
            load_masker(path)

    def test_other_weights(self, tmp_path):
        path = tmp_path / "m"
        save_file({"weight": torch.zeros(2)}, path)
        with pytest.raises(ModelError, match="no masker"):
            load_masker(path)

    @pytest.mark.parametrize("change", [{"format": 99}, {"shape": {"wide": 3}}, {"card": {}}])
    def test_a_header_of_another_version(self, model, tmp_path, change):
        path = untrained_masker(model).save(tmp_path / "m")
        with safe_open(path, framework="pt") as file:
            metadata = json.loads(file.metadata()["masker"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        save_file(tensors, path, {"masker": json.dumps(metadata | change)})
        with pytest.raises(ModelError, match="train"):
            load_masker(path)

    def test_a_damaged_body(self, model, tmp_path):
        path = untrained_masker(model).save(tmp_path / "m")
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(ModelError, match="damaged"):
            load_masker(path)

    REASONS: ClassVar[dict[str, str]] = {
        "weights": "trained for BertForSequenceClassification, and this is another model, or has other weights",
        "labels": "trained for a model with the labels LABEL_0, LABEL_1, LABEL_2, and this model has others",
        "classes": "trained for a model with the labels LABEL_0, LABEL_1, LABEL_2, and this model has others",
        "tokenizer": "trained for BertForSequenceClassification with another tokenizer than this one",
        "baseline": "trained for words replaced by the baseline pad, and here they become something else",
    }

    def other_model(self, changed):
        module, tokenizer = tiny("bert", seed=1) if changed == "weights" else tiny("bert")
        if changed == "classes":
            module, tokenizer = tiny("bert", labels=2)
        if changed == "labels":
            module.config.id2label = {0: "a", 1: "b", 2: "c"}
        if changed == "tokenizer":
            tokenizer = with_other_normaliser(tokenizer)
        return rationales.load(module, tokenizer, baseline="mask" if changed == "baseline" else None)

    @pytest.mark.parametrize("changed", REASONS)
    def test_a_masker_of_another_model_with_the_reason(self, model, changed):
        with pytest.raises(OptionError, match=rf"{self.REASONS[changed]}.*rationales train-masker"):
            predictions(untrained_masker(model), self.other_model(changed))

    @pytest.mark.parametrize("changed", REASONS)
    def test_a_file_without_digests_has_no_tokenizer_to_compare_and_one_message(self, model, changed, tmp_path):
        masker = untrained_masker(model)
        path = replace(masker, card=replace(masker.card, digests={})).save(tmp_path / "m")
        with safe_open(path, framework="pt") as file:
            metadata = json.loads(file.metadata()["masker"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        del metadata["card"]["digests"]
        save_file(tensors, path, {"masker": json.dumps(metadata)})
        old, other_model = load_masker(path), self.other_model(changed)
        if changed == "tokenizer":
            predictions(old, other_model)
            return
        with pytest.raises(OptionError, match=r"trained for .*another model.*rationales train-masker"):
            predictions(old, other_model)

    def test_a_masker_of_other_units(self, model):
        other_model = rationales.load(*tiny("bert"), unit="token")
        with pytest.raises(OptionError, match="trained for words, and here each token is a unit"):
            predictions(untrained_masker(model), other_model)

    def test_but_not_the_same_model_loaded_again_or_in_double_precision(self, model):
        masker = untrained_masker(model)
        module, tokenizer = tiny("bert")
        predictions(masker, rationales.load(module, tokenizer))
        prediction = predictions(masker, rationales.load(module.double(), tokenizer))
        assert prediction[0].dtype == torch.float64
