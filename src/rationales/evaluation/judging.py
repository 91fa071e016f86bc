"""One method's scores of many inputs -> one value per input and metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from rationales.evaluation.curves import Faithfulness
from rationales.evaluation.levels import TIES
from rationales.evaluation.metrics import METRICS, Metric
from rationales.evaluation.protocol import Protocol
from rationales.evaluation.selection import Given, Selection, selection
from rationales.models.randomness import fold, uniform

WITHOUT_MARKS = "sufficient"  # how words are selected where nobody marked any


@dataclass(frozen=True, eq=False)
class Values:
    """(inputs,) float64, NaN where the metric is not defined; `weights` where inputs are pooled with weights."""

    values: np.ndarray
    weights: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that is known of one method's scores; lists have one entry per input."""

    raw: Sequence[np.ndarray]  # scores of the model's units
    words: Sequence[np.ndarray] = ()  # scores of what is compared: units or white-space tokens; texts only
    gold: Sequence[np.ndarray | None] = ()  # (words,) bool; texts only
    keys: Sequence[int] = ()  # what ties are broken from
    curves: Faithfulness | None = None
    pictures: Mapping[str, np.ndarray] = field(default_factory=dict)  # (inputs,) of the metrics of pictures


def judge(
    metrics: Sequence[Metric], evidence: Evidence, protocol: Protocol, rule: Selection | None = None
) -> dict[str, Values]:
    """The values of all metrics; `rule` selects words instead of the protocol's own rule."""
    chosen = _Chosen(evidence, protocol, rule or usual_rule(protocol, evidence.gold))
    return {metric.name: _values(metric, evidence, chosen) for metric in metrics}


def usual_rule(protocol: Protocol, gold: Sequence[np.ndarray | None]) -> Selection:
    """The protocol's own rule; where nobody marked anything, one that needs no marks."""
    marked = any(marks is not None and marks.any() for marks in gold)
    return selection(protocol.selection if marked else WITHOUT_MARKS)


class _Chosen:
    """What rules select, once for every metric that they are fitted to."""

    def __init__(self, evidence: Evidence, protocol: Protocol, rule: Selection) -> None:
        self.untied = untied(evidence.words, protocol, evidence.keys)
        self._evidence, self._rule = evidence, rule
        self._found: dict[tuple[str, str], list[np.ndarray]] = {}

    def __call__(self, metric: Metric) -> list[np.ndarray]:
        name = (metric.rule, metric.fitted_to)
        if name not in self._found:
            rule = selection(metric.rule) if metric.rule else self._rule
            fit = _fit_function(metric.fitted_to)
            given = Given(self.untied, self._evidence.gold or None, self._evidence.curves, metric.fitted_to, fit)
            self._found[name] = rule.choose(given)
        return self._found[name]


def _fit_function(name: str) -> Callable[[np.ndarray, np.ndarray], float] | None:
    """None for the two that have a fast way of their own."""
    return None if name in ("token-f1", "iou-f1") else METRICS[name].function


def untied(scores: Sequence[np.ndarray], protocol: Protocol, keys: Sequence[int]) -> list[np.ndarray]:
    """Scores whose ties are broken as the protocol says, so that what is selected from the left is selected by it."""
    if protocol.ties == "left":
        return [np.asarray(one, dtype=np.float64) for one in scores]
    found = []
    for one, key in zip(scores, keys, strict=True):
        values = np.asarray(one, dtype=np.float64)
        drawn = uniform(fold(torch.tensor([key]), TIES), len(values))[0].numpy()
        largest = float(np.abs(values).max(initial=0.0)) or 1.0
        width = protocol.noise * largest
        if protocol.ties == "random":  # less than half of the smallest difference changes no order but that of equals
            gaps = np.diff(np.unique(values))
            width = float(gaps.min()) / 2 if len(gaps) else largest
        found.append(values + width * drawn)
    return found


def _values(metric: Metric, evidence: Evidence, chosen: _Chosen) -> Values:
    gold, kind = evidence.gold, metric.kind
    if kind == "curves":
        return Values(metric.function(evidence.curves))
    if kind == "scores":
        return Values(_each(metric.function, gold, evidence.words))
    if kind == "order":
        return Values(_each(metric.function, gold, chosen.untied))
    if kind == "choice":
        picked = chosen(metric)
        weights = None if metric.weight is None else np.nan_to_num(_each(metric.weight, gold, picked))
        return Values(_each(metric.function, gold, picked), weights)
    if kind == "corpus":
        known = [number for number, marks in enumerate(gold) if marks is not None]
        values = np.full(len(gold), np.nan)
        values[known] = metric.function([gold[number] for number in known], [chosen.untied[number] for number in known])
        return Values(values)
    if kind == "picture":
        return Values(evidence.pictures[metric.name])
    return Values(_each(metric.function, chosen(metric) if kind == "shape" else evidence.raw))


def _each(measure: Callable[..., float], *lists: Sequence[np.ndarray | None]) -> np.ndarray:
    """`measure` of every input for which there is something to measure."""
    return np.array(
        [np.nan if any(one is None for one in own) else measure(*own) for own in zip(*lists, strict=True)],
        dtype=np.float64,
    )
