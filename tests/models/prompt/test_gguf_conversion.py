"""The converted weights of a GGUF file are kept in the cache, and never used for another file."""

from __future__ import annotations

import pytest
import torch
from language_models import tiny_language_model

from rationales.models.prompt import gguf_file

pytest.importorskip("gguf")
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
