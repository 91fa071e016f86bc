"""The result: which units of an input made the model decide, how strongly, and where that came from."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rationales.errors import InputError, OptionError
from rationales.files import read_text, write_text

FORMAT = 1  # raised when the saved form changes so that older files would be misread


@dataclass(frozen=True, slots=True)
class Unit:
    """One word (token, sentence): `text` stands at characters start..end of part 0 (the text) or 1 (its pair)."""

    text: str
    start: int
    end: int
    part: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """Units first..last (inclusive) selected together; `score` is their mean score."""

    start: int
    end: int
    text: str
    score: float
    first: int
    last: int
    part: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """Something the user should know about this result, and what to change."""

    kind: str
    message: str


@dataclass(frozen=True)
class Rule:
    """Which units belong to the rationale: those above a threshold, a share of them, or the best k. One is set."""

    threshold: float | None = None
    share: float | None = None
    top: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("threshold", "share", "top") if getattr(self, name) is not None]
        if len(given) != 1:
            raise OptionError(f"give exactly one of threshold, share and top, not {' and '.join(given) or 'none'}")
        if self.share is not None and not 0 <= self.share <= 1:
            raise OptionError(f"share must lie between 0 and 1, not {self.share}")
        if self.top is not None and self.top < 0:
            raise OptionError(f"top must not be negative, got {self.top}")

    def select(self, scores: np.ndarray) -> np.ndarray:
        """(n,) booleans: what the rule keeps of `scores`; equal scores are taken from the left."""
        if self.threshold is not None:
            return scores > self.threshold
        count = self.top if self.top is not None else math.ceil((self.share or 0.0) * len(scores) - 1e-9)
        chosen = np.zeros(len(scores), dtype=bool)
        chosen[np.argsort(-scores, kind="stable")[:count]] = True
        return chosen


@dataclass(frozen=True, eq=False)
class Rationale:
    """Scores of the units of one input, and what is needed to read, repeat and judge them."""

    text: str
    units: tuple[Unit, ...]
    scores: np.ndarray
    target: str
    labels: tuple[str, ...]
    probabilities: Mapping[str, Mapping[str, float]]  # full, rationale, complement, baseline -> label -> probability
    method: str
    model: str
    pair: str | None = None
    name: str | None = None
    rule: Rule = field(default_factory=lambda: Rule(threshold=0.5))
    baseline: str = ""
    unit: str = "word"
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    steps: int = 0
    stop: str = ""
    segments: int = 1
    seconds: float = 0.0
    notes: tuple[Note, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.units):
            raise ValueError(f"{len(self.scores)} scores for {len(self.units)} units")

    def selected(
        self, *, threshold: float | None = None, share: float | None = None, top: int | None = None
    ) -> np.ndarray:
        """(n,) booleans: the units of the rationale, by the given rule or else by the method's own."""
        given = threshold is not None or share is not None or top is not None
        rule = Rule(threshold, share, top) if given else self.rule
        return rule.select(self.scores)

    def spans(
        self, *, threshold: float | None = None, share: float | None = None, top: int | None = None
    ) -> list[Span]:
        """The rationale as connected runs of units, in the order of the text."""
        chosen = self.selected(threshold=threshold, share=share, top=top)
        runs: list[list[int]] = []
        for index in np.flatnonzero(chosen).tolist():
            adjoins = runs and runs[-1][-1] == index - 1 and self.units[index].part == self.units[index - 1].part
            if adjoins:
                runs[-1].append(index)
            else:
                runs.append([index])
        return [self._span(run[0], run[-1]) for run in runs]

    def top(self, k: int) -> list[Unit]:
        """The k units with the highest scores, best first."""
        return [self.units[index] for index in np.argsort(-self.scores, kind="stable")[:k]]

    def part(self, index: int) -> str:
        """The text that units with `part == index` point into."""
        return self.text if index == 0 else (self.pair or "")

    def _span(self, first: int, last: int) -> Span:
        start, end, part = self.units[first].start, self.units[last].end, self.units[first].part
        score = float(self.scores[first : last + 1].mean())
        return Span(start, end, self.part(part)[start:end], score, first, last, part)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: everything `load` needs, and the spans for other programs."""
        units = [asdict(unit) for unit in self.units]
        spans = [asdict(span) for span in self.spans()]
        if self.pair is None:  # the part says something only when there are two
            for entry in (*units, *spans):
                del entry["part"]
        return {
            "format": FORMAT,
            "target": self.target,
            "probabilities": {name: dict(by_label) for name, by_label in self.probabilities.items()},
            "spans": spans,
            "notes": [asdict(note) for note in self.notes],
            "text": self.text,
            **({} if self.pair is None else {"pair": self.pair}),
            **({} if self.name is None else {"name": self.name}),
            "units": units,
            "scores": [float(np.format_float_positional(score, unique=True)) for score in self.scores],
            "method": self.method,
            "options": dict(self.options),
            "rule": {name: value for name, value in asdict(self.rule).items() if value is not None},
            "baseline": self.baseline,
            "unit": self.unit,
            "seed": self.seed,
            "steps": self.steps,
            "stop": self.stop,
            "segments": self.segments,
            "seconds": self.seconds,
            "labels": list(self.labels),
            "model": self.model,
            "versions": dict(self.versions),
        }

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict` as a JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the result as JSON; `Rationale.load` reads it back."""
        return write_text(path, self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Rationale:
        """Read what `save` wrote."""
        try:
            data = json.loads(read_text(path))
        except json.JSONDecodeError as error:
            raise InputError(f"{path} is not JSON (line {error.lineno}): {error.msg}") from None
        if not isinstance(data, dict) or "units" not in data or "scores" not in data:
            raise InputError(f"{path} does not hold a rationale")
        if data.get("format") != FORMAT:
            raise InputError(f"{path} has format {data.get('format')!r}; this version reads format {FORMAT}")
        try:
            return cls.from_dict(data)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise InputError(f"{path} does not hold a whole rationale: {error}") from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rationale:
        """The inverse of `to_dict`."""
        given = {key: value for key, value in data.items() if key not in ("format", "spans")}
        given["units"] = tuple(Unit(**unit) for unit in data["units"])
        given["scores"] = np.asarray(data["scores"], dtype=np.float32)
        given["labels"] = tuple(data["labels"])
        given["rule"] = Rule(**data["rule"])
        given["notes"] = tuple(Note(**note) for note in data["notes"])
        return cls(**given)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """A self-contained page; written to `path` when one is given."""
        from rationales.report.html import page

        content = page([self])
        if path is not None:
            write_text(path, content)
        return content

    def _repr_html_(self) -> str:
        from rationales.report.html import fragment

        return fragment(self)

    def __str__(self) -> str:
        from rationales.report.terminal import plain

        return plain(self)

    def __repr__(self) -> str:
        spans = "; ".join(span.text for span in self.spans()[:4])
        return f"Rationale({self.method}: {self.target} <- {spans!r}, {len(self.units)} units)"


def by_label(labels: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Label -> probability, rounded to what float32 means."""
    return {label: round(float(value), 6) for label, value in zip(labels, values, strict=True)}
