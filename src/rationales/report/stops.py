"""Where the page's slider can stand: the sizes whose probabilities are known, the method's selection among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rationales.rationale import Rationale
from rationales.report.scale import Scale, start_of
from rationales.report.words import leading, runner_up

TICKS = 200  # steps of a slider without stops
LEAST_SHOWN = 0.001  # a label that never reaches it is '< 0.1 %' throughout, and not sent to the page


@dataclass(frozen=True)
class Stop:
    """A selection and what the model says of it."""

    threshold: float
    selected: int  # units
    probabilities: Mapping[str, Mapping[str, float]]  # rationale, complement -> label -> probability
    is_rule: bool = False  # the selection of the rationale's own rule


def stops(rationale: Rationale, scale: Scale) -> list[Stop]:
    """From all units to none, so that thresholds rise; none where the rationale has no curve."""
    curve = rationale.curve
    if curve is None:
        return []
    by_rule = Stop(start_of(rationale, scale), int(rationale.selected().sum()), rationale.probabilities, is_rule=True)
    counts = [int((rationale.scores > threshold).sum()) for threshold in curve.thresholds]
    sizes = [
        Stop(threshold, count, curve.at(size))
        for size, (threshold, count) in enumerate(zip(curve.thresholds, counts, strict=True))
        if count != by_rule.selected  # selections by score that are equally large are the same
    ]
    return sorted([*sizes, by_rule], key=lambda stop: -stop.selected)


def entered(stopping: Sequence[Stop], scores: np.ndarray, by_rule: np.ndarray) -> np.ndarray:
    """For each of the scores, how many stops select it, counted from the first; larger selections hold smaller ones."""
    selections = [by_rule if stop.is_rule else scores > stop.threshold for stop in stopping]
    if not selections:
        return np.zeros(scores.shape, dtype=np.int64)
    nested = np.logical_and.accumulate(
        selections
    )  # scores of a reduced picture are averages, and may differ by a pixel
    return np.asarray(np.sum(nested, axis=0, dtype=np.int64))


def threshold_input(rationale: Rationale, scale: Scale, number: int) -> str:
    """The slider: over the stops where there are any, else over the range of the scores in `TICKS` steps."""
    stopping = stops(rationale, scale)
    last = len(stopping) - 1 if stopping else TICKS
    start = start_of(rationale, scale)
    value = round(TICKS * (start - scale.low) / (scale.high - scale.low))
    for place, stop in enumerate(stopping):
        value = place if stop.is_rule else value
    return f'<input type="range" class="cut" id="t{number}" min="0" max="{last}" value="{min(max(value, 0), last)}">'


def shown_labels(rationale: Rationale) -> list[str]:
    """The labels worth a row first, then all that ever reach `LEAST_SHOWN`, likeliest first."""
    full = rationale.probabilities.get("full", {})
    ranked = sorted(rationale.labels, key=lambda label: -full.get(label, 0.0))
    reaching = [label for label in ranked if _most(rationale, label) >= LEAST_SHOWN]
    rival = runner_up(rationale)
    required = [*leading(rationale), rationale.target, *([] if rival is None else [rival])]
    return list(dict.fromkeys([*required, *reaching]))


def slider_data(rationale: Rationale, scale: Scale, stopping: Sequence[Stop]) -> dict[str, object]:
    """What the script needs to show probabilities: lists in the order of `labels`."""
    labels, rival = shown_labels(rationale), runner_up(rationale)
    data: dict[str, object] = {
        "labels": labels,
        "target": labels.index(rationale.target),
        "rival": labels.index(rival) if rival is not None else None,
        "hidden": max(len(rationale.labels) - len(labels), 0),  # labels that stay below LEAST_SHOWN
        "given": {
            key: [by_label.get(label, 0.0) for label in labels] for key, by_label in rationale.probabilities.items()
        },
    }
    if stopping:
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
            for stop in stopping
        ]
    return data


def _most(rationale: Rationale, label: str) -> float:
    """The highest probability of a label, whatever the model was given."""
    measured = [by_label.get(label, 0.0) for by_label in rationale.probabilities.values()]
    if rationale.curve is not None:
        measured += [*rationale.curve.rationale[label], *rationale.curve.complement[label]]
    return max(measured, default=0.0)
