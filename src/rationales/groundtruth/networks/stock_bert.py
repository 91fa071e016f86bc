"""A small BERT of transformers' own class, trained from scratch: methods that look inside an encoder can read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rationales.groundtruth.networks.vocabulary import PADDING_ID

if TYPE_CHECKING:
    from torch import nn


def small_bert(
    vocabulary_size: int,
    labels: Sequence[str],
    width: int = 128,
    layers: int = 2,
    heads: int = 4,
    max_length: int = 512,
) -> nn.Module:
    """BertForSequenceClassification without dropout; the classifier reads the state of the first word."""
    from transformers import BertConfig, BertForSequenceClassification

    names = dict(enumerate(labels))
    config = BertConfig(
        vocab_size=vocabulary_size,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=max_length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=PADDING_ID,
        id2label=names,
        label2id={name: number for number, name in names.items()},
    )
    untyped: Any = BertForSequenceClassification
    module: nn.Module = untyped(config)
    return module
