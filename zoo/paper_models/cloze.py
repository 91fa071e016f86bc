"""How well a masked language model fills in a missing word: one token masked at a time, the text around it complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo.paper_models.storage import Array, TokenRows

TOP = 10
TOKENS_AT_ONCE = 16_384


@dataclass(frozen=True)
class Special:
    """Ids of the tokens that are never masked, of the one that masks, and the number of all tokens."""

    pad: int
    cls: int
    sep: int
    mask: int
    vocabulary: int

    @classmethod
    def of(cls, tokenizer: Any) -> Special:
        ids = (tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id)
        return cls(*ids, len(tokenizer))

    def maskable(self, ids: Tensor) -> Tensor:
        return (ids != self.pad) & (ids != self.cls) & (ids != self.sep)


def predictions(model: nn.Module, hidden: Tensor) -> Tensor:
    """Logits over the vocabulary from hidden states, of which only the masked ones are needed."""
    return model.cls(hidden)


def masked_positions(rows: TokenRows, special: Special, limit: int, seed: int) -> Array:
    """(P, 2) row and position of at most `limit` tokens that are not special ones, drawn at random."""
    row = np.repeat(np.arange(len(rows)), rows.lengths)
    position = np.arange(len(rows.ids)) - np.repeat(rows.bounds[:-1], rows.lengths)
    plain = np.flatnonzero(~np.isin(rows.ids, (special.pad, special.cls, special.sep)))
    chosen = np.random.default_rng(seed).permutation(plain)[:limit]
    return np.stack([row[chosen], position[chosen]], 1)


@torch.no_grad()
def cloze_figures(model: nn.Module, rows: TokenRows, special: Special, limit: int, seed: int = 0) -> dict[str, float]:
    """Accuracy of the first and of the first ten candidates, and the cross-entropy in nats with its deviation."""
    model.eval()
    device = next(model.parameters()).device
    pairs = masked_positions(rows, special, limit, seed)
    pairs = pairs[np.argsort(rows.lengths[pairs[:, 0]], kind="stable")]
    losses, ranks = [], []
    first = 0
    while first < len(pairs):
        longest = int(rows.lengths[pairs[min(first + 256, len(pairs) - 1), 0]])
        batch = pairs[first : first + max(1, min(256, TOKENS_AT_ONCE // longest))]
        first += len(batch)
        width = int(rows.lengths[batch[:, 0]].max())
        ids = np.full((len(batch), width), special.pad, np.int64)
        for number, (row, _) in enumerate(batch):
            ids[number, : rows.lengths[row]] = rows.row(row)
        at = np.arange(len(batch)), batch[:, 1]
        target = torch.from_numpy(ids[at]).to(device)
        ids[at] = special.mask
        tokens = torch.from_numpy(ids).to(device)
        attended = (tokens != special.pad)[:, None, None]
        hidden = model.bert(input_ids=tokens, attention_mask=attended).last_hidden_state
        logits = predictions(model, hidden[torch.from_numpy(at[0]), torch.from_numpy(at[1])]).float()
        losses.append(nn.functional.cross_entropy(logits, target, reduction="none").cpu())
        ranks.append((logits > logits.gather(1, target[:, None])).sum(1).cpu())
    loss, rank = torch.cat(losses), torch.cat(ranks)
    return {
        "top-1": float((rank == 0).float().mean()),
        "top-10": float((rank < TOP).float().mean()),
        "cross-entropy": float(loss.mean()),
        "deviation": float(loss.std()),
        "tokens": len(loss),
    }
