"""The metrics as their papers define them: slow, literal, sharing nothing with the library but the token rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch


def f1(gold: Sequence[bool], chosen: Sequence[bool]) -> float:
    """Harmonic mean of precision and recall over the places that are True."""
    gold_indices = {index for index, mark in enumerate(gold) if mark}
    chosen_indices = {index for index, mark in enumerate(chosen) if mark}
    if not gold_indices & chosen_indices:
        return 0.0
    precision, recall = (
        len(gold_indices & chosen_indices) / len(chosen_indices),
        len(gold_indices & chosen_indices) / len(gold_indices),
    )
    return 2 * precision * recall / (precision + recall)


def spans(chosen: Sequence[bool]) -> list[set[int]]:
    """Stretches of True, each as the set of its places."""
    runs: list[set[int]] = []
    for index, mark in enumerate(chosen):
        if mark and index and chosen[index - 1]:
            runs[-1].add(index)
        elif mark:
            runs.append({index})
    return runs


def iou_f1(gold: Sequence[bool], chosen: Sequence[bool]) -> float:
    """DeYoung et al. 2020, section 4.1: spans match from an intersection over union of 0.5."""
    gold_spans, chosen_spans = spans(gold), spans(chosen)

    def matches(span: set[int], candidates: list[set[int]]) -> bool:
        return any(len(span & candidate) / len(span | candidate) >= 0.5 for candidate in candidates)

    if not chosen_spans:
        return 0.0
    recall = sum(matches(span, chosen_spans) for span in gold_spans) / len(gold_spans)
    precision = sum(matches(span, gold_spans) for span in chosen_spans) / len(chosen_spans)
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
    return sorted(range(len(scores)), key=lambda index: (-scores[index], index))


def kernel_regression(
    scores: Sequence[Sequence[float]], best: Sequence[float], low: float, width: float
) -> list[float]:
    """Leave-one-out Nadaraya-Watson (MaRC, appendix A): x = share of the words above `low` of the input's largest."""
    x = []
    for input_scores in scores:
        largest = max(input_scores)
        x.append(sum(score / largest > low for score in input_scores) / len(input_scores) if largest > 0 else 0.0)
    predictions = []
    for left_out in range(len(scores)):
        weights = [
            math.exp(-((x[left_out] - x[index]) ** 2) / width) if index != left_out else 0.0 for index in range(len(x))
        ]
        predictions.append(sum(weight * y for weight, y in zip(weights, best, strict=True)) / sum(weights))
    return predictions


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
    for step, index in enumerate(sorted(range(len(p)), key=lambda index: p[index])):
        worst = max(worst, min(1.0, p[index] * (len(p) - step)))
        adjusted[index] = worst
    return adjusted


def replaced(module: Any, encoded: Any, kept: Sequence[bool], token: int, target: int) -> float:
    """p(target): every token of a word that is not kept becomes `token`, still attended; segments one by one."""
    probabilities = []
    for row in encoded.rows:
        ids = [
            number if owner < 0 or kept[row.units[owner]] else token
            for number, owner in zip(row.ids, row.owner, strict=True)
        ]
        probabilities.append(_probability(module, ids, row.types, target))
    return sum(probabilities) / len(probabilities)


def deleted(module: Any, encoded: Any, kept: Sequence[bool], target: int) -> float:
    """p(target): the tokens of words that are not kept are left out; segments one by one."""
    probabilities = []
    for row in encoded.rows:
        indices = [index for index, owner in enumerate(row.owner) if owner < 0 or kept[row.units[owner]]]
        types = None if row.types is None else [row.types[index] for index in indices]
        probabilities.append(_probability(module, [row.ids[index] for index in indices], types, target))
    return sum(probabilities) / len(probabilities)


def _probability(module: Any, ids: Sequence[int], types: Sequence[int] | None, target: int) -> float:
    type_arguments = {} if types is None else {"token_type_ids": torch.tensor([list(types)])}
    with torch.no_grad():
        output = module(
            input_ids=torch.tensor([list(ids)]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            **type_arguments,
        )
    return float(getattr(output, "logits", output).double().softmax(-1)[0, target])


def curves(
    scores: Sequence[float], levels: Sequence[float], probability: Callable[[list[bool]], float]
) -> tuple[float, list[float], list[float]]:
    """M(x), M(r_i) and M(x without r_i) for r_i = the top ceil(level n) words (MaRC, Eq. 10 and 11)."""
    order = best_first(scores)
    kept, removed = [], []
    for level in levels:
        count = math.ceil(level * len(scores) - 1e-9)
        inside = [index in order[:count] for index in range(len(scores))]
        kept.append(probability(inside))
        removed.append(probability([not mark for mark in inside]))
    return probability([True] * len(scores)), kept, removed


def compared_on_units(
    text: str, units: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]
) -> tuple[list[int], list[bool]]:
    """The numbers of the units that are compared, and whether each is gold: character by character."""
    marked = {index for start, end in spans for index in range(start, end)}
    numbers, gold = [], []
    for number, (start, end) in enumerate(units):
        indices = [index for index in range(start, end) if not text[index].isspace()]
        is_gold = any(index in marked for index in indices)
        if is_gold or any(text[index].isalnum() for index in indices):
            numbers.append(number)
            gold.append(is_gold)
    return numbers, gold
