"""A transformer's layer, with the normalisation first: shared by the models of pictures and of texts."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class Layer(nn.Module):
    """Self-attention and two linear layers, each with a way around it (Vaswani et al. 2017; pre-norm)."""

    def __init__(self, width: int, heads: int, inner: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.inner_norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, attended: Tensor | None = None) -> Tensor:
        """(S, T, width) -> (S, T, width); `attended` (S, T) bool says which tokens may be looked at."""
        rows, length, width = tokens.shape
        parts = self.mixed(self.norm(tokens)).view(rows, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mask = None if attended is None else attended[:, None, None, :]
        seen = functional.scaled_dot_product_attention(query, key, value, mask)
        tokens = tokens + self.dropout(self.out(seen.transpose(1, 2).reshape(rows, length, width)))
        made: Tensor = tokens + self.dropout(self.inner(self.inner_norm(tokens)))
        return made
