"""Whether a model's rationales are still those of a record: rank correlation, overlap, predicted labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from rationales.data.row_files import json_lines
from rationales.errors import DataError, OptionError
from rationales.evaluation.stability.agreement import selection_iou
from rationales.evaluation.tables.statistics import Estimate, estimate, rank_correlation
from rationales.models.load import as_model
from rationales.pipeline.explain import explain
from rationales.rationale import Rationale
from rationales.storage import from_dict

PIPELINE_OPTIONS = ("smooth", "shape", "snap")  # of `explain`, which a record stores beside those of the method
WORST = 5  # texts that a report names


@dataclass(frozen=True)
class DriftLimits:
    """What still counts as the same: the least mean rank correlation and overlap, and the largest share of flips."""

    rank: float = 0.7  # Spearman's correlation of the scores, mean over texts
    overlap: float = 0.5  # intersection over union of the rationales, mean over texts
    flips: float = 0.0  # share of texts whose predicted label changed

    def __post_init__(self) -> None:
        for name, low in (("rank", -1.0), ("overlap", 0.0), ("flips", 0.0)):
            if not low <= getattr(self, name) <= 1:
                raise OptionError(f"the limit {name} lies between {low:g} and 1, not {getattr(self, name)}")


@dataclass(frozen=True)
class TextDrift:
    """How the rationale of one text differs from the record."""

    name: str
    rank: float  # NaN where one of the two has constant scores
    overlap: float
    recorded_label: str  # that the model predicted
    label: str
    probability_change: float  # of the recorded target in the full text

    @property
    def flipped(self) -> bool:
        """Whether the model now predicts another label."""
        return self.recorded_label != self.label


@dataclass(frozen=True)
class Drift:
    """How the rationales of all texts of a record differ from it."""

    texts: tuple[TextDrift, ...]
    limits: DriftLimits
    model: str
    recorded_model: str

    @property
    def rank(self) -> Estimate:
        """Mean rank correlation with its interval."""
        return estimate(np.array([text.rank for text in self.texts]))

    @property
    def overlap(self) -> Estimate:
        """Mean overlap with its interval."""
        return estimate(np.array([text.overlap for text in self.texts]))

    @property
    def flips(self) -> float:
        """Share of texts with another predicted label."""
        return sum(text.flipped for text in self.texts) / len(self.texts)

    @property
    def failures(self) -> list[str]:
        """The limits that are exceeded, in words; empty: no drift."""
        messages = []
        if self.rank.mean < self.limits.rank:
            messages.append(f"mean rank correlation {self.rank.mean:.3f} is below {self.limits.rank:g}")
        if self.overlap.mean < self.limits.overlap:
            messages.append(f"mean overlap {self.overlap.mean:.3f} is below {self.limits.overlap:g}")
        if self.flips > self.limits.flips:
            count = sum(text.flipped for text in self.texts)
            messages.append(f"{count} of {len(self.texts)} predicted labels changed, more than {self.limits.flips:.0%}")
        return messages

    @property
    def worst(self) -> list[TextDrift]:
        """The texts with the least overlap and rank correlation, worst first; only texts that changed at all."""
        changed = [text for text in self.texts if text.flipped or text.overlap < 1 or text.rank < 1 - 1e-9]
        return sorted(changed, key=lambda text: (not text.flipped, text.overlap, np.nan_to_num(text.rank)))[:WORST]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "passed": not self.failures,
            "failures": self.failures,
            "model": self.model,
            "recorded_model": self.recorded_model,
            "limits": vars(self.limits),
            "rank_correlation": _interval(self.rank),
            "overlap": _interval(self.overlap),
            "flips": self.flips,
            "texts": [
                {**vars(text), "rank": None if math.isnan(text.rank) else text.rank, "flipped": text.flipped}
                for text in self.texts
            ],
        }


def read_record(path: str | Path) -> list[Rationale]:
    """The rationales of texts in JSON lines, as `rationales explain --json` and `Rationale.to_json` write them."""
    record: list[Rationale] = []
    for location, data in json_lines(Path(path)):
        try:
            rationale = from_dict(data)
        except (TypeError, KeyError, ValueError, AttributeError, OptionError) as error:
            raise DataError(
                f"{location} holds no rationale ({error}); write it by 'rationales explain --json'"
            ) from None
        if not isinstance(rationale.units, tuple):
            raise DataError(f"{location} is the rationale of an image or a sound; only those of texts can be checked")
        record.append(rationale)
    if not record:
        raise DataError(f"{path} holds no rationales; write it by 'rationales explain --file texts.csv --json'")
    return record


def repeat_record(
    model: Any, record: Sequence[Rationale], progress: Callable[[float], None] | None = None
) -> list[Rationale]:
    """The recorded texts explained again by `model`: same method, options, seed, target and contrast."""
    model = as_model(model)
    repeated: dict[int, Rationale] = {}
    numbered = sorted(enumerate(record), key=lambda pair: _settings_key(pair[1]))
    for _, group in groupby(numbered, key=lambda pair: _settings_key(pair[1])):
        members = list(group)
        first = members[0][1]
        options = {name: value for name, value in first.options.items() if name not in PIPELINE_OPTIONS}
        results = explain(
            model,
            [
                rationale.text if rationale.pair is None else (rationale.text, rationale.pair)
                for _, rationale in members
            ],
            method=first.method,
            options=options,
            target=[rationale.target for _, rationale in members],
            against=None if first.against is None else [str(rationale.against) for _, rationale in members],
            seed=first.seed,
            names=[rationale.name or f"text {number + 1}" for number, rationale in members],
            **{name: first.options[name] for name in PIPELINE_OPTIONS if name in first.options},
        )
        repeated.update(zip([number for number, _ in members], results, strict=True))
        if progress is not None:
            progress(len(repeated) / len(record))
    return [repeated[number] for number in range(len(record))]


def compare_with_record(
    record: Sequence[Rationale], repeated: Sequence[Rationale], limits: DriftLimits | None = None
) -> Drift:
    """How repeated rationales differ from the record, text by text."""
    if len(record) != len(repeated) or not record:
        raise OptionError(f"{len(repeated)} rationales cannot be compared with a record of {len(record)}")
    texts = tuple(
        _text_drift(number, before, after)
        for number, (before, after) in enumerate(zip(record, repeated, strict=True), 1)
    )
    return Drift(texts, limits or DriftLimits(), repeated[0].model, record[0].model)


def _text_drift(number: int, before: Rationale, after: Rationale) -> TextDrift:
    if (before.text, before.pair) != (after.text, after.pair):
        raise OptionError(f"the rationales of text {number} are of different texts")
    scores, selections = [], []
    same_units = before.units == after.units
    for rationale in (before, after):
        selected = rationale.selected()
        scores.append(rationale.scores if same_units else _by_character(rationale, rationale.scores))
        selections.append(selected if same_units else _by_character(rationale, selected) > 0)
    change = after.probabilities["full"].get(before.target, 0.0) - before.probabilities["full"][before.target]
    return TextDrift(
        before.name or f"text {number}",
        rank_correlation(*scores),
        selection_iou(*selections),
        _predicted(before),
        _predicted(after),
        round(change, 6),
    )


def _by_character(rationale: Rationale, values: np.ndarray) -> np.ndarray:
    """(characters,): the value of the unit that each character belongs to; 0 between units."""
    first = len(rationale.text)
    characters = np.zeros(first + len(rationale.pair or ""))
    for unit, value in zip(rationale.words, values, strict=True):
        shift = first * unit.text_index
        characters[shift + unit.start : shift + unit.end] = value
    return characters


def _predicted(rationale: Rationale) -> str:
    full: Mapping[str, float] = rationale.probabilities["full"]
    return max(full, key=lambda label: full[label])


def _settings_key(rationale: Rationale) -> tuple[str, str, int, bool]:
    """What texts that are explained together share."""
    return rationale.method, repr(sorted(rationale.options.items())), rationale.seed, rationale.against is None


def _interval(value: Estimate) -> dict[str, float | None]:
    numbers = {"mean": value.mean, "low": value.low, "high": value.high}
    return {name: None if math.isnan(number) else number for name, number in numbers.items()}


def write_record(rationales: Iterable[Rationale]) -> str:
    """The content of a record: one rationale a line."""
    return "".join(f"{rationale.to_json()}\n" for rationale in rationales)
