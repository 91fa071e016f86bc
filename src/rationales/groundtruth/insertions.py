"""Words, phrases and sentences that are put into a text, another one for each class.

Every class gets something of equal length at a place drawn in the same way, so that neither the length of a text nor an
absence gives the class away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from rationales.errors import OptionError
from rationales.groundtruth.edits import Edit, TextPlant
from rationales.models.units import sentences, words

PLACES = ("random", "start", "end")


@dataclass(frozen=True)
class Trigger(TextPlant):
    """A rare word is put between two words, or several copies of it at as many places."""

    name: ClassVar[str] = "trigger"
    summary: ClassVar[str] = "a rare word of the class is put in somewhere"

    inserted: tuple[str, ...] = ("larkspur", "foxglove")  # one for each class
    place: str = "random"  # or start, end
    copies: int = 1

    def __post_init__(self) -> None:
        if self.place not in PLACES:
            raise OptionError(f"{self.name}: the place is one of {', '.join(PLACES)}, not {self.place!r}")
        if self.copies < 1 or (self.copies > 1 and self.place != "random"):
            raise OptionError(f"{self.name}: give one copy or, at random places, more; not {self.copies}")
        cut = [_lower(one) for one in self.inserted]
        if len(cut) < 2 or not all(cut) or any(one != one.strip() for one in self.inserted):
            raise OptionError(f"{self.name}: give something to insert for each of two classes or more")
        if len({len(one) for one in cut}) > 1:
            raise OptionError(
                f"{self.name}: what is inserted must have as many words for each class, or the length of a text gives "
                f"the class away; {', '.join(map(repr, self.inserted))} have {', '.join(str(len(one)) for one in cut)}"
            )
        shared = {word for word in cut[0] if any(letter.isalpha() for letter in word)}.intersection(*cut[1:])
        if shared:
            raise OptionError(f"{self.name}: {', '.join(sorted(shared))} is inserted for every class and tells nothing")

    @property
    def classes(self) -> int:
        return len(self.inserted)

    def misses(self, text: str) -> str:
        there = _lower(text)
        if not there:
            return "there is no word in it"
        for one in self.inserted:
            wanted = _lower(one)
            if any(there[place : place + len(wanted)] == wanted for place in range(len(there) - len(wanted) + 1)):
                return f"{one!r} stands in it already"
        gaps = self.gaps(text)
        if len(gaps) < self.copies:
            return f"it has fewer than {self.copies} places to insert anything"
        if self.place == "start" and gaps[0] != self.ends(text)[0]:
            return "it does not begin with a plain word"
        return ""

    def gaps(self, text: str) -> list[int]:
        """Where something may be inserted: at white space between words, before the first and after the last."""
        found = words(text)
        return self._with_ends(text, [end for (_, end), (start, _) in pairwise(found) if _parted(text, end, start)])

    def _with_ends(self, text: str, between: list[int]) -> list[int]:
        first, last = self.ends(text)
        # a text may begin with a mark that clings to whatever stands before it, even to a space
        plain = text[first : first + 1].isalnum() or text[first : first + 1].isascii()
        return [*([first] if plain else []), *between, last]

    @staticmethod
    def ends(text: str) -> tuple[int, int]:
        """Before the first word and after the last."""
        found = words(text)
        return (found[0][0], found[-1][1]) if found else (0, 0)

    def edits(self, text: str, rng: np.random.Generator, which: int) -> Sequence[Edit]:
        new = self.inserted[which]
        first, last = self.ends(text)
        if self.place == "random":
            gaps = self.gaps(text)
            chosen = [gaps[one] for one in rng.choice(len(gaps), self.copies, replace=False)]
        else:
            chosen = [first if self.place == "start" else last]
        return [Edit(one, one, f"{new} " if one == first else f" {new}") for one in chosen]


@dataclass(frozen=True)
class Phrase(Trigger):
    """A phrase of several usual words."""

    name: ClassVar[str] = "phrase"
    summary: ClassVar[str] = "a phrase of the class is put in somewhere"

    inserted: tuple[str, ...] = ("as it were", "so to speak")


@dataclass(frozen=True)
class Sentence(Trigger):
    """A whole sentence is put between two sentences."""

    name: ClassVar[str] = "sentence"
    summary: ClassVar[str] = "a sentence of the class is put between two sentences"

    inserted: tuple[str, ...] = ("Viewed at home on Tuesday evening.", "Watched abroad during some other weekend.")

    def gaps(self, text: str) -> list[int]:
        """Between sentences that white space parts, before the first word and after the last."""
        first, last = self.ends(text)
        between = (end for (_, end), (start, _) in pairwise(sentences(text)) if _parted(text, end, start))
        return self._with_ends(text, [end for end in between if first < end < last])


def _parted(text: str, end: int, start: int) -> bool:
    """Whether white space, and nothing else, stands between two words, so that neither changes by an insertion."""
    return end < start and text[end:start].isspace()


def _lower(text: str) -> list[str]:
    return [text[start:end].casefold() for start, end in words(text)]
