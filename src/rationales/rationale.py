"""The result: which units of an input made the model decide, how strongly, and where that came from."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rationales.errors import OptionError
from rationales.files import write_text


@dataclass(frozen=True, slots=True)
class Unit:
    """One word (token, sentence): `text` stands at characters start..end of part 0 (the text) or 1 (its pair)."""

    text: str
    start: int
    end: int
    part: int = 0


@dataclass(frozen=True, slots=True)
class Grid:
    """The pixels of a picture as units, row by row from the top left."""

    height: int
    width: int

    def __len__(self) -> int:
        return self.height * self.width


@dataclass(frozen=True, slots=True)
class Region:
    """Connected pixels selected together: rows top..bottom-1, columns left..right-1; `score` is their mean score."""

    top: int
    left: int
    bottom: int
    right: int
    area: int
    score: float


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

    text: str  # empty for a picture
    units: tuple[Unit, ...] | Grid
    scores: np.ndarray  # (units,)
    target: str
    labels: tuple[str, ...]
    probabilities: Mapping[str, Mapping[str, float]]  # full, rationale, complement, baseline -> label -> probability
    method: str
    model: str
    pair: str | None = None
    picture: np.ndarray | None = None  # (height, width, 3) uint8; shown, but not saved
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
        units = self.words
        chosen = self.selected(threshold=threshold, share=share, top=top)
        runs: list[list[int]] = []
        for index in np.flatnonzero(chosen).tolist():
            adjoins = runs and runs[-1][-1] == index - 1 and units[index].part == units[index - 1].part
            if adjoins:
                runs[-1].append(index)
            else:
                runs.append([index])
        return [self._span(run[0], run[-1]) for run in runs]

    def regions(
        self, *, threshold: float | None = None, share: float | None = None, top: int | None = None
    ) -> list[Region]:
        """The rationale of a picture as connected regions (8 neighbours), the largest first."""
        from skimage import measure as untyped

        measure: Any = untyped
        if not isinstance(self.units, Grid):
            raise OptionError("a text has spans; regions are for pictures")
        chosen = self.selected(threshold=threshold, share=share, top=top).reshape(self.units.height, self.units.width)
        found = measure.regionprops(measure.label(chosen, connectivity=2), self.scores.reshape(chosen.shape))
        regions = [_region(one) for one in found]
        return sorted(regions, key=lambda region: -region.area)

    def top(self, k: int) -> list[Unit]:
        """The k units with the highest scores, best first."""
        units = self.words
        return [units[index] for index in np.argsort(-self.scores, kind="stable")[:k]]

    def part(self, index: int) -> str:
        """The text that units with `part == index` point into."""
        return self.text if index == 0 else (self.pair or "")

    @property
    def words(self) -> tuple[Unit, ...]:
        """The units of a text (words, tokens or sentences); a picture has none."""
        if isinstance(self.units, Grid):
            raise OptionError("a picture has regions, not spans of words; ask for regions()")
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

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """A self-contained page; written to `path` when one is given."""
        from rationales.report.html import page

        content = page([self])
        if path is not None:
            write_text(path, content)
        return content

    def to_png(self, path: str | os.PathLike[str]) -> Path:
        """Write a picture's original, heat map and cut-out side by side."""
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
            size = f"{self.units.height} x {self.units.width} pixels"
            return f"Rationale({self.method}: {self.target} <- {share:.0%} of {self.name or 'a picture'}, {size})"
        spans = "; ".join(span.text for span in self.spans()[:4])
        return f"Rationale({self.method}: {self.target} <- {spans!r}, {len(self.units)} units)"


def _region(found: Any) -> Region:
    top, left, bottom, right = map(int, found.bbox)
    return Region(top, left, bottom, right, int(found.num_pixels), float(found.intensity_mean))


def by_label(labels: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Label -> probability, rounded to what float32 means."""
    return {label: round(float(value), 6) for label, value in zip(labels, values, strict=True)}
