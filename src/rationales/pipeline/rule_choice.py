"""Chooses the rule of each rationale: the first one whose selection is sufficient and necessary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rationales.models.batch import Batch
from rationales.pipeline.checks import SUFFICIENT
from rationales.rationale import Rule


@dataclass(frozen=True, eq=False)
class RuleChoice:
    """The rule of each input, what it selects, and the predictions for that."""

    rules: list[Rule]
    selected: list[np.ndarray]  # (units,) bool for each input
    rationale: Tensor  # (inputs, classes) probabilities of the selected units alone
    complement: Tensor  # (inputs, classes) probabilities of all other units


def choose_rules(
    batch: Batch, rules: Sequence[Rule], scores: Sequence[Tensor], target: Tensor, full: Tensor
) -> RuleChoice:
    """For each input the first of `rules` whose selection is sufficient and whose complement lowers the probability.

    `scores`: (units,) of each input; `target` (inputs,); `full` (inputs, classes): probabilities of the full inputs.
    A selection is sufficient if it gives the target `SUFFICIENT` of its probability for the full input. If no rule
    satisfies both, the first sufficient one; if none is sufficient, the rule with the highest target probability.
    """
    full_input = full.gather(1, target[:, None]).squeeze(1).tolist()
    best, best_rank = [rules[0]] * batch.inputs, [(-1, -1.0)] * batch.inputs
    selected: list[Tensor] = [torch.empty(0)] * batch.inputs
    predictions = torch.full((2, *full.shape), torch.nan, device=full.device, dtype=full.dtype)
    ranked = _ranked(rules, scores)
    unsettled = list(range(batch.inputs))
    for group in _groups(rules, batch):
        remaining = batch if len(unsettled) == batch.inputs else batch.take(unsettled)
        values = [ranked[number] for number in unsettled]
        masks = [[_select(rule, unit_values) for unit_values in values] for rule in group]
        keep = torch.stack([remaining.spread(by_input) for by_input in masks])  # (rules, S, n)
        required = [SUFFICIENT * full_input[number] for number in unsettled]
        predicted = _predict(remaining, keep, target[unsettled], required)  # (2, rules, inputs, classes)
        of_target = predicted.gather(-1, target[unsettled].expand(2, len(group), -1)[..., None]).squeeze(-1).tolist()
        for index, rule in enumerate(group):
            for place, number in enumerate(unsettled):
                kept, removed = of_target[0][index][place], of_target[1][index][place]
                sufficient = kept >= required[place]
                necessary = removed < full_input[number]
                rank = (2, 0.0) if sufficient and necessary else (1, 0.0) if sufficient else (0, kept)
                if rank > best_rank[number]:
                    best[number], best_rank[number], selected[number] = rule, rank, masks[index][place]
                    predictions[:, number] = predicted[:, index, place]
        unsettled = [number for number in unsettled if best_rank[number][0] < 2]
        if not unsettled:
            break
    _ask_missing_complements(batch, selected, predictions)
    return RuleChoice(best, [mask.cpu().numpy() for mask in selected], *predictions)


def _groups(rules: Sequence[Rule], batch: Batch) -> Iterator[Sequence[Rule]]:
    """Rules that the model is asked about together: mostly the first settles it; a GPU does the others at once."""
    yield rules[:1]
    if batch.device.type == "cuda":
        yield from [rules[1:]] if rules[1:] else []
    else:
        yield from ([rule] for rule in rules[1:])


def _complements_later(batch: Batch) -> bool:
    """Whether complements are asked about only where they matter: where each row is expensive, and a pass is not."""
    return batch.grid is not None and batch.device.type == "cpu"


def _predict(batch: Batch, keep: Tensor, target: Tensor, required: Sequence[float]) -> Tensor:
    """(2, rules, inputs, classes): probabilities of selections (rules, S, n) and of their complements.

    On a CPU the complements of images are computed for sufficient selections only; the others are NaN.
    """
    real = batch.rows.real
    if not _complements_later(batch):
        return batch.predict(torch.cat([keep, (1 - keep) * real])).view(2, len(keep), batch.inputs, -1)
    alone = batch.predict(keep)
    complement = torch.full_like(alone, torch.nan)
    for rule_alone, rule_complement, rule_keep in zip(alone, complement, keep, strict=True):
        values = rule_alone.gather(1, target[:, None]).squeeze(1).tolist()
        sufficient = [number for number, value in enumerate(values) if value >= required[number]]
        if sufficient:
            subset, rows = batch.take(sufficient), batch.rows_of(sufficient)
            rule_complement[sufficient] = subset.predict((1 - rule_keep[rows]) * real[rows])
    return torch.stack([alone, complement])


def _ask_missing_complements(batch: Batch, selected: Sequence[Tensor], predictions: Tensor) -> None:
    """Fill in the complements of selections that do not suffice, in place."""
    if not _complements_later(batch):
        return
    missing = torch.nonzero(predictions[1].isnan().any(1)).flatten().tolist()
    if missing:
        subset = batch.take(missing)
        keep = subset.spread([selected[number] for number in missing])
        predictions[1, missing] = subset.predict((1 - keep) * subset.rows.real)


def _ranked(rules: Sequence[Rule], scores: Sequence[Tensor]) -> list[tuple[Tensor, Tensor | None]]:
    """Scores of each input and, where a rule counts units, their ranks: 0 is the best; of equal scores the first."""
    if all(rule.threshold is not None for rule in rules):
        return [(values, None) for values in scores]
    if len({len(values) for values in scores}) == 1:  # images: one sort for all
        return list(zip(scores, _ranks(torch.stack(list(scores))), strict=True))
    return [(values, _ranks(values)) for values in scores]


def _ranks(scores: Tensor) -> Tensor:
    order = torch.sort(scores, dim=-1, descending=True, stable=True).indices
    positions = torch.arange(scores.shape[-1], device=scores.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, positions)


def _select(rule: Rule, ranked: tuple[Tensor, Tensor | None]) -> Tensor:
    """(units,) bool: `Rule.select` on the device of the scores."""
    scores, ranks = ranked
    if rule.threshold is not None:
        return scores > rule.threshold
    if ranks is None:
        raise ValueError("a rule that counts units needs their ranks")
    return ranks < rule.count(len(scores))
