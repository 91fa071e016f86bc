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


def attentive_model(
    weights: dict[str, tuple[float, ...]], labels: tuple[str, ...], bias: tuple[float, ...] | None = None
) -> tuple[nn.Module, Any]:
    """A BERT of one layer with weights set by hand, which does what `WeightedWordsModel` does by attention.

    The first token attends to the words of `weights` and hardly to others. What it gets from each is that word's
    weights, which become the logits. `bias`: what is added to the logits. Every state is (f, -f), f being a few named
    features, so that its mean is 0 and a layer norm only scales it.
    """
    from transformers import BertConfig, BertForSequenceClassification

    tokenizer, classes = tokenizer_of("bert"), len(labels)
    features = 4 + 2 * classes  # first token, keyword, plain word, filler of the norm; weights; what was read
    first, keyword, plain, filler, word, read = 0, 1, 2, 3, 4, 4 + classes
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=2 * features,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=64,
        id2label=dict(enumerate(labels)),
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        module = BertForSequenceClassification(config).eval()

    def paired(matrix: Tensor) -> Tensor:
        return torch.cat([torch.cat([matrix, -matrix], 1), torch.cat([-matrix, matrix], 1)]) / 2

    def moves(pairs: list[tuple[int, int, float]]) -> Tensor:
        matrix = torch.zeros(features, features)
        for source, destination, gain in pairs:
            matrix[destination, source] = gain
        return paired(matrix)

    with torch.no_grad():
        for name, weight in module.named_parameters():
            weight.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
        meaning = torch.zeros(len(tokenizer), features)
        meaning[:, plain] = 1
        meaning[tokenizer.cls_token_id, plain], meaning[tokenizer.cls_token_id, first] = 0, 1
        for text, row in weights.items():
            for token in tokenizer(text, add_special_tokens=False)["input_ids"]:
                meaning[token, plain], meaning[token, keyword] = 0, 1
                meaning[token, word : word + classes] = torch.tensor(row) / 10
        meaning[:, filler] = (4 - meaning.square().sum(1)).sqrt()  # all of one norm
        module.bert.embeddings.word_embeddings.weight.copy_(torch.cat([meaning, -meaning], 1))
        layer = module.bert.encoder.layer[0]
        layer.attention.self.query.weight.copy_(moves([(first, first, 3.0)]))
        layer.attention.self.key.weight.copy_(moves([(keyword, first, 2.0)]))
        layer.attention.self.value.weight.copy_(moves([(word + c, read + c, 1.0) for c in range(classes)]))
        layer.attention.output.dense.weight.copy_(torch.eye(2 * features))
        module.bert.pooler.dense.weight.copy_(moves([(read + c, c, 0.5) for c in range(classes)]))
        module.classifier.weight[:, :classes].copy_(torch.eye(classes) * 20)
        module.classifier.bias.copy_(torch.tensor(bias or [0.0] * classes))
    return module, tokenizer


def attentive_keyword_model(*keywords: str) -> tuple[nn.Module, Any]:
    """As `keyword_model`, by attention."""
    return attentive_model(dict.fromkeys(keywords, (0.0, 9.0)), ("absent", "found"), bias=(2.0, 0.0))


def attentive_contrast_model() -> tuple[nn.Module, Any]:
    """As `contrast_model`, by attention."""
    return attentive_model({"bridge": (9.0, 9.0, 0.0), "joke": (6.0, 0.0, 0.0)}, ("comedy", "tragedy", "report"))


def attentive_constant_logit_model() -> tuple[nn.Module, Any]:
    """As `constant_logit_model`, by attention."""
    return attentive_model({"bridge": (0.0, 9.0), "joke": (0.0, -9.0)}, ("comedy", "tragedy"))
