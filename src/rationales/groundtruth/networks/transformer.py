"""A small transformer for text classification, trained from scratch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rationales.errors import OptionError
from rationales.groundtruth.networks.attention_block import TransformerLayer
from rationales.groundtruth.networks.vocabulary import PADDING_ID, TextConfiguration


class TextTransformer(nn.Module):
    """Word and position embeddings -> transformer layers -> mean over the words -> logits."""

    def __init__(
        self,
        vocabulary_size: int,
        labels: Sequence[str],
        width: int = 128,
        layers: int = 2,
        heads: int = 4,
        max_length: int = 512,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if width % heads:
            raise OptionError(f"a width of {width} is not divisible by {heads} heads")
        self.embeddings = nn.Embedding(vocabulary_size, width, padding_idx=PADDING_ID)
        self.positions = nn.Embedding(max_length, width)
        self.layers = nn.ModuleList(TransformerLayer(width, heads, 4 * width, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, len(labels))
        self.config = TextConfiguration(
            dict(enumerate(labels)),
            width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            max_position_embeddings=max_length,
        )
        nn.init.normal_(self.embeddings.weight, std=1.0)
        nn.init.normal_(self.positions.weight, std=0.02)
        with torch.no_grad():
            self.embeddings.weight[PADDING_ID] = 0

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings."""
        return self.embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(S, T) -> (S, classes)."""
        position_ids = torch.arange(input_ids.shape[1], device=input_ids.device)
        hidden_states: Tensor = self.embeddings(input_ids) + self.positions(position_ids)
        attended = attention_mask > 0
        for layer in self.layers:
            hidden_states = layer(hidden_states, attended)
        weight = attended[..., None].to(hidden_states.dtype)
        pooled = (self.norm(hidden_states) * weight).sum(1) / weight.sum(1).clamp(min=1)
        logits: Tensor = self.classifier(pooled)
        return logits
