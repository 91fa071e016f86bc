"""The attribution network G (Barkan et al. 2024, Eq. 1 and section 3.3): text and prediction in, a score per unit out.

The prediction is one extra token behind the text, z_0 + sum_j y_j z_j; the head d -> d (tanh) -> 1 (sigmoid) is shared
by all tokens. Shapes: I inputs of up to U units, R windows of T tokens, C classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rationales.masks.instant.aml.unit_alignment import BackboneRows
from rationales.models.batch.execution import record_network_passes


class AttributionNetwork(nn.Module):
    """An encoder with a prediction token and a head."""

    def __init__(self, encoder: nn.Module, classes: int, mask_size: int = 0) -> None:
        """`classes`: of the explained model. `mask_size`: size of the learned mask vector; 0: none."""
        super().__init__()
        self.encoder = encoder
        config: Any = encoder.config
        embeddings = word_embeddings(encoder).weight
        width, hidden_size = embeddings.shape[1], int(config.hidden_size)
        self.prediction_embedding = nn.Parameter(torch.empty(width))  # z_0
        self.class_embeddings = nn.Parameter(torch.empty(classes, width))  # z_j
        self.head_hidden = nn.Linear(hidden_size, hidden_size)
        self.head_output = nn.Linear(hidden_size, 1)
        self.mask_vector = nn.Parameter(torch.empty(mask_size)) if mask_size else None

    def initialise(self, generator: torch.Generator, mask_vector: Tensor | None = None) -> None:
        """New weights for everything but the encoder: class embeddings as spread as word embeddings."""
        words = word_embeddings(self.encoder).weight
        spread, size = float(words.detach().float().std()), self.head_hidden.in_features

        def normal(shape: tuple[int, ...], std: float) -> Tensor:
            return torch.randn(shape, generator=generator) * std

        with torch.no_grad():
            self.prediction_embedding.copy_(normal(tuple(self.prediction_embedding.shape), spread))
            self.class_embeddings.copy_(normal(tuple(self.class_embeddings.shape), spread))
            self.head_hidden.weight.copy_(normal((size, size), size**-0.5))
            self.head_output.weight.copy_(normal((1, size), 0.1 * size**-0.5))
            self.head_hidden.bias.zero_()
            self.head_output.bias.zero_()
            if self.mask_vector is not None and mask_vector is not None:
                self.mask_vector.copy_(mask_vector)

    def forward(self, rows: BackboneRows, y: Tensor, merge: str) -> Tensor:
        """(I, U): the attribution map, from the windows of the texts and their encoded predictions y (I, C)."""
        return rows.to_units(self.token_scores(self.states(rows, y)), merge)

    def states(self, rows: BackboneRows, y: Tensor) -> Tensor:
        """(R, T + 1, d): the encoder's last states; the prediction token is behind the last token of each window."""
        words: Tensor = word_embeddings(self.encoder)(rows.ids)
        token = self.prediction_embedding + y.to(words.dtype) @ self.class_embeddings  # (I, width)
        words = torch.cat([words, words.new_zeros(len(words), 1, words.shape[-1])], 1)
        position = torch.arange(words.shape[1], device=words.device)
        is_prediction = position == rows.lengths[:, None]
        words = torch.where(is_prediction[..., None], token[rows.input][:, None], words)
        arguments: dict[str, Any] = {"attention_mask": (position <= rows.lengths[:, None]).long()}
        if rows.types is not None and getattr(self.encoder.config, "type_vocab_size", 0) > 1:
            arguments["token_type_ids"] = torch.cat([rows.types, torch.zeros_like(rows.types[:, :1])], 1)
        states: Tensor = self.encoder(inputs_embeds=words, **arguments)[0]
        record_network_passes(len(words), states)
        return states

    def token_scores(self, states: Tensor) -> Tensor:
        """(R, T) in [0, 1] from states (R, T, d)."""
        scores: Tensor = self.head_output(torch.tanh(self.head_hidden(states))).squeeze(-1).sigmoid()
        return scores


def word_embeddings(encoder: Any) -> nn.Embedding:
    """The word embeddings of a Hugging Face encoder."""
    embedding: nn.Embedding = encoder.get_input_embeddings()
    return embedding
