"""Fillers for tests: tiny masked language models with random weights, and one whose likelihoods are written down."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from families import MARKS, tokenizer_of
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

WORDS = [
    *("a", "the", "i", "not", "was", "is", "old", "cold", "warm", "soup", "bread", "bridge", "joke", "boat", "day"),
    *("room", "door", "hill", "dull", "good", "bad", "very", "nobody", "laughed", "at", "again", "did", "like"),
    *("but", "all", ",", ".", "!", "stepping", "stone", "rolling"),
]
_FOLDER = tempfile.TemporaryDirectory(prefix="fillers")


def word_tokenizer(words=WORDS):
    """A tokenizer whose tokens are these words, in lower case, with BERT's special tokens; all else is [UNK]."""
    core = Tokenizer(models.WordLevel({word: number for number, word in enumerate([*MARKS, *words])}, "[UNK]"))
    core.add_special_tokens(MARKS)
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


def tiny_filler(tokenizer=None, seed=0, kind="Bert", scale=0.4, **options):
    """A random fill-mask model and its tokenizer."""
    tokenizer = word_tokenizer() if tokenizer is None else tokenizer
    sizes = {
        "vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 64, "max_position_embeddings": 66, "pad_token_id": tokenizer.pad_token_id,
    }  # fmt: skip
    config = getattr(transformers, f"{kind}Config")(**(sizes | options))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = getattr(transformers, f"{kind}ForMaskedLM")(config)
        with torch.no_grad():
            for weight in module.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, scale)
    return module.eval(), tokenizer


@functools.cache
def filler_folder():
    """Folder of a random fill-mask model with a tokenizer of its own, as `--set filler=FOLDER` takes it."""
    module, tokenizer = tiny_filler()
    folder = Path(_FOLDER.name) / "filler"
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


class KnownFiller(nn.Module):
    """A fill-mask model that knows a text by heart: at each position it has likelihoods that are written down.

    `likelihoods`: position of a word in the text -> {word: likelihood}; the remainder goes to [UNK], which is never
    proposed.
    """

    def __init__(self, likelihoods: Mapping[int, Mapping[str, float]], tokenizer: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.config = SimpleNamespace(max_position_embeddings=64)
        self.table = torch.zeros(64, len(tokenizer))
        for position, words in likelihoods.items():
            for word, likelihood in words.items():
                self.table[position + 1, tokenizer.convert_tokens_to_ids(word)] = likelihood
        self.table[:, tokenizer.unk_token_id] = 1 - self.table.sum(1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.table[: input_ids.shape[1]].log().expand(len(input_ids), -1, -1)


def known_filler(likelihoods):
    """Such a filler and its tokenizer."""
    tokenizer = word_tokenizer()
    return KnownFiller(likelihoods, tokenizer), tokenizer


def dropping_filler(*symbols, seed=0):
    """A random fill-mask model whose tokenizer drops these symbols: its normaliser removes them."""
    tokenizer = word_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(symbol, "") for symbol in symbols]
    )
    return tiny_filler(tokenizer, seed)


def language_model(module, tokenizer):
    """The fill-mask model as the slow reference takes it: words, of which None are masked, to likelihoods of words."""
    special = set(tokenizer.all_special_ids)

    def predict(words):
        ids = tokenizer(" ".join(tokenizer.mask_token if word is None else word for word in words), return_tensors="pt")
        with torch.no_grad():
            output = module(**{name: ids[name] for name in tokenizer.model_input_names})
        likelihoods = output.logits.double().softmax(-1)[0]
        masks = torch.nonzero(ids["input_ids"][0] == tokenizer.mask_token_id).flatten().tolist()
        return [
            {
                tokenizer.convert_ids_to_tokens(token): float(likelihoods[position, token])
                for token in range(len(tokenizer))
                if token not in special and not tokenizer.convert_ids_to_tokens(token).startswith("##")
            }
            for position in masks
        ]

    return predict


__all__ = [
    "dropping_filler",
    "filler_folder",
    "known_filler",
    "language_model",
    "tiny_filler",
    "tokenizer_of",
    "word_tokenizer",
]
