"""From spans to token tensors on the device, without a loop over texts and without waiting for the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zoo.data import Array, Pieces
from zoo.masking import random_keep
from zoo.spans import Spans, batched

ROUND = 32  # token widths are multiples of it: few different kernel shapes


@dataclass(frozen=True)
class Tokens:
    """ids: (B, L); attended: (B, 1, 1, L) bool; first: (B, W) the column of each word's first piece."""

    ids: Tensor
    attended: Tensor
    first: Tensor


@dataclass(frozen=True)
class Batch:
    """One batch: the same masked words for every tokenizer in `tokens`.

    label: (B,); unmasked, empty: (B,) bool, nothing and everything masked; valid: (B, W) bool.
    """

    tokens: list[Tokens]
    label: Tensor
    unmasked: Tensor
    empty: Tensor
    valid: Tensor
    size: int  # padded tokens under the first tokenizer


def round_up(value: int) -> int:
    return -(-value // ROUND) * ROUND


def spell(words: Tensor, valid: Tensor, keep: Tensor, pieces: Pieces, total: int, width: int) -> Tokens:
    """Write the pieces of (B, W) words into rows of `width` tokens; words not kept become [PAD], piece by piece.

    total: number of pieces in the batch, known beforehand so that nothing has to be read back.
    """
    rows, device = words.shape[0], words.device
    count = pieces.count[words] * valid
    first = count.cumsum(1) - count + 1
    flat_count = count.flatten()
    owner = torch.repeat_interleave(
        torch.arange(words.numel(), device=device), flat_count, output_size=total
    )  # the word each piece belongs to
    within = torch.arange(total, device=device) - (flat_count.cumsum(0) - flat_count)[owner]
    ids = pieces.ids[pieces.first[words.flatten()[owner]] + within]
    ids = torch.where(keep.flatten()[owner], ids, pieces.pad)
    row = owner // words.shape[1]
    out = torch.full((rows, width), pieces.pad, device=device)
    out[:, 0] = pieces.cls
    out.view(-1)[row * width + first.flatten()[owner] + within] = ids
    length = count.sum(1) + 2
    out.scatter_(1, (length - 1)[:, None], pieces.sep)
    attended = torch.arange(width, device=device) < length[:, None]
    return Tokens(out, attended[:, None, None, :], first)


@dataclass(frozen=True)
class Feed:
    """The corpus on the device: words (N,), and for each tokenizer its pieces and the pieces before each word."""

    words: Tensor
    pieces: list[Pieces]
    offsets: list[Array]

    def batch(self, spans: Spans) -> Batch:
        device = self.words.device
        plan = np.stack([spans.start, spans.end - spans.start, spans.label, spans.fixed])
        start, length, label, fixed = torch.from_numpy(plan).to(device, non_blocking=True)
        width = int((spans.end - spans.start).max())
        position = torch.arange(width, device=device)
        valid = position < length[:, None]
        words = self.words[(start[:, None] + position).clamp(max=len(self.words) - 1)].long()
        keep, unmasked, empty = random_keep(length, fixed.bool(), width)
        tokens = []
        for pieces, before in zip(self.pieces, self.offsets, strict=True):
            counts = before[spans.end] - before[spans.start]
            tokens.append(spell(words, valid, keep, pieces, int(counts.sum()), round_up(int(counts.max()) + 2)))
        return Batch(tokens, label, unmasked, empty, valid, tokens[0].ids.numel())

    def forever(self, epoch: Callable[[], Spans], rows: int, tokens: int, rng: np.random.Generator) -> Iterator[Batch]:
        """Batches of one freshly drawn epoch after another."""
        while True:
            for spans in batched(epoch(), self.offsets, rows, tokens, rng):
                yield self.batch(spans)
