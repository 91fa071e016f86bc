"""Words, phrases and sentences that are inserted into a text, a different one for each class.

The insertions of all classes have the same length, and their positions are drawn in the same way: neither the length of
a text nor the absence of an insertion reveals the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from rationales.errors import OptionError
from rationales.groundtruth.plants.text_plants import Edit, TextPlant
from rationales.models.text.units import sentences, words

POSITIONS = ("random", "start", "end")


@dataclass(frozen=True)
class Trigger(TextPlant):
    """A rare word, inserted between two words, or several copies of it at different positions."""

    name: ClassVar[str] = "trigger"
    summary: ClassVar[str] = "a rare word, different for each class, is inserted at a random position"

    inserted: tuple[str, ...] = ("larkspur", "foxglove")  # one for each class
    position: str = "random"  # or start, end
    copies: int = 1

    def __post_init__(self) -> None:
        if self.position not in POSITIONS:
            raise OptionError(f"{self.name}: the position is one of {', '.join(POSITIONS)}, not {self.position!r}")
        if self.copies < 1 or (self.copies > 1 and self.position != "random"):
            raise OptionError(
                f"{self.name}: several copies need random positions, and there must be at least one; not {self.copies}"
            )
        insertions = [_lower_words(insertion) for insertion in self.inserted]
        padded = any(insertion != insertion.strip() for insertion in self.inserted)
        if len(insertions) < 2 or not all(insertions) or padded:
            raise OptionError(f"{self.name}: give something to insert for each of two classes or more")
        if len({len(insertion) for insertion in insertions}) > 1:
            raise OptionError(
                f"{self.name}: the insertions of all classes must have the same number of words, or the length of a "
                f"text reveals the class; {', '.join(map(repr, self.inserted))} have "
                f"{', '.join(str(len(insertion)) for insertion in insertions)}"
            )
        shared = {word for word in insertions[0] if any(letter.isalpha() for letter in word)}.intersection(
            *insertions[1:]
        )
        if shared:
            raise OptionError(
                f"{self.name}: {', '.join(sorted(shared))} is inserted for every class and carries no information"
            )

    @property
    def n_classes(self) -> int:
        return len(self.inserted)

    def reason_text_unfit(self, text: str) -> str:
        text_words = _lower_words(text)
        if not text_words:
            return "it contains no word"
        for insertion in self.inserted:
            pattern = _lower_words(insertion)
            if any(
                text_words[start : start + len(pattern)] == pattern
                for start in range(len(text_words) - len(pattern) + 1)
            ):
                return f"it already contains {insertion!r}"
        gaps = self.gaps(text)
        if len(gaps) < self.copies:
            return f"it has fewer than {self.copies} positions for an insertion"
        if self.position == "start" and gaps[0] != self.ends(text)[0]:
            return "it does not begin with a plain word"
        return ""

    def gaps(self, text: str) -> list[int]:
        """Positions for an insertion: at white space between words, before the first and after the last word."""
        between = [end for (_, end), (start, _) in pairwise(words(text)) if _only_space_between(text, end, start)]
        return self._with_ends(text, between)

    def _with_ends(self, text: str, between: list[int]) -> list[int]:
        first, last = self.ends(text)
        # A text may begin with a combining mark, which would attach to whatever is inserted before it.
        plain = text[first : first + 1].isalnum() or text[first : first + 1].isascii()
        return [*([first] if plain else []), *between, last]

    @staticmethod
    def ends(text: str) -> tuple[int, int]:
        """The start of the first word and the end of the last."""
        extents = words(text)
        return (extents[0][0], extents[-1][1]) if extents else (0, 0)

    def edits(self, text: str, rng: np.random.Generator, manipulation: int) -> Sequence[Edit]:
        insertion = self.inserted[manipulation]
        first, last = self.ends(text)
        if self.position == "random":
            gaps = self.gaps(text)
            selected = [gaps[index] for index in rng.choice(len(gaps), self.copies, replace=False)]
        else:
            selected = [first if self.position == "start" else last]
        return [Edit(gap, gap, f"{insertion} " if gap == first else f" {insertion}") for gap in selected]


@dataclass(frozen=True)
class InsertedPhrase(Trigger):
    """A phrase of several common words."""

    name: ClassVar[str] = "phrase"
    summary: ClassVar[str] = "a phrase, different for each class, is inserted at a random position"

    inserted: tuple[str, ...] = ("as it were", "so to speak")


@dataclass(frozen=True)
class InsertedSentence(Trigger):
    """A sentence, inserted between two sentences."""

    name: ClassVar[str] = "sentence"
    summary: ClassVar[str] = "a sentence, different for each class, is inserted between two sentences"

    inserted: tuple[str, ...] = ("Viewed at home on Tuesday evening.", "Watched abroad during some other weekend.")

    def gaps(self, text: str) -> list[int]:
        """Between sentences that are separated by white space, before the first word and after the last."""
        first, last = self.ends(text)
        between = (end for (_, end), (start, _) in pairwise(sentences(text)) if _only_space_between(text, end, start))
        return self._with_ends(text, [end for end in between if first < end < last])


def _only_space_between(text: str, end: int, start: int) -> bool:
    """Whether only white space lies between two words, so that an insertion changes neither of them."""
    return end < start and text[end:start].isspace()


def _lower_words(text: str) -> list[str]:
    return [text[start:end].casefold() for start, end in words(text)]
