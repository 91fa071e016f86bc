"""BERT as a sequence classifier (Devlin et al. 2019), for the embedded model alone.

Importing transformers takes several times as long as explaining a sentence with this model. Weights have the same
names and order as there, and tests/models/text/test_bert.py holds both to the same logits and gradients.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from rationales.models.empty_weights import empty_weights


class BertClassifier(nn.Module):
    """Token ids (R, T) -> logits (R, classes), read off the first token."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.bert = _Bert(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> SimpleNamespace:
        """`logits` (R, classes); `attention_mask` (R, T) is 0 for padding; `inputs_embeds` (R, T, hidden) stands in for
        the word embeddings of `input_ids`."""
        if inputs_embeds is None:
            if input_ids is None:
                raise ValueError("give input_ids or inputs_embeds")
            inputs_embeds = self.get_input_embeddings()(input_ids)
        return SimpleNamespace(logits=self.classifier(self.bert(inputs_embeds, attention_mask, token_type_ids)))

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings."""
        return self.bert.embeddings.word_embeddings


def load_bert(folder: Path) -> BertClassifier:
    """The classifier saved in a folder, in single precision and evaluation mode."""
    from safetensors.torch import load_file

    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    settings["id2label"] = {int(number): label for number, label in settings["id2label"].items()}
    config = SimpleNamespace(**settings, num_labels=len(settings["id2label"]))
    with empty_weights():
        module = BertClassifier(config)
    weights = {name: value.float() for name, value in load_file(folder / "model.safetensors").items()}
    module.load_state_dict(weights, assign=True)
    return module.eval()


class _Bert(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.embeddings = _Embeddings(config)
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList(_BertLayer(config) for _ in range(config.num_hidden_layers))}
        )
        self.pooler = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.hidden_size)})

    def forward(self, words: Tensor, attention: Tensor | None, types: Tensor | None) -> Tensor:
        """(R, hidden): the pooled state of the first token, from word embeddings (R, T, hidden)."""
        states = self.embeddings(words, types)
        full = attention is None or bool(attention.all())
        mask = None if attention is None or full else attention[:, None, None, :].bool()
        for layer in self.encoder["layer"].children():
            states = layer(states, mask)
        pooled: Tensor = self.pooler["dense"](states[:, 0]).tanh()
        return pooled


class _Embeddings(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, words: Tensor, types: Tensor | None) -> Tensor:
        positions = self.position_embeddings(torch.arange(words.shape[1], device=words.device)[None])
        if types is None:
            types = torch.zeros(words.shape[:2], dtype=torch.long, device=words.device)
        kinds = self.token_type_embeddings(types)
        states: Tensor = self.dropout(self.LayerNorm(words + kinds + positions))
        return states


class _BertLayer(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        size = config.hidden_size
        self.attention = _Attention(config)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size, config.intermediate_size), "activation": nn.GELU()})
        self.output = _Output(config, config.intermediate_size)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        states = self.attention(states, mask)
        inner = self.intermediate["activation"](self.intermediate["dense"](states))
        result: Tensor = self.output(inner, states)
        return result


class _Attention(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        size = config.hidden_size
        self.heads, self.rate = config.num_attention_heads, config.attention_probs_dropout_prob
        self.self = nn.ModuleDict({name: nn.Linear(size, size) for name in ("query", "key", "value")})
        self.output = _Output(config, size)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        rows, tokens, size = states.shape
        shape = (rows, tokens, self.heads, size // self.heads)
        query, key, value = (self.self[name](states).view(shape).transpose(1, 2) for name in ("query", "key", "value"))
        attended = scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=self.rate if self.training else 0.0
        )
        result: Tensor = self.output(attended.transpose(1, 2).reshape(rows, tokens, size), states)
        return result


class _Output(nn.Module):
    """Linear layer, residual connection and layer norm."""

    def __init__(self, config: Any, inner: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, inner: Tensor, states: Tensor) -> Tensor:
        result: Tensor = self.LayerNorm(self.dropout(self.dense(inner)) + states)
        return result
