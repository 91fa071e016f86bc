"""Chooses the rule of each rationale: the first one whose selection is sufficient and necessary."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rationales.models.batch import Batch
from rationales.pipeline.checks import SUFFICIENT
from rationales.rationale import Rule


def choose_rules(
    batch: Batch, rules: Sequence[Rule], scores: Sequence[Tensor], target: Tensor, full: Tensor
) -> list[Rule]:
    """For each input the first of `rules` whose selection is sufficient and whose complement lowers the probability.

    `scores`: (units,) of each input; `target` (inputs,); `full` (inputs, classes): probabilities of the full inputs.
    A selection is sufficient if it gives the target `SUFFICIENT` of its probability for the full input. If no rule
    satisfies both, the first sufficient one; if none is sufficient, the rule with the highest target probability.
    """
    full_input = full.gather(1, target[:, None]).squeeze(1).tolist()
    best, best_rank = [rules[0]] * batch.inputs, [(-1, -1.0)] * batch.inputs
    unsettled = list(range(batch.inputs))
    for rule in rules:
        remaining = batch if len(unsettled) == batch.inputs else batch.take(unsettled)
        alone, complement = _probabilities(remaining, rule, [scores[number] for number in unsettled], target[unsettled])
        for number, kept, removed in zip(unsettled, alone, complement, strict=True):
            sufficient = kept >= SUFFICIENT * full_input[number]
            rank = (2, 0.0) if sufficient and removed < full_input[number] else (1, 0.0) if sufficient else (0, kept)
            if rank > best_rank[number]:
                best[number], best_rank[number] = rule, rank
        unsettled = [number for number in unsettled if best_rank[number][0] < 2]
        if not unsettled:
            break
    return best


def _probabilities(
    batch: Batch, rule: Rule, scores: Sequence[Tensor], target: Tensor
) -> tuple[list[float], list[float]]:
    """The target's probability for the selection of each input, and for its complement."""
    keep = batch.spread([torch.from_numpy(rule.select(values.numpy())).float() for values in scores])
    predicted = batch.predict(torch.stack([keep, (1 - keep) * batch.rows.real]))
    alone, complement = predicted.gather(-1, target.expand(2, -1)[..., None]).squeeze(-1).tolist()
    return alone, complement
