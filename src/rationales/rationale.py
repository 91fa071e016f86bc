"""The result: which units of an input led to the model's decision, how strongly, and how that was computed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from rationales.errors import OptionError
from rationales.rationale_halves import image_half, select_parts, text_half
from rationales.rationale_parts import Curve, Frames, Grid, Note, Region, Span, Spectrogram, Stretch, TextAndImage, Unit
from rationales.rendering import render

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Curve", "Frames", "Grid", "Note", "Rationale", "Region", "Rule", "Span", "Spectrogram", "Stretch", "Unit"]
__all__ += ["TextAndImage", "by_label"]


@dataclass(frozen=True)
class Rule:
    """Selects the units of a rationale: those above a threshold, a share of them, or the best k. Exactly one is set."""

    threshold: float | None = None
    share: float | None = None
    top: int | None = None
    pixel_threshold: float | None = None  # of pixels beside words, where it is not `threshold`

    def __post_init__(self) -> None:
        names = [name for name in ("threshold", "share", "top") if getattr(self, name) is not None]
        if len(names) != 1:
            raise OptionError(f"give exactly one of threshold, share and top, not {' and '.join(names) or 'none'}")
        if self.share is not None and not 0 <= self.share <= 1:
            raise OptionError(f"share must lie between 0 and 1, not {self.share}")
        if self.top is not None and self.top < 0:
            raise OptionError(f"top must not be negative, got {self.top}")

    def for_pixels(self) -> Rule:
        """The rule for the pixels of an input that also has words."""
        return self if self.pixel_threshold is None else Rule(threshold=self.pixel_threshold)

    def select(self, scores: np.ndarray) -> np.ndarray:
        """(n,) booleans: the units that the rule selects; of equal scores the first ones."""
        if self.threshold is not None:
            return scores > self.threshold
        selected = np.zeros(len(scores), dtype=bool)
        selected[np.argsort(-scores, kind="stable")[: self.count(len(scores))]] = True
        return selected

    def as_threshold(self, scores: np.ndarray) -> Rule:
        """The threshold that selects the same of `scores`, without equal scores at the boundary."""
        if self.threshold is not None:
            return self
        count = self.count(len(scores))
        if count <= 0:
            return Rule(threshold=float(scores.max()))
        if count >= len(scores):
            return Rule(threshold=float(scores.min()) - 1.0)
        position = len(scores) - count - 1  # the best of the units that are not selected, in rising order
        return Rule(threshold=float(np.partition(scores, position)[position]))

    def count(self, units: int) -> int:
        """How many of `units` are selected by a share or the best k."""
        return self.top if self.top is not None else math.ceil((self.share or 0.0) * units - 1e-9)


@dataclass(frozen=True, eq=False)
class Rationale:
    """Scores of the units of one input, and what is needed to read, repeat and judge them."""

    text: str  # empty for an image or a sound
    units: tuple[Unit, ...] | Grid | Frames | TextAndImage
    scores: np.ndarray  # (units,)
    target: str
    labels: tuple[str, ...]
    probabilities: Mapping[str, Mapping[str, float]]  # full, rationale, complement, baseline -> label -> probability
    method: str
    model: str
    pair: str | None = None
    image: np.ndarray | None = None  # (height, width, 3) uint8; displayed, but not saved
    sound: np.ndarray | None = None  # (samples,) float32 in [-1, 1]; displayed, but not saved
    name: str | None = None
    rule: Rule = field(default_factory=lambda: Rule(threshold=0.5))
    baseline: str = ""
    unit: str = "word"
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    steps: int = 0
    stop: str = ""
    segments: int = 1
    tokens: int = 0  # that the model reads of the text, those that segments share counted twice; 0 for other inputs
    seconds: float = 0.0
    notes: tuple[Note, ...] = ()
    curve: Curve | None = None  # the probabilities of selections of other sizes, if requested
    versions: Mapping[str, str] = field(default_factory=dict)
    against: str | None = None  # the label that the target is contrasted with; None: all others
    selection: np.ndarray | None = None  # (units,) booleans: the rationale, where it differs from what the rule selects
    prompt: Mapping[str, Any] | None = None  # of a language model: template and switches, as plain data
    selected_by: str = "scores"  # or "spans": connected units are in the rationale together, whatever their scores

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.units):
            raise ValueError(f"{len(self.scores)} scores for {len(self.units)} units")
        if self.selection is not None and self.selection.shape != self.scores.shape:
            raise ValueError(f"a selection of {len(self.selection)} units out of {len(self.units)}")

    def selected(
        self, *, threshold: float | None = None, share: float | None = None, top: int | None = None
    ) -> np.ndarray:
        """(n,) booleans: the units of the rationale; with a threshold, share or top, the units that it selects."""
        if threshold is not None or share is not None or top is not None:
            return self._select(Rule(threshold, share, top))
        return self._select(self.rule) if self.selection is None else self.selection.copy()

    def _select(self, rule: Rule) -> np.ndarray:
        if isinstance(self.units, TextAndImage):
            return select_parts(rule, self.scores, len(self.units.words))
        return rule.select(self.scores)

    @property
    def text_part(self) -> Rationale:
        """The rationale of the words alone, where the input is a text and an image."""
        return text_half(self)

    @property
    def image_part(self) -> Rationale:
        """The rationale of the pixels alone, where the input is a text and an image."""
        return image_half(self)

    def spans(
        self, *, threshold: float | None = None, share: float | None = None, top: int | None = None
    ) -> list[Span]:
        """The rationale as connected runs of units, in the order of the text."""
        text_indices = [unit.text_index for unit in self.words]
        selected = self.selected(threshold=threshold, share=share, top=top)[: len(text_indices)]
        return [self._span(first, last) for first, last in _runs(selected, text_indices)]

    def times(
        self, *, threshold: float | None = None, share: float | None = None, top: int | None = None
    ) -> list[Stretch]:
        """The rationale of a sound as stretches of time; of a spectrogram, where any frequency is selected."""
        units, selected, scores = self.units, self.selected(threshold=threshold, share=share, top=top), self.scores
        if isinstance(units, Spectrogram):
            selected, scores = (values.reshape(units.height, units.width) for values in (selected, scores))
            means = np.where(selected, scores, 0).sum(0) / np.maximum(selected.sum(0), 1)
            selected, scores, end = selected.max(0), means, units.width * units.seconds
        elif isinstance(units, Frames):
            end = units.duration
        else:
            raise OptionError("times are for sounds; a text has spans(), an image regions()")
        stretches = []
        for first, last in _runs(selected):
            start, stop = round(first * units.seconds, 6), round(min((last + 1) * units.seconds, end), 6)
            stretches.append(Stretch(start, stop, float(scores[first : last + 1].mean()), first, last))
        return stretches

    def regions(
        self, *, threshold: float | None = None, share: float | None = None, top: int | None = None
    ) -> list[Region]:
        """The rationale of an image as connected regions (8 neighbours), the largest first."""
        from skimage import measure as untyped

        measure: Any = untyped
        grid = self.units.grid if isinstance(self.units, TextAndImage) else self.units
        if not isinstance(grid, Grid):
            alternative = "a sound has times" if isinstance(self.units, Frames) else "a text has spans"
            raise OptionError(f"{alternative}; regions are for images")
        words = len(self.units) - len(grid)
        selected = self.selected(threshold=threshold, share=share, top=top)[words:].reshape(grid.height, grid.width)
        scores = self.scores[words:].reshape(selected.shape)
        components = measure.regionprops(measure.label(selected, connectivity=2), scores)
        return sorted(map(_region, components), key=lambda region: -region.area)

    def top(self, k: int) -> list[Unit]:
        """The k units of a text with the highest scores, best first."""
        units = self.words
        return [units[index] for index in np.argsort(-self.scores[: len(units)], kind="stable")[:k]]

    @property
    def question(self) -> str:
        """What is explained: 'target', or 'target rather than label'."""
        return self.target if self.against is None else f"{self.target} rather than {self.against}"

    def text_at(self, text_index: int) -> str:
        """The text that units with this `text_index` belong to: 0 the text, 1 its pair."""
        return self.text if text_index == 0 else (self.pair or "")

    @property
    def words(self) -> tuple[Unit, ...]:
        """The units of a text, also beside an image: words, tokens or sentences; an OptionError without a text."""
        if isinstance(self.units, TextAndImage):
            return self.units.words
        if isinstance(self.units, Grid):
            raise OptionError("an image has regions, not spans of words; call regions()")
        if isinstance(self.units, Frames):
            raise OptionError("a sound has times, not spans of words; call times()")
        return self.units

    def _span(self, first: int, last: int) -> Span:
        units = self.words
        start, end, text_index = units[first].start, units[last].end, units[first].text_index
        score = float(self.scores[first : last + 1].mean())
        return Span(start, end, self.text_at(text_index)[start:end], score, first, last, text_index)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data for JSON: everything that `load` needs, and the spans or regions."""
        from rationales.storage import to_dict

        return to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict` as a JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent, allow_nan=False)

    def to_frame(self) -> pd.DataFrame:
        """The units as a pandas DataFrame, a row for each: text, start, end; row, column; or start, end in seconds.

        The last two columns are always `score` and `selected`.
        """
        from rationales.data_frames import units_frame

        return units_frame(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the result as JSON, many scores to a safetensors file beside it; `Rationale.load` reads it."""
        from rationales.storage import save

        return save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Rationale:
        """Read a result written by `save`."""
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
        """A self-contained page as a string; with `path`, write the page and return the path."""
        page: str | Path = render("html", [self], path)
        return page

    def to_png(self, path: str | os.PathLike[str]) -> Path:
        """Write an image's original, heat map and cut-out side by side; or a sound's waveform and its rationale.

        The words of a text that belongs to the image are written below it.
        """
        written: Path = render("sound-png" if isinstance(self.units, Frames) else "image-png", self, path)
        return written

    def to_svg(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the rationale of a text as an SVG figure; `options`: width (inches), font_size, font, caption."""
        return self._to_figure(path, ".svg", options)

    def to_pdf(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the rationale of a text as a PDF figure; `options` as for `to_svg`."""
        return self._to_figure(path, ".pdf", options)

    def to_latex(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """The rationale of a text as a paragraph of LaTeX; with `path`, write it and return the path."""
        content: str | Path = render("text-latex", self, path)
        return content

    def _to_figure(self, path: str | os.PathLike[str], ending: str, options: Mapping[str, Any]) -> Path:
        if Path(path).suffix.lower() != ending:
            raise OptionError(f"{path} does not end in {ending}")
        written: Path = render("text-figure", self, path, **options)
        return written

    def _repr_html_(self) -> str:
        return str(render("html-fragment", self))

    def __str__(self) -> str:
        return str(render("text", self))

    def __repr__(self) -> str:
        if isinstance(self.units, TextAndImage):
            words, share = "; ".join(span.text for span in self.spans()[:4]), self.image_part.selected().mean()
            return f"Rationale({self.method}: {self.target} <- {words!r} and {share:.0%} of {self.name or 'an image'})"
        if isinstance(self.units, Grid):
            share = self.selected().mean()
            size = f"{self.units.height} x {self.units.width} {self.unit if self.unit != 'word' else 'pixel'}s"
            return f"Rationale({self.method}: {self.target} <- {share:.0%} of {self.name or 'an image'}, {size})"
        if isinstance(self.units, Frames):
            times = ", ".join(f"{stretch.start:.2f}-{stretch.end:.2f} s" for stretch in self.times()[:4])
            return f"Rationale({self.method}: {self.target} <- {times} of {self.name or 'a sound'})"
        spans = "; ".join(span.text for span in self.spans()[:4])
        return f"Rationale({self.method}: {self.target} <- {spans!r}, {len(self.units)} units)"


def _runs(selected: np.ndarray, text_indices: Sequence[int] | None = None) -> list[tuple[int, int]]:
    """(first, last) of every run of selected neighbours; a run does not cross from a text into its pair."""
    runs: list[tuple[int, int]] = []
    for index in np.flatnonzero(selected).tolist():
        same_text = text_indices is None or text_indices[index] == text_indices[index - 1]
        if runs and runs[-1][1] == index - 1 and same_text:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


def _region(component: Any) -> Region:
    top, left, bottom, right = map(int, component.bbox)
    return Region(top, left, bottom, right, int(component.num_pixels), float(component.intensity_mean))


def by_label(labels: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Label -> probability, rounded to the precision of float32."""
    return dict(zip(labels, rounded_probabilities(values).tolist(), strict=True))


def rounded_probabilities(values: np.ndarray | Sequence[float]) -> np.ndarray:
    """The values in float64, rounded to six figures after the point, the precision of float32, as `round` does it."""
    exact = np.asarray(values, dtype=np.float64)
    scaled = exact * 1e6
    rounded = np.rint(scaled) / 1e6
    flat, flat_exact = rounded.reshape(-1), exact.reshape(-1)
    for index in np.flatnonzero(np.abs(scaled % 1 - 0.5) < 1e-4):  # the product may be rounded across the tie
        flat[index] = round(float(flat_exact[index]), 6)
    return rounded
