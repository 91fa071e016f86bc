"""One labelled input of a data set, and what annotators marked in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from rationales.errors import DataError

Extent = tuple[int, int]  # start and end in characters; the end is not included
IN_CHARACTERS, IN_TOKENS = "characters", "whitespace-tokens"  # what annotators could mark
Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels; right and bottom are not included


@dataclass(frozen=True)
class Example:
    """A text, a pair of texts or an image with its label, and the annotators' marks where there are any.

    `spans` are sorted, do not overlap and lie inside the text. `None`: the example was not annotated; `()`: it was
    annotated, and nothing was marked.
    """

    name: str  # unique within its data set
    text: str = ""  # empty for an image
    label: str | None = None
    spans: tuple[Extent, ...] | None = None
    pair: str | None = None  # the second text, where the model reads two
    pair_spans: tuple[Extent, ...] | None = None
    image: Path | None = None
    boxes: tuple[Box, ...] = ()  # around the object of the label
    annotator_spans: tuple[tuple[Extent, ...], ...] = ()  # marks of further annotators: a human ceiling
    pair_annotator_spans: tuple[tuple[Extent, ...], ...] = ()  # marks of the same annotators in the pair
    meta: Mapping[str, str] = field(default_factory=dict, compare=False)  # further columns of the file
    location: str = field(default="", compare=False)  # "FILE, line 3"
    marked_in: str = IN_CHARACTERS  # what annotators could mark: characters, or only complete white-space tokens

    def __post_init__(self) -> None:
        if self.marked_in not in (IN_CHARACTERS, IN_TOKENS):
            raise DataError(f"{self.name}: marked_in is {IN_CHARACTERS} or {IN_TOKENS}, not {self.marked_in!r}")
        for spans in (self.spans, *self.annotator_spans):
            _check(self.name, self.text, spans or ())
        for spans in (self.pair_spans, *self.pair_annotator_spans):
            _check(f"{self.name} (pair)", self.pair or "", spans or ())
        for left, top, right, bottom in self.boxes:
            if not (0 <= left < right and 0 <= top < bottom):
                raise DataError(f"{self.name}: {(left, top, right, bottom)} is no box (left, top, right, bottom)")

    @property
    def title(self) -> str:
        """The name of the example in messages: its location, and its name unless that is only a number."""
        if not self.location:
            return self.name
        return self.location if self.name.isdecimal() else f"{self.location} ({self.name})"

    @property
    def marked(self) -> bool:
        """Whether the example was annotated."""
        return self.spans is not None or self.pair_spans is not None or bool(self.boxes)

    def raw_input(self) -> str | tuple[str, str] | Path:
        """The input in the form that `rationales.explain` takes."""
        if self.image is not None:
            return self.image
        return self.text if self.pair is None else (self.text, self.pair)


def _check(name: str, text: str, spans: Sequence[Extent]) -> None:
    until = 0
    for start, end in spans:
        if not 0 <= start < end <= len(text):
            raise DataError(f"{name}: the span {start}..{end} lies outside of the text ({len(text)} characters)")
        if start < until:
            raise DataError(f"{name}: the span {start}..{end} overlaps the one before it, or is out of order")
        until = end


def joined(spans: Iterable[Extent]) -> tuple[Extent, ...]:
    """The spans sorted, those that overlap or touch joined."""
    disjoint: list[Extent] = []
    for start, end in sorted(spans):
        if disjoint and start <= disjoint[-1][1]:
            disjoint[-1] = (disjoint[-1][0], max(end, disjoint[-1][1]))
        else:
            disjoint.append((start, end))
    return tuple(disjoint)


def words_of(text: str) -> list[Extent]:
    """The extents of `text.split()`, which ERASER numbers as tokens."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def extents_between_spaces(pieces: Sequence[str]) -> list[Extent]:
    """The extents of the pieces of a text that single spaces join; pieces may be empty."""
    ends = accumulate(len(piece) + 1 for piece in pieces)
    return [(end - 1 - len(piece), end - 1) for piece, end in zip(pieces, ends, strict=True)]


def spans_of_words(extents: Sequence[Extent], marked: Iterable[int]) -> tuple[Extent, ...]:
    """Spans in characters of the words with these indices; neighbouring words make one span."""
    spans: list[Extent] = []
    previous = -2
    for word in sorted(set(marked)):
        start, end = extents[word]
        if word == previous + 1:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        previous = word
    return tuple(spans)
