"""GGUF files are read, and their converted weights are kept in the cache, and never used for another file."""

from __future__ import annotations

import json

import pytest
import torch
from language_models import tiny_language_model

import rationales
from rationales.errors import ModelError, OptionError
from rationales.models.prompt import gguf_file

gguf = pytest.importorskip("gguf")
pytest.importorskip("accelerate")


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A file whose conversion, which transformers does, is replaced by a small model; conversions are counted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    original, module_and_tokenizer = gguf_file._from_pretrained, tiny_language_model("llama")

    def from_pretrained(folder, **options):
        if "gguf_file" in options:
            gguf_file.conversions += 1
            return module_and_tokenizer
        return original(folder, **options)

    monkeypatch.setattr(gguf_file, "_from_pretrained", from_pretrained)
    monkeypatch.setattr(gguf_file, "conversions", 0, raising=False)
    file = tmp_path / "small.gguf"
    file.write_bytes(b"GGUF")
    return file


def test_a_file_is_converted_once(path):
    module, tokenizer = gguf_file.open_gguf(path)
    again, same_tokenizer = gguf_file.open_gguf(path)
    assert gguf_file.conversions == 1
    weights, stored = module.state_dict(), again.state_dict()
    assert weights.keys() == stored.keys()
    assert all(torch.equal(weights[name], stored[name]) for name in weights)
    assert tokenizer("A fine film.")["input_ids"] == same_tokenizer("A fine film.")["input_ids"]


def test_a_changed_file_is_converted_again(path):
    gguf_file.open_gguf(path)
    path.write_bytes(b"GGUF, another one")
    gguf_file.open_gguf(path)
    assert gguf_file.conversions == 2


def test_a_damaged_copy_is_replaced(path):
    gguf_file.open_gguf(path)
    (weights,) = gguf_file.converted_folder(path).glob("*.safetensors")
    weights.write_bytes(b"damaged")
    gguf_file.open_gguf(path)
    gguf_file.open_gguf(path)
    assert gguf_file.conversions == 2


def test_nothing_is_kept_of_large_models_or_without_a_cache(path, monkeypatch):
    monkeypatch.setattr(gguf_file, "MAX_STORED_BYTES", 0)
    gguf_file.open_gguf(path)
    assert not gguf_file.converted_folder(path).exists()
    monkeypatch.undo()
    blocked = path.parent / "blocked"
    blocked.write_text("a file")
    monkeypatch.setattr(gguf_file, "converted_folder", lambda _: blocked / "model")
    gguf_file._store(*tiny_language_model("llama"), blocked / "model")
    assert blocked.read_text() == "a file"


PROMPT = {"labels": ["good", "bad"], "template": "Review: {text}\nSentiment:", "baseline": "mean"}
TEXT = "I did not like the soup."


def write_gguf(path, module, tokenizer):
    """A Qwen2 in single precision, with its tokenizer."""
    config, backend = module.config, json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary, merges = backend["model"]["vocab"], backend["model"]["merges"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    special = {token["id"] for token in backend["added_tokens"]}
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_merges([" ".join(merge) for merge in merges])
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if number in special else normal for number in range(len(tokens))])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, weight in module.state_dict().items():
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class TestRealFile:
    @pytest.fixture
    def original(self):
        return tiny_language_model("qwen2")

    @pytest.fixture
    def real_file(self, original, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        write_gguf(tmp_path / "tiny.gguf", *original)
        return tmp_path / "tiny.gguf"

    def test_it_is_the_model_that_was_written(self, real_file, original):
        model = rationales.load(real_file, **PROMPT)
        weights, expected = model.language_model.state_dict(), original[0].state_dict()
        assert weights.keys() == expected.keys()
        assert all(torch.equal(weights[name], expected[name]) for name in weights)
        assert model.tokenizer(TEXT)["input_ids"] == original[1](TEXT)["input_ids"]
        in_memory = rationales.load(*original, **PROMPT)
        first, second = (rationales.explain(each, TEXT, method="saliency") for each in (model, in_memory))
        assert first.scores.tolist() == pytest.approx(second.scores.tolist(), abs=1e-6)
        assert first.probabilities["full"] == pytest.approx(second.probabilities["full"], abs=1e-6)

    def test_it_cannot_be_spread_over_devices(self, real_file):
        with pytest.raises(OptionError, match="a GGUF file are converted as a whole; or name one device"):
            rationales.load(real_file, **PROMPT, device="auto")

    def test_another_file_of_this_name_is_refused(self, tmp_path):
        (tmp_path / "bad.gguf").write_bytes(b"GGUF nope")
        with pytest.raises(ModelError, match="cannot load"):
            rationales.load(tmp_path / "bad.gguf", **PROMPT)
