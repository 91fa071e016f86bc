"""Words of a filler as tokens of the classifier, in the place of a batch's words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from rationales.models.text.batch import TextBatch
from rationales.models.text.edits import Insertions


def word_insertions(
    batch: TextBatch, row: Tensor, edit: Tensor, unit: Tensor, token: Tensor, words: Sequence[str]
) -> Insertions:
    """Insertions of the words `words[token]` in the place of units; row: (E,), edit, unit and token: (I,).

    A word is tokenised as after the character that precedes the unit; each combination is tokenised once.
    """
    sources = batch.text_sources()
    befores, per_text = sources.contexts
    context_of_unit = batch.spread([torch.from_numpy(numbers) for numbers in per_text]).long()  # (S, n)
    pair = (context_of_unit[row[edit], unit] * len(words) + token).cpu().numpy()
    distinct, inverse = np.unique(pair, return_inverse=True)
    spelled = [(befores[number // len(words)], words[number % len(words)]) for number in distinct.tolist()]
    token_ids = sources.token_ids(spelled) if spelled else []
    counts = np.array([len(ids) for ids in token_ids], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    flat = np.fromiter(chain.from_iterable(token_ids), np.int64)
    repeats = counts[inverse]
    order = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    ids = flat[np.repeat(starts[inverse], repeats) + order]
    source = torch.from_numpy(np.repeat(np.arange(len(pair)), repeats)).to(batch.device)
    order_tensor, ids_tensor = (torch.from_numpy(values).to(batch.device) for values in (order, ids))
    return Insertions(edit[source], unit[source], order_tensor, ids_tensor)
