"""A bidirectional LSTM with attention over its states (Zhou et al. 2022, section 6, Eq. 5 to 8)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rationales.groundtruth.networks.vocabulary import PADDING, configuration
from rationales.models.state import attribute_set


class BothWays(nn.Module):
    """(S, T, inside) words and (S, T) attention -> (S, T, 2 hidden) states; padding on the right changes nothing."""

    def __init__(self, inside: int, hidden: int) -> None:
        super().__init__()
        self.ahead = nn.LSTM(inside, hidden, batch_first=True)
        self.back = nn.LSTM(inside, hidden, batch_first=True)

    def forward(self, words: Tensor, attention: Tensor) -> Tensor:
        """Each text is read from its first word and from its last."""
        place = torch.arange(words.shape[1], device=words.device)
        turned = (attention.sum(1, keepdim=True).long() - 1 - place).clamp(min=0)  # (S, T): the same words, last first
        ahead = _states(self.ahead, words)
        back = _states(self.back, words.gather(1, turned[..., None].expand_as(words)))
        back = back.gather(1, turned[..., None].expand_as(back))  # a text of n words: n - 1 - i is its own inverse
        return torch.cat([ahead, back], -1)


def _states(lstm: nn.LSTM, words: Tensor) -> Tensor:
    # cuDNN keeps what gradients need in training mode only; without dropout the two modes are the same otherwise
    with attribute_set(lstm, "training", True):
        found: Tensor = lstm(words)[0]
    return found


class AttentiveReader(nn.Module):
    """Word embeddings -> LSTM both ways -> attention -> logits; `telling` gives out the attention weights."""

    def __init__(
        self, vocabulary: int, labels: Sequence[str], width: int = 200, hidden: int = 200, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.reader = BothWays(width, hidden)
        self.key = nn.Linear(2 * hidden, hidden)
        self.query = nn.Parameter(torch.randn(hidden) / hidden**0.5)
        self.telling = nn.Identity()  # what it says it looked at: (S, T) attention weights
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(2 * hidden, len(labels))
        self.config = configuration(labels, width, num_hidden_layers=2, intermediate_size=8 * hidden)

    def get_input_embeddings(self) -> nn.Module:
        """Where words become numbers."""
        return self.embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(S, T) -> (S, classes)."""
        states = self.reader(self.embeddings(input_ids), attention_mask)
        key = torch.tanh(self.key(states))  # Eq. 5
        score = (key @ self.query).masked_fill(attention_mask == 0, float("-inf"))  # Eq. 6
        weight: Tensor = self.telling(score.softmax(-1))  # Eq. 7
        found: Tensor = self.classifier(self.dropout((weight[..., None] * states).sum(1)))  # Eq. 8
        return found
