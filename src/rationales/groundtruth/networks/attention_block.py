"""A transformer layer with pre-normalisation, shared by the networks for images and texts."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward network, each with a residual connection (Vaswani et al. 2017; pre-norm)."""

    def __init__(self, width: int, heads: int, inner_width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, inner_width), nn.GELU(), nn.Linear(inner_width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(S, T, width) -> (S, T, width); `attention_mask` (S, T) bool marks the tokens to attend to."""
        rows, length, width = hidden_states.shape
        projected = self.query_key_value(self.norm(hidden_states))
        query, key, value = projected.view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mask = None if attention_mask is None else attention_mask[:, None, None, :]
        attended = functional.scaled_dot_product_attention(query, key, value, mask)
        attended = self.projection(attended.transpose(1, 2).reshape(rows, length, width))
        hidden_states = hidden_states + self.dropout(attended)
        output: Tensor = hidden_states + self.dropout(self.feed_forward(self.feed_forward_norm(hidden_states)))
        return output
