"""A classifier whose true cause is known: it looks for two words and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from families import tokenizer_of
from torch import Tensor, nn


class KeywordModel(nn.Module):
    """Logit of `found` = strength x (how much of the keywords' embeddings is in the text) - 1/2 strength.

    Every token has an embedding of its own direction, so a keyword's share is read off exactly. The share is squared,
    so that the gradient is large at a keyword and 0 where there is none.
    """

    def __init__(self, keywords: list[str], strength: float = 12.0) -> None:
        super().__init__()
        tokenizer = tokenizer_of("bert")
        ids = [token for word in keywords for token in tokenizer(word, add_special_tokens=False)["input_ids"]]
        self.embeddings = nn.Embedding(len(tokenizer), len(tokenizer))
        with torch.no_grad():
            self.embeddings.weight.copy_(torch.eye(len(tokenizer)))
        self.register_buffer("wanted", torch.tensor(ids))
        self.strength = strength
        self.config = SimpleNamespace(
            id2label={0: "absent", 1: "found"}, num_labels=2, problem_type=None, pad_token_id=tokenizer.pad_token_id
        )

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        words = self.embeddings(input_ids) * attention_mask[..., None]
        share = words[..., self.wanted].square().sum(1).mean(-1)  # 1 when every keyword is there once
        logit = self.strength * (share - 0.5)
        return torch.stack([-logit, logit], -1) / 2


def keyword_model(*keywords: str, strength: float = 12.0) -> tuple[nn.Module, Any]:
    """The model and its tokenizer."""
    return KeywordModel(list(keywords), strength), tokenizer_of("bert")


class WeightedWordsModel(nn.Module):
    """The logit of each class is the sum of the weights that the words of a text have for it, and nothing else.

    A word counts by the square of its share, as in `KeywordModel`.
    """

    def __init__(self, weights: dict[str, tuple[float, ...]], labels: tuple[str, ...]) -> None:
        super().__init__()
        tokenizer = tokenizer_of("bert")
        ids = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in weights]
        self.embeddings = nn.Embedding(len(tokenizer), len(tokenizer))
        with torch.no_grad():
            self.embeddings.weight.copy_(torch.eye(len(tokenizer)))
        self.register_buffer("words", torch.tensor([token for tokens in ids for token in tokens]))
        per_token = [
            torch.tensor(row) / len(tokens) for row, tokens in zip(weights.values(), ids, strict=True) for _ in tokens
        ]
        self.register_buffer("weights", torch.stack(per_token))  # (tokens, classes)
        self.config = SimpleNamespace(
            id2label=dict(enumerate(labels)),
            num_labels=len(labels),
            problem_type=None,
            pad_token_id=tokenizer.pad_token_id,
        )

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        words = self.embeddings(input_ids) * attention_mask[..., None]
        return words[..., self.words].square().sum(1) @ self.weights


def contrast_model() -> tuple[nn.Module, Any]:
    """'bridge' speaks for comedy and for tragedy alike, 'joke' for comedy alone, and less loudly."""
    weights = {"bridge": (9.0, 9.0, 0.0), "joke": (6.0, 0.0, 0.0)}
    return WeightedWordsModel(weights, ("comedy", "tragedy", "report")), tokenizer_of("bert")


def constant_logit_model() -> tuple[nn.Module, Any]:
    """Logits (0, z): 'bridge' raises z and speaks for tragedy; 'joke' lowers it and speaks for comedy."""
    weights = {"bridge": (0.0, 9.0), "joke": (0.0, -9.0)}
    return WeightedWordsModel(weights, ("comedy", "tragedy")), tokenizer_of("bert")
