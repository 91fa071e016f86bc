"""The stops of the page's slider: selections whose probabilities are known, the rationale among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rationales.rationale import Rationale
from rationales.report.scale import Scale, rule_threshold
from rationales.report.wording import listed_labels, runner_up

TICKS = 200  # steps of a slider without stops
MIN_PROBABILITY = 0.001  # a label that never reaches it ('< 0.1 %') is not sent to the page


@dataclass(frozen=True)
class Stop:
    """A selection and its probabilities."""

    threshold: float
    selected: int  # units
    probabilities: Mapping[str, Mapping[str, float]]  # rationale, complement -> label -> probability
    is_rule: bool = False  # the selection of the rationale's rule


def stops(rationale: Rationale, scale: Scale) -> list[Stop]:
    """The stops from all units to none, by rising threshold; empty where the rationale has no curve."""
    curve = rationale.curve
    if curve is None:
        return []
    selected = int(rationale.selected().sum())
    by_rule = Stop(rule_threshold(rationale, scale), selected, rationale.probabilities, is_rule=True)
    counts = [int((rationale.scores > threshold).sum()) for threshold in curve.thresholds]
    sizes = [
        Stop(threshold, count, curve.at(size))
        for size, (threshold, count) in enumerate(zip(curve.thresholds, counts, strict=True))
        if count != by_rule.selected  # of selections of equal size, the rationale
    ]
    return sorted([*sizes, by_rule], key=lambda stop: -stop.selected)


def selecting_stops(slider_stops: Sequence[Stop], scores: np.ndarray, by_rule: np.ndarray) -> np.ndarray:
    """Of the shape of `scores`: how many stops select each unit; a larger selection contains the smaller ones.

    A rationale of spans does not contain all smaller selections by score; there its stop counts as the one before. The
    page has the rationale itself from its marks.
    """
    selections = [by_rule if stop.is_rule else scores > stop.threshold for stop in slider_stops]
    if not selections:
        return np.zeros(scores.shape, dtype=np.int64)
    position = next((index for index, stop in enumerate(slider_stops) if stop.is_rule), 0)
    larger = selections[position - 1] if position else np.ones(scores.shape, dtype=bool)
    smaller = selections[position + 1] if position + 1 < len(selections) else np.zeros(scores.shape, dtype=bool)
    by_scores = bool((smaller <= selections[position]).all() and (selections[position] <= larger).all())
    if scores.ndim == 1 and not by_scores:
        selections[position] = larger
    nested = np.logical_and.accumulate(selections)  # the averaged scores of a reduced image may differ by a pixel
    return np.asarray(np.sum(nested, axis=0, dtype=np.int64))


def threshold_input(rationale: Rationale, scale: Scale, number: int) -> str:
    """The slider: over the stops if there are any, else over the range of the scores in `TICKS` steps."""
    slider_stops = stops(rationale, scale)
    last = len(slider_stops) - 1 if slider_stops else TICKS
    start = rule_threshold(rationale, scale)
    value = round(TICKS * (start - scale.low) / (scale.high - scale.low))
    for position, stop in enumerate(slider_stops):
        value = position if stop.is_rule else value
    return f'<input type="range" class="cut" id="t{number}" min="0" max="{last}" value="{min(max(value, 0), last)}">'


def slider_labels(rationale: Rationale) -> list[str]:
    """The labels that get a row first, then all that ever reach `MIN_PROBABILITY`, likeliest first."""
    full = rationale.probabilities.get("full", {})
    ranked = sorted(rationale.labels, key=lambda label: -full.get(label, 0.0))
    reaching = [label for label in ranked if _highest_probability(rationale, label) >= MIN_PROBABILITY]
    rival = runner_up(rationale)
    required = [*listed_labels(rationale), rationale.target, *([] if rival is None else [rival])]
    return list(dict.fromkeys([*required, *reaching]))


def slider_data(rationale: Rationale, scale: Scale, slider_stops: Sequence[Stop]) -> dict[str, object]:
    """The probabilities for the script, as lists in the order of `labels`."""
    labels, rival = slider_labels(rationale), runner_up(rationale)
    data: dict[str, object] = {
        "labels": labels,
        "target": labels.index(rationale.target),
        "rival": labels.index(rival) if rival is not None else None,
        "hidden": max(len(rationale.labels) - len(labels), 0),  # labels that stay below MIN_PROBABILITY
        "probabilities": {
            key: [by_label.get(label, 0.0) for label in labels] for key, by_label in rationale.probabilities.items()
        },
    }
    if slider_stops:
        data["stops"] = [
            {
                "threshold": min(max(stop.threshold, scale.low), scale.high),
                "selected": stop.selected,
                **{
                    key: [stop.probabilities[key].get(label, 0.0) for label in labels]
                    for key in ("rationale", "complement")
                    if key in stop.probabilities
                },
            }
            for stop in slider_stops
        ]
    return data


def _highest_probability(rationale: Rationale, label: str) -> float:
    """The highest probability of a label over all inputs that the model was run on."""
    measured = [by_label.get(label, 0.0) for by_label in rationale.probabilities.values()]
    if rationale.curve is not None:
        measured += [*rationale.curve.rationale[label], *rationale.curve.complement[label]]
    return max(measured, default=0.0)
