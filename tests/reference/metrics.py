"""The metrics as their papers define them: slow, literal, sharing nothing with the library but the token rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch


def f1(gold: Sequence[bool], chosen: Sequence[bool]) -> float:
    """Harmonic mean of precision and recall over the places that are True."""
    wanted = {place for place, mark in enumerate(gold) if mark}
    had = {place for place, mark in enumerate(chosen) if mark}
    if not wanted & had:
        return 0.0
    precision, recall = len(wanted & had) / len(had), len(wanted & had) / len(wanted)
    return 2 * precision * recall / (precision + recall)


def spans(chosen: Sequence[bool]) -> list[set[int]]:
    """Stretches of True, each as the set of its places."""
    found: list[set[int]] = []
    for place, mark in enumerate(chosen):
        if mark and place and chosen[place - 1]:
            found[-1].add(place)
        elif mark:
            found.append({place})
    return found


def iou_f1(gold: Sequence[bool], chosen: Sequence[bool]) -> float:
    """DeYoung et al. 2020, section 4.1: spans match from an intersection over union of 0.5."""
    wanted, had = spans(gold), spans(chosen)

    def matches(one: set[int], others: list[set[int]]) -> bool:
        return any(len(one & other) / len(one | other) >= 0.5 for other in others)

    if not had:
        return 0.0
    recall = sum(matches(one, had) for one in wanted) / len(wanted)
    precision = sum(matches(one, wanted) for one in had) / len(had)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def average_precision(gold: Sequence[bool], scores: Sequence[float]) -> float:
    """AP = sum_n (R_n - R_(n-1)) P_n, one n for each threshold that occurs, from the highest."""
    total, before = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        had = [mark for mark, score in zip(gold, scores, strict=True) if score >= threshold]
        precision, recall = sum(had) / len(had), sum(had) / sum(gold)
        total += (recall - before) * precision
        before = recall
    return total


def best_first(scores: Sequence[float]) -> list[int]:
    """Places in the order of falling scores, the left one of equals first."""
    return sorted(range(len(scores)), key=lambda place: (-scores[place], place))


def kernel_regression(
    scores: Sequence[Sequence[float]], best: Sequence[float], low: float, width: float
) -> list[float]:
    """Leave-one-out Nadaraya-Watson (MaRC, appendix A): x = share of the words above `low` of the input's largest."""
    x = []
    for own in scores:
        most = max(own)
        x.append(sum(score / most > low for score in own) / len(own) if most > 0 else 0.0)
    found = []
    for left_out in range(len(scores)):
        weights = [
            math.exp(-((x[left_out] - x[other]) ** 2) / width) if other != left_out else 0.0 for other in range(len(x))
        ]
        found.append(sum(weight * y for weight, y in zip(weights, best, strict=True)) / sum(weights))
    return found


def sign_flips(differences: Sequence[float]) -> float:
    """Two-sided p of the mean under all flips of signs."""
    observed = abs(sum(differences))
    flips = list(itertools.product((1, -1), repeat=len(differences)))
    beyond = sum(
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True))) >= observed - 1e-9
        for signs in flips
    )
    return beyond / len(flips)


def holm(p: Sequence[float]) -> list[float]:
    """The i-th smallest of m values times (m - i), never falling, at most 1."""
    adjusted, worst = [0.0] * len(p), 0.0
    for step, place in enumerate(sorted(range(len(p)), key=lambda place: p[place])):
        worst = max(worst, min(1.0, p[place] * (len(p) - step)))
        adjusted[place] = worst
    return adjusted


def replaced(module: Any, encoded: Any, kept: Sequence[bool], token: int, target: int) -> float:
    """p(target): every token of a word that is not kept becomes `token`, still attended; segments one by one."""
    said = []
    for row in encoded.rows:
        ids = [
            number if owner < 0 or kept[row.units[owner]] else token
            for number, owner in zip(row.ids, row.owner, strict=True)
        ]
        said.append(_probability(module, ids, row.types, target))
    return sum(said) / len(said)


def deleted(module: Any, encoded: Any, kept: Sequence[bool], target: int) -> float:
    """p(target): the tokens of words that are not kept are left out; segments one by one."""
    said = []
    for row in encoded.rows:
        places = [place for place, owner in enumerate(row.owner) if owner < 0 or kept[row.units[owner]]]
        types = None if row.types is None else [row.types[place] for place in places]
        said.append(_probability(module, [row.ids[place] for place in places], types, target))
    return sum(said) / len(said)


def _probability(module: Any, ids: Sequence[int], types: Sequence[int] | None, target: int) -> float:
    more = {} if types is None else {"token_type_ids": torch.tensor([list(types)])}
    with torch.no_grad():
        output = module(
            input_ids=torch.tensor([list(ids)]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), **more
        )
    return float(getattr(output, "logits", output).double().softmax(-1)[0, target])


def curves(
    scores: Sequence[float], levels: Sequence[float], said: Callable[[list[bool]], float]
) -> tuple[float, list[float], list[float]]:
    """M(x), M(r_i) and M(x without r_i) for r_i = the top ceil(level n) words (MaRC, Eq. 10 and 11)."""
    order = best_first(scores)
    kept, removed = [], []
    for level in levels:
        count = math.ceil(level * len(scores) - 1e-9)
        inside = [place in order[:count] for place in range(len(scores))]
        kept.append(said(inside))
        removed.append(said([not mark for mark in inside]))
    return said([True] * len(scores)), kept, removed


def compared_on_units(
    text: str, units: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]
) -> tuple[list[int], list[bool]]:
    """The numbers of the units that are compared, and whether each is gold: character by character."""
    marked = {place for start, end in spans for place in range(start, end)}
    numbers, gold = [], []
    for number, (start, end) in enumerate(units):
        places = [place for place in range(start, end) if not text[place].isspace()]
        is_gold = any(place in marked for place in places)
        if is_gold or any(text[place].isalnum() for place in places):
            numbers.append(number)
            gold.append(is_gold)
    return numbers, gold
