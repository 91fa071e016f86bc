"""A model whose answer is what it reads: its logits are the word embeddings, one after the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from families import tokenizer_of
from torch import Tensor, nn


class Scaled(nn.Module):
    """An embedding with a scale of its own, registered before its table, as some models have it."""

    def __init__(self, words: int, size: int, scale: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale, dtype=torch.float64))
        self.table = nn.Embedding(words, size, dtype=torch.float64)

    def forward(self, ids: Tensor) -> Tensor:
        return self.scale * self.table(ids)


class Echo(nn.Module):
    """(R, T) ids -> (R, T * size) logits; for one text of `tokens` tokens at a time."""

    def __init__(self, tokens: int, size: int = 8, scale: float = 1.0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.embedding = Scaled(len(tokenizer_of("bert")), size, scale)
        labels = {number: f"number {number}" for number in range(tokens * size)}
        self.config = SimpleNamespace(id2label=labels, num_labels=len(labels), problem_type=None, pad_token_id=0)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.embedding(input_ids).flatten(1)


def echo(text: str, **options: Any) -> tuple[Echo, Any]:
    """The model for this text and its tokenizer."""
    tokenizer = tokenizer_of("bert")
    return Echo(len(tokenizer(text)["input_ids"]), **options).double(), tokenizer
