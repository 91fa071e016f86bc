"""One method's scores of many inputs -> one value per input and metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from rationales.evaluation.faithfulness.curves import FaithfulnessCurves
from rationales.evaluation.faithfulness.levels import TIE_PURPOSE
from rationales.evaluation.metrics import METRICS, Metric
from rationales.evaluation.protocols import Protocol
from rationales.evaluation.selection.rules import SelectionInputs, SelectionRule, find_selection
from rationales.models.batch.rows import fold, uniform

SELECTION_WITHOUT_MARKS = "sufficient"  # how words are selected where nobody marked any


@dataclass(frozen=True, eq=False)
class MetricValues:
    """(inputs,) float64, NaN where the metric is not defined; `weights` where inputs are pooled with weights.

    `recalls`: values are precisions, and the metric is the harmonic mean of mean precision and mean recall.
    """

    values: np.ndarray
    weights: np.ndarray | None = None
    recalls: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class MetricInputs:
    """One method's scores and what was measured with them; lists have one entry per input."""

    unit_scores: Sequence[np.ndarray]  # of the model's units
    compared_scores: Sequence[np.ndarray] = ()  # of what is compared: units or white-space tokens; texts only
    gold: Sequence[np.ndarray | None] = ()  # (words,) bool; texts only
    tie_keys: Sequence[int] = ()  # random seeds that break ties
    curves: FaithfulnessCurves | None = None
    image_values: Mapping[str, np.ndarray] = field(default_factory=dict)  # (inputs,) by image metric


def compute_metrics(
    metrics: Sequence[Metric], inputs: MetricInputs, protocol: Protocol, selection: SelectionRule | None = None
) -> dict[str, MetricValues]:
    """The values of all metrics; `selection` selects words instead of the protocol's own rule."""
    selected = _SelectedUnits(inputs, protocol, selection or default_selection(protocol, inputs.gold))
    return {metric.name: _values(metric, inputs, selected) for metric in metrics}


def default_selection(protocol: Protocol, gold: Sequence[np.ndarray | None]) -> SelectionRule:
    """The protocol's own rule; where nobody marked anything, one that needs no marks."""
    marked = any(marks is not None and marks.any() for marks in gold)
    return find_selection(protocol.selection if marked else SELECTION_WITHOUT_MARKS)


class _SelectedUnits:
    """The units that selection rules select, computed once for every metric that they are fitted to."""

    def __init__(self, inputs: MetricInputs, protocol: Protocol, selection: SelectionRule) -> None:
        self.untied = break_ties(inputs.compared_scores, protocol, inputs.tie_keys)
        self._inputs, self._selection = inputs, selection
        self._selected: dict[tuple[str, str], list[np.ndarray]] = {}

    def __call__(self, metric: Metric) -> list[np.ndarray]:
        key = (metric.selection, metric.fitted_to)
        if key not in self._selected:
            selection = find_selection(metric.selection) if metric.selection else self._selection
            name, gold = metric.fitted_to, self._inputs.gold or None
            # `share_curve` computes these two by a faster algorithm
            fit = None if name in ("token-f1", "iou-f1") else METRICS[name].function
            self._selected[key] = selection.select(SelectionInputs(self.untied, gold, self._inputs.curves, name, fit))
        return self._selected[key]


def break_ties(scores: Sequence[np.ndarray], protocol: Protocol, keys: Sequence[int]) -> list[np.ndarray]:
    """Scores whose ties are broken as the protocol says, so that selecting from the left follows the protocol."""
    if protocol.ties == "left":
        return [np.asarray(input_scores, dtype=np.float64) for input_scores in scores]
    untied = []
    for input_scores, key in zip(scores, keys, strict=True):
        values = np.asarray(input_scores, dtype=np.float64)
        noise = uniform(fold(torch.tensor([key]), TIE_PURPOSE), len(values))[0].numpy()
        largest = float(np.abs(values).max(initial=0.0)) or 1.0
        width = protocol.noise * largest
        if protocol.ties == "random":  # less than half of the smallest difference changes no order but that of equals
            gaps = np.diff(np.unique(values))
            width = float(gaps.min()) / 2 if len(gaps) else largest
        untied.append(values + width * noise)
    return untied


def _values(metric: Metric, inputs: MetricInputs, selected_units: _SelectedUnits) -> MetricValues:
    gold, kind = inputs.gold, metric.kind
    if kind == "curves":
        return MetricValues(metric.function(inputs.curves))
    if kind == "scores":
        return MetricValues(_each(metric.function, gold, inputs.compared_scores))
    if kind == "order":
        return MetricValues(_each(metric.function, gold, selected_units.untied))
    if kind == "choice":
        selected = selected_units(metric)
        weights = None if metric.weight is None else np.nan_to_num(_each(metric.weight, gold, selected))
        return MetricValues(_each(metric.function, gold, selected), weights)
    if kind == "corpus":
        known = [number for number, marks in enumerate(gold) if marks is not None]
        marks, scores = [gold[number] for number in known], [selected_units.untied[number] for number in known]

        def of_known(function: Callable[..., np.ndarray]) -> np.ndarray:
            values = np.full(len(gold), np.nan)
            values[known] = function(marks, scores)
            return values

        recalls = None if metric.recalls is None else of_known(metric.recalls)
        return MetricValues(of_known(metric.function), recalls=recalls)
    if kind == "image":
        return MetricValues(inputs.image_values[metric.name])
    return MetricValues(_each(metric.function, selected_units(metric) if kind == "shape" else inputs.unit_scores))


def _each(measure: Callable[..., float], *lists: Sequence[np.ndarray | None]) -> np.ndarray:
    """`measure` of every input for which there is something to measure."""
    inputs = zip(*lists, strict=True)
    values = [np.nan if any(array is None for array in arrays) else measure(*arrays) for arrays in inputs]
    return np.array(values, dtype=np.float64)
