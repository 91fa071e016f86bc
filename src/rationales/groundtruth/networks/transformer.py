"""A small transformer classifier of texts, trained from scratch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rationales.errors import OptionError
from rationales.groundtruth.networks.attention_block import Layer
from rationales.groundtruth.networks.vocabulary import PADDING, configuration


class TextTransformer(nn.Module):
    """Words and places -> layers -> the mean over the words -> logits."""

    def __init__(
        self,
        vocabulary: int,
        labels: Sequence[str],
        width: int = 128,
        layers: int = 2,
        heads: int = 4,
        longest: int = 512,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if width % heads:
            raise OptionError(f"{width} numbers cannot be shared out to {heads} heads")
        self.embeddings = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.places = nn.Embedding(longest, width)
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, len(labels))
        self.config = configuration(
            labels,
            width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            max_position_embeddings=longest,
        )
        for table in (self.embeddings, self.places):
            nn.init.normal_(table.weight, std=0.02 if table is self.places else 1.0)
        with torch.no_grad():
            self.embeddings.weight[PADDING] = 0

    def get_input_embeddings(self) -> nn.Module:
        """Where words become numbers."""
        return self.embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(S, T) -> (S, classes)."""
        place = torch.arange(input_ids.shape[1], device=input_ids.device)
        tokens: Tensor = self.embeddings(input_ids) + self.places(place)
        attended = attention_mask > 0
        for layer in self.layers:
            tokens = layer(tokens, attended)
        share = attended[..., None].to(tokens.dtype)
        found: Tensor = self.classifier((self.norm(tokens) * share).sum(1) / share.sum(1).clamp(min=1))
        return found
