"""Word masks that put attended [PAD] in place of words, as attribution methods do with partial inputs."""

from __future__ import annotations

import torch
from torch import Tensor

MASKED_SHARE = 0.5  # of the texts lose words
EMPTY_SHARE = 0.02  # of the texts lose all of them
MAX_SPANS = 4


def span_cover(lengths: Tensor, share: Tensor, width: int) -> Tensor:
    """(B, width) bool: one to MAX_SPANS contiguous spans that cover about `share` of each row's words."""
    rows, device = lengths.shape[0], lengths.device
    used = torch.randint(1, MAX_SPANS + 1, (rows, 1), device=device)
    active = torch.arange(MAX_SPANS, device=device) < used
    size = share[:, None] * lengths[:, None] / used * (0.5 + torch.rand(rows, MAX_SPANS, device=device))
    start = torch.rand(rows, MAX_SPANS, device=device) * (lengths[:, None] - size).clamp(min=0)
    position = torch.arange(width, device=device)
    inside = (position >= start[..., None].floor()) & (position < (start + size)[..., None].ceil())  # (B, spans, W)
    return (inside & active[..., None]).any(1)


def random_keep(lengths: Tensor, fixed: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Keep masks for a batch.

    lengths: (B,) words; fixed: (B,) bool, rows that are never masked.
    Returns keep (B, width) bool, unmasked (B,) bool and empty (B,) bool.
    """
    rows, device = lengths.shape[0], lengths.device
    draw = torch.rand(rows, device=device)
    empty = (draw < EMPTY_SHARE) & ~fixed
    unmasked = (draw >= EMPTY_SHARE + MASKED_SHARE) | fixed
    share = torch.rand(rows, device=device)  # of words to lose
    scattered = torch.rand(rows, width, device=device) >= share[:, None]
    kind = torch.rand(rows, 1, device=device)
    removed_spans = ~span_cover(lengths, share, width)
    kept_spans = span_cover(lengths, 1 - share, width)
    keep = torch.where(kind < 0.5, scattered, torch.where(kind < 0.75, removed_spans, kept_spans))
    return (keep | unmasked[:, None]) & ~empty[:, None], unmasked, empty
