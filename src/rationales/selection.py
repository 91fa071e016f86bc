"""Which units belong to the rationale: the first rule of a method whose selection suffices and is needed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rationales.checks import SUFFICIENT
from rationales.models.batch import Batch
from rationales.rationale import Rule


def choose_rules(
    batch: Batch, rules: Sequence[Rule], scores: Sequence[Tensor], target: Tensor, full: Tensor
) -> list[Rule]:
    """For each input the first of `rules` whose selection is sufficient, and whose complement has less than the input.

    `scores`: (units,) of each input; `target` (inputs,); `full` (inputs, classes): probabilities of the whole inputs.
    To be sufficient is to give the target `SUFFICIENT` of its probability in the whole input. Where no rule is both,
    the first that is sufficient; where none is, the rule whose selection gives the target most.
    """
    whole_input = full.gather(1, target[:, None]).squeeze(1).tolist()
    best, best_rank = [rules[0]] * batch.inputs, [(-1, -1.0)] * batch.inputs
    unsettled = list(range(batch.inputs))
    for rule in rules:
        part = batch if len(unsettled) == batch.inputs else batch.take(unsettled)
        alone, rest = _probabilities(part, rule, [scores[number] for number in unsettled], target[unsettled])
        for number, kept, left in zip(unsettled, alone, rest, strict=True):
            sufficient = kept >= SUFFICIENT * whole_input[number]
            rank = (2, 0.0) if sufficient and left < whole_input[number] else (1, 0.0) if sufficient else (0, kept)
            if rank > best_rank[number]:
                best[number], best_rank[number] = rule, rank
        unsettled = [number for number in unsettled if best_rank[number][0] < 2]
        if not unsettled:
            break
    return best


def _probabilities(
    batch: Batch, rule: Rule, scores: Sequence[Tensor], target: Tensor
) -> tuple[list[float], list[float]]:
    """The target's probability in what the rule selects of each input, and in the rest."""
    keep = batch.spread([torch.from_numpy(rule.select(values.numpy())).float() for values in scores])
    predicted = batch.predict(torch.stack([keep, (1 - keep) * batch.rows.real]))
    alone, rest = predicted.gather(-1, target.expand(2, -1)[..., None]).squeeze(-1).tolist()
    return alone, rest
