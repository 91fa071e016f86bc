"""Artefacts of data collection: the casing of the first words, the punctuation at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np

from rationales.data.example import Extent
from rationales.errors import OptionError
from rationales.groundtruth.plants.text_plants import Edit, TextPlant, plain_words

STYLES = {"lower": str.lower, "upper": str.upper, "title": str.capitalize}
CLOSING = ".!?…"


@dataclass(frozen=True)
class Casing(TextPlant):
    """The first words in lower case, capitalised or in upper case; needs a model with a cased vocabulary."""

    name: ClassVar[str] = "casing"
    summary: ClassVar[str] = "the first words are written in lower or upper case, depending on the class"

    styles: tuple[str, ...] = ("lower", "upper")  # one for each class
    count: int = 1  # words

    def __post_init__(self) -> None:
        if not set(self.styles) <= set(STYLES) or len(set(self.styles)) < max(2, len(self.styles)):
            raise OptionError(f"casing: name two different styles or more of {', '.join(STYLES)}; not {self.styles}")
        if self.count < 1:
            raise OptionError(f"casing: the count of words must be at least 1, not {self.count}")

    @property
    def n_classes(self) -> int:
        return len(self.styles)

    def reason_text_unfit(self, text: str) -> str:
        n_words = len(self._extents(text))
        if n_words == self.count:
            return ""
        return f"it has {n_words} words of two letters or more, {self.count} are needed"

    def edits(self, text: str, rng: np.random.Generator, manipulation: int) -> Sequence[Edit]:
        convert = STYLES[self.styles[manipulation]]
        return [Edit(start, end, convert(text[start:end])) for start, end in self._extents(text)]

    def _extents(self, text: str) -> list[Extent]:
        """The first words that differ between the styles: at least two letters, ASCII only."""
        fitting = ((start, end) for start, end in plain_words(text) if end - start > 1 and text[start:end].isascii())
        return list(islice(fitting, self.count))


@dataclass(frozen=True)
class Punctuation(TextPlant):
    """The closing punctuation of a text, replaced by that of the class."""

    name: ClassVar[str] = "punctuation"
    summary: ClassVar[str] = "the text ends in a full stop or an exclamation mark, depending on the class"

    marks: tuple[str, ...] = (".", "!")  # one for each class

    def __post_init__(self) -> None:
        known = all(mark and set(mark) <= set(CLOSING) and len(set(mark)) == 1 for mark in self.marks)
        if not known or len(set(self.marks)) < max(2, len(self.marks)):
            raise OptionError(
                f"punctuation: name two different marks or more, each of one of . ! ? …; not {self.marks}"
            )

    @property
    def n_classes(self) -> int:
        return len(self.marks)

    def reason_text_unfit(self, text: str) -> str:
        last = text[: self._extent(text)[0]][-1:]
        # After a letter, a digit or white space, punctuation is always a separate unit.
        return "" if last.isascii() and (last.isalnum() or last == " ") else "it does not end in a plain word"

    def edits(self, text: str, rng: np.random.Generator, manipulation: int) -> Sequence[Edit]:
        return [Edit(*self._extent(text), self.marks[manipulation])]

    @staticmethod
    def _extent(text: str) -> Extent:
        """The extent of the closing punctuation, without trailing white space; empty if there is none."""
        stripped = text.rstrip()
        return len(stripped.rstrip(CLOSING)), len(stripped)
