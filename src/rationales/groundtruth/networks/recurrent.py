"""A bidirectional LSTM with attention over its states (Zhou et al. 2022, section 6, Eq. 5 to 8)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rationales.groundtruth.networks.vocabulary import PADDING_ID, TextConfiguration
from rationales.models.batch.execution import attribute_set


class BidirectionalLSTM(nn.Module):
    """(S, T, width) embeddings and (S, T) attention mask -> (S, T, 2 hidden) states; ignores padding on the right."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.forward_lstm = nn.LSTM(width, hidden, batch_first=True)
        self.backward_lstm = nn.LSTM(width, hidden, batch_first=True)

    def forward(self, embeddings: Tensor, attention_mask: Tensor) -> Tensor:
        """Concatenate the states of a forward LSTM and of a backward LSTM over each text."""
        positions = torch.arange(embeddings.shape[1], device=embeddings.device)
        reversed_index = (attention_mask.sum(1, keepdim=True).long() - 1 - positions).clamp(min=0)  # (S, T)
        forward_states = _states(self.forward_lstm, embeddings)
        reversed_embeddings = embeddings.gather(1, reversed_index[..., None].expand_as(embeddings))
        backward_states = _states(self.backward_lstm, reversed_embeddings)
        # For a text of n words, i -> n - 1 - i is its own inverse.
        backward_states = backward_states.gather(1, reversed_index[..., None].expand_as(backward_states))
        return torch.cat([forward_states, backward_states], -1)


def _states(lstm: nn.LSTM, embeddings: Tensor) -> Tensor:
    # cuDNN supports the backward pass only in training mode; without dropout both modes compute the same.
    with attribute_set(lstm, "training", True):
        states: Tensor = lstm(embeddings)[0]
    return states


class AttentionLSTM(nn.Module):
    """Word embeddings -> bidirectional LSTM -> attention -> logits; `explanation` outputs the attention weights."""

    def __init__(
        self, vocabulary_size: int, labels: Sequence[str], width: int = 200, hidden: int = 200, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(vocabulary_size, width, padding_idx=PADDING_ID)
        self.encoder = BidirectionalLSTM(width, hidden)
        self.key = nn.Linear(2 * hidden, hidden)
        self.query = nn.Parameter(torch.randn(hidden) / hidden**0.5)
        self.explanation = nn.Identity()  # its output can be recorded with a hook: (S, T) attention weights
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(2 * hidden, len(labels))
        self.config = TextConfiguration(
            dict(enumerate(labels)), width, num_hidden_layers=2, intermediate_size=8 * hidden
        )

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings."""
        return self.embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(S, T) -> (S, classes)."""
        states = self.encoder(self.embeddings(input_ids), attention_mask)
        key = torch.tanh(self.key(states))  # Eq. 5
        score = (key @ self.query).masked_fill(attention_mask == 0, float("-inf"))  # Eq. 6
        weight: Tensor = self.explanation(score.softmax(-1))  # Eq. 7
        logits: Tensor = self.classifier(self.dropout((weight[..., None] * states).sum(1)))  # Eq. 8
        return logits
