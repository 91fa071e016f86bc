"""One labelled input of a data set, and what people marked in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rationales.errors import DataError

Extent = tuple[int, int]  # start and end in characters; the end is not included
IN_CHARACTERS, IN_TOKENS = "characters", "whitespace-tokens"  # what people could mark
Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels; right and bottom are not included


@dataclass(frozen=True)
class Example:
    """A text, a pair of texts or a picture with its class; people's highlights where there are any.

    `spans` are sorted, apart from each other and lie inside the text. `None` says that nobody was asked to mark
    anything; `()` says that somebody was, and marked nothing.
    """

    name: str  # unique within its data set
    text: str = ""  # empty for a picture
    label: str | None = None
    spans: tuple[Extent, ...] | None = None
    pair: str | None = None  # the second text, where the model reads two
    pair_spans: tuple[Extent, ...] | None = None
    picture: Path | None = None
    boxes: tuple[Box, ...] = ()  # around what the class names
    others: tuple[tuple[Extent, ...], ...] = ()  # what further people marked in the text: a human ceiling
    pair_others: tuple[tuple[Extent, ...], ...] = ()  # and what the same people marked in the pair
    meta: Mapping[str, str] = field(default_factory=dict, compare=False)  # what else the file says
    place: str = field(default="", compare=False)  # where it stands: "FILE, line 3"
    marked_in: str = IN_CHARACTERS  # what people could mark: characters, or only whole white-space tokens

    def __post_init__(self) -> None:
        if self.marked_in not in (IN_CHARACTERS, IN_TOKENS):
            raise DataError(f"{self.name}: marked_in is {IN_CHARACTERS} or {IN_TOKENS}, not {self.marked_in!r}")
        for spans in (self.spans, *self.others):
            _check(self.name, self.text, spans or ())
        for spans in (self.pair_spans, *self.pair_others):
            _check(f"{self.name} (pair)", self.pair or "", spans or ())
        for left, top, right, bottom in self.boxes:
            if not (0 <= left < right and 0 <= top < bottom):
                raise DataError(f"{self.name}: {(left, top, right, bottom)} is no box (left, top, right, bottom)")

    @property
    def whereabouts(self) -> str:
        """What to call it in a message: where it stands and its name, which says nothing where it is a mere number."""
        if not self.place:
            return self.name
        return self.place if self.name.isdecimal() else f"{self.place} ({self.name})"

    @property
    def marked(self) -> bool:
        """Whether somebody was asked what matters here."""
        return self.spans is not None or self.pair_spans is not None or bool(self.boxes)

    def given(self) -> str | tuple[str, str] | Path:
        """The input in the form that `rationales.explain` takes."""
        if self.picture is not None:
            return self.picture
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
    """Spans in any order -> sorted, with those that overlap or touch made one."""
    found: list[Extent] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


def words_of(text: str) -> list[Extent]:
    """The extents of `text.split()`: what token numbers in ERASER count."""
    found: list[Extent] = []
    cursor = 0
    for word in text.split():
        start = text.index(word, cursor)
        cursor = start + len(word)
        found.append((start, cursor))
    return found


def of_words(extents: Sequence[Extent], marked: Iterable[int]) -> tuple[Extent, ...]:
    """The numbers of marked words -> spans of characters; neighbouring words make one span."""
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
