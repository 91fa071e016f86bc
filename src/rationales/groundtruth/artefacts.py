"""Traces of how data were collected: the casing of the first words, the mark at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np

from rationales.data.example import Extent
from rationales.errors import OptionError
from rationales.groundtruth.edits import Edit, TextPlant, plain_words

STYLES = {"lower": str.lower, "upper": str.upper, "title": str.capitalize}
CLOSING = ".!?…"


@dataclass(frozen=True)
class Casing(TextPlant):
    """The first words are written small, with a capital or in capitals; a model must tell letters' case apart."""

    name: ClassVar[str] = "casing"
    summary: ClassVar[str] = "the first words are written in small letters or in capitals, by the class"

    styles: tuple[str, ...] = ("lower", "upper")  # one for each class
    count: int = 1  # words

    def __post_init__(self) -> None:
        if not set(self.styles) <= set(STYLES) or len(set(self.styles)) < max(2, len(self.styles)):
            raise OptionError(f"casing: name two different styles or more of {', '.join(STYLES)}; not {self.styles}")
        if self.count < 1:
            raise OptionError(f"casing: at least one word must be cased, not {self.count}")

    @property
    def classes(self) -> int:
        return len(self.styles)

    def misses(self, text: str) -> str:
        there = len(self._places(text))
        return "" if there == self.count else f"it has {there} words of two letters or more, {self.count} are needed"

    def edits(self, text: str, rng: np.random.Generator, which: int) -> Sequence[Edit]:
        write = STYLES[self.styles[which]]
        return [Edit(start, end, write(text[start:end])) for start, end in self._places(text)]

    def _places(self, text: str) -> list[Extent]:
        """The first words that look different in each style: two letters or more, all of them plain ones."""
        fitting = ((start, end) for start, end in plain_words(text) if end - start > 1 and text[start:end].isascii())
        return list(islice(fitting, self.count))


@dataclass(frozen=True)
class Punctuation(TextPlant):
    """The closing marks of a text become the class's mark."""

    name: ClassVar[str] = "punctuation"
    summary: ClassVar[str] = "the text ends in a full stop or in an exclamation mark, by the class"

    marks: tuple[str, ...] = (".", "!")  # one for each class

    def __post_init__(self) -> None:
        known = all(mark and set(mark) <= set(CLOSING) and len(set(mark)) == 1 for mark in self.marks)
        if not known or len(set(self.marks)) < max(2, len(self.marks)):
            raise OptionError(
                f"punctuation: name two different marks or more, each of one of . ! ? …; not {self.marks}"
            )

    @property
    def classes(self) -> int:
        return len(self.marks)

    def misses(self, text: str) -> str:
        last = text[: self._place(text)[0]][-1:]
        # after a letter, a digit or white space a mark is always a unit of its own
        return "" if last.isascii() and (last.isalnum() or last == " ") else "it does not end in a plain word"

    def edits(self, text: str, rng: np.random.Generator, which: int) -> Sequence[Edit]:
        return [Edit(*self._place(text), self.marks[which])]

    @staticmethod
    def _place(text: str) -> Extent:
        """The closing marks, white space after them not included; empty where there are none."""
        body = text.rstrip()
        return len(body.rstrip(CLOSING)), len(body)
