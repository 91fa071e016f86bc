"""The result: which units of an input made the model decide, how strongly, and where that came from."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import numpy as np

from rationales.errors import OptionError
from rationales.parts import Curve, Frames, Grid, Note, Region, Span, Spectrogram, Stretch, Unit

__all__ = [
    "Curve",
    "Frames",
    "Grid",
    "Note",
    "Rationale",
    "Region",
    "Rule",
    "Span",
    "Spectrogram",
    "Stretch",
    "Unit",
    "by_label",
]


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

    def as_threshold(self, scores: np.ndarray) -> Rule:
        """The threshold that keeps the same of `scores`, but for equal ones at the edge, which it leaves out."""
        if self.threshold is not None:
            return self
        chosen = self.select(scores)
        if chosen.all() or not chosen.any():
            return Rule(threshold=float(scores.min()) - 1.0 if chosen.any() else float(scores.max()))
        return Rule(threshold=float(scores[~chosen].max()))


@dataclass(frozen=True, eq=False)
class Rationale:
    """Scores of the units of one input, and what is needed to read, repeat and judge them."""

    text: str  # empty for a picture or a sound
    units: tuple[Unit, ...] | Grid | Frames
    scores: np.ndarray  # (units,)
    target: str
    labels: tuple[str, ...]
    probabilities: Mapping[str, Mapping[str, float]]  # full, rationale, complement, baseline -> label -> probability
    method: str
    model: str
    pair: str | None = None
    picture: np.ndarray | None = None  # (height, width, 3) uint8; shown, but not saved
    sound: np.ndarray | None = None  # (samples,) float32 in [-1, 1]; shown, but not saved
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
    curve: Curve | None = None  # the probabilities of selections of other sizes, where they were asked for
    versions: Mapping[str, str] = field(default_factory=dict)
    against: str | None = None  # the label that the target is set against; None: all others
    selection: np.ndarray | None = None  # (units,) booleans: the rationale, where it is not exactly what the rule keeps

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.units):
            raise ValueError(f"{len(self.scores)} scores for {len(self.units)} units")
        if self.selection is not None and self.selection.shape != self.scores.shape:
            raise ValueError(f"a selection of {len(self.selection)} units out of {len(self.units)}")

    def selected(
        self, *, threshold: float | None = None, share: float | None = None, top: int | None = None
    ) -> np.ndarray:
        """(n,) booleans: the units of the rationale; with a threshold, share or top, what that alone keeps."""
        if threshold is not None or share is not None or top is not None:
            return Rule(threshold, share, top).select(self.scores)
        return self.rule.select(self.scores) if self.selection is None else self.selection.copy()

    def spans(
        self, *, threshold: float | None = None, share: float | None = None, top: int | None = None
    ) -> list[Span]:
        """The rationale as connected runs of units, in the order of the text."""
        units = self.words
        chosen = self.selected(threshold=threshold, share=share, top=top)
        return [self._span(first, last) for first, last in _runs(chosen, [unit.part for unit in units])]

    def times(
        self, *, threshold: float | None = None, share: float | None = None, top: int | None = None
    ) -> list[Stretch]:
        """The rationale of a sound as stretches of time; of a spectrogram, where any frequency is selected."""
        units, chosen, scores = self.units, self.selected(threshold=threshold, share=share, top=top), self.scores
        if isinstance(units, Spectrogram):
            chosen, scores = (values.reshape(units.height, units.width) for values in (chosen, scores))
            kept = np.where(chosen, scores, 0).sum(0) / np.maximum(chosen.sum(0), 1)
            chosen, scores, end = chosen.max(0), kept, units.width * units.seconds
        elif isinstance(units, Frames):
            end = units.duration
        else:
            raise OptionError("times are for sounds; a text has spans(), a picture regions()")
        return [
            Stretch(
                round(first * units.seconds, 6),
                round(min((last + 1) * units.seconds, end), 6),
                float(scores[first : last + 1].mean()),
                first,
                last,
            )
            for first, last in _runs(chosen)
        ]

    def regions(
        self, *, threshold: float | None = None, share: float | None = None, top: int | None = None
    ) -> list[Region]:
        """The rationale of a picture as connected regions (8 neighbours), the largest first."""
        from skimage import measure as untyped

        measure: Any = untyped
        if not isinstance(self.units, Grid):
            other = "a sound has times" if isinstance(self.units, Frames) else "a text has spans"
            raise OptionError(f"{other}; regions are for pictures")
        chosen = self.selected(threshold=threshold, share=share, top=top).reshape(self.units.height, self.units.width)
        found = measure.regionprops(measure.label(chosen, connectivity=2), self.scores.reshape(chosen.shape))
        regions = [_region(one) for one in found]
        return sorted(regions, key=lambda region: -region.area)

    def top(self, k: int) -> list[Unit]:
        """The k units with the highest scores, best first."""
        units = self.words
        return [units[index] for index in np.argsort(-self.scores, kind="stable")[:k]]

    @property
    def question(self) -> str:
        """What is explained, in words: the target, or the target rather than another label."""
        return self.target if self.against is None else f"{self.target} rather than {self.against}"

    def part(self, index: int) -> str:
        """The text that units with `part == index` point into."""
        return self.text if index == 0 else (self.pair or "")

    @property
    def words(self) -> tuple[Unit, ...]:
        """The units of a text (words, tokens or sentences); a picture has none."""
        if isinstance(self.units, Grid):
            raise OptionError("a picture has regions, not spans of words; ask for regions()")
        if isinstance(self.units, Frames):
            raise OptionError("a sound has times, not spans of words; ask for times()")
        return self.units

    def _span(self, first: int, last: int) -> Span:
        units = self.words
        start, end, part = units[first].start, units[last].end, units[first].part
        score = float(self.scores[first : last + 1].mean())
        return Span(start, end, self.part(part)[start:end], score, first, last, part)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: everything `load` needs, and the spans or regions for other programs."""
        from rationales.storage import to_dict

        return to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict` as a JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the result as JSON, many scores in a safetensors file beside it; `Rationale.load` reads it back."""
        from rationales.storage import save

        return save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Rationale:
        """Read what `save` wrote."""
        from rationales.storage import load

        return load(path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rationale:
        """The inverse of `to_dict`."""
        from rationales.storage import from_dict

        return from_dict(data)

    @overload
    def to_html(self, path: None = None) -> str: ...

    @overload
    def to_html(self, path: str | os.PathLike[str]) -> Path: ...

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """A self-contained page as a string; or, where `path` is given, the path it was written to."""
        from rationales.report.html import page

        return page([self], path)

    def to_png(self, path: str | os.PathLike[str]) -> Path:
        """Write a picture's original, heat map and cut-out side by side; or a sound's waveform and its rationale."""
        if isinstance(self.units, Frames):
            from rationales.report.wave_png import to_png as sound_to_png

            return sound_to_png(self, path)
        from rationales.report.picture import to_png

        return to_png(self, path)

    def _repr_html_(self) -> str:
        from rationales.report.html import fragment

        return fragment(self)

    def __str__(self) -> str:
        from rationales.report.terminal import plain

        return plain(self)

    def __repr__(self) -> str:
        if isinstance(self.units, Grid):
            share = self.selected().mean()
            size = f"{self.units.height} x {self.units.width} {self.unit if self.unit != 'word' else 'pixel'}s"
            return f"Rationale({self.method}: {self.target} <- {share:.0%} of {self.name or 'a picture'}, {size})"
        if isinstance(self.units, Frames):
            where = ", ".join(f"{one.start:.2f}-{one.end:.2f} s" for one in self.times()[:4])
            return f"Rationale({self.method}: {self.target} <- {where} of {self.name or 'a sound'})"
        spans = "; ".join(span.text for span in self.spans()[:4])
        return f"Rationale({self.method}: {self.target} <- {spans!r}, {len(self.units)} units)"


def _runs(chosen: np.ndarray, part: Sequence[int] | None = None) -> list[tuple[int, int]]:
    """(first, last) of every run of neighbours that are chosen; a run does not cross from one part into another."""
    runs: list[tuple[int, int]] = []
    for index in np.flatnonzero(chosen).tolist():
        if runs and runs[-1][1] == index - 1 and (part is None or part[index] == part[index - 1]):
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


def _region(found: Any) -> Region:
    top, left, bottom, right = map(int, found.bbox)
    return Region(top, left, bottom, right, int(found.num_pixels), float(found.intensity_mean))


def by_label(labels: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Label -> probability, rounded to what float32 means."""
    return {label: round(float(value), 6) for label, value in zip(labels, values, strict=True)}
