"""Probabilities of labels by one plain forward pass for each label, over the tokens of the prompt and the label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def token_ids(tokenizer: Any, text: str, *, special_tokens: bool = True) -> list[int]:
    """The tokens of a prompt, without the end-of-sequence token that some tokenizers add."""
    plain = tokenizer(text, add_special_tokens=False)["input_ids"]
    if not special_tokens:
        return plain
    complete = tokenizer(text)["input_ids"]
    while len(complete) > len(plain) and complete[-1] != plain[-1]:
        complete = complete[:-1]
    return complete


def label_scores(
    model: Any,
    prompt_ids: Sequence[int],
    label_ids: Sequence[Sequence[int]],
    *,
    length_normalised: bool = False,
) -> Tensor:
    """(labels,): log p(label | prompt), token by token.

    Where another label begins with all tokens of this one, the factor 1 - p(such a continuation) is included.
    """
    scores = []
    for label in label_ids:
        ids = torch.tensor([[*prompt_ids, *label]])
        with torch.no_grad():
            log_probabilities = model(input_ids=ids).logits[0].float().log_softmax(-1)
        score = sum(log_probabilities[len(prompt_ids) - 1 + i, token] for i, token in enumerate(label))
        longer = [ids for ids in label_ids if len(ids) > len(label) and ids[: len(label)] == label]
        continuations = {ids[len(label)] for ids in longer}
        if continuations:
            score = score + torch.log(1 - sum(log_probabilities[-1, token].exp() for token in continuations))
        scores.append(score / len(label) if length_normalised else score)
    return torch.stack(scores)
