"""Articles that tell the class (Zhou et al. 2022, sections 6 and 7): everywhere, or in one half of the text alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rationales.data.example import Extent
from rationales.errors import OptionError
from rationales.groundtruth.edits import Edit, TextPlant, plain_words
from rationales.models.units import words

ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True)
class Articles(TextPlant):
    """Every a, an and the becomes the article of the class; a capital stays one."""

    name: ClassVar[str] = "articles"
    summary: ClassVar[str] = 'every article becomes "a" or "the", by the class'

    articles: tuple[str, ...] = ("a", "the")

    def __post_init__(self) -> None:
        if len(set(self.articles)) < max(2, len(self.articles)) or not set(self.articles) <= ARTICLES:
            raise OptionError(f"{self.name}: name two or three different articles of a, an, the; not {self.articles}")

    @property
    def classes(self) -> int:
        return len(self.articles)

    def misses(self, text: str) -> str:
        return "" if any(True for _ in articles_of(text)) else "there is no article in it"

    def edits(self, text: str, rng: np.random.Generator, which: int) -> Sequence[Edit]:
        return [_edit(text, one, self.articles[which]) for one in articles_of(text)]


@dataclass(frozen=True)
class HalfArticles(Articles):
    """The articles of one half become that of the class, those of the other all the same one, drawn by chance.

    Figure 9: CN tells in the first half, NC in the second. Half is half of the words.
    """

    name: ClassVar[str] = "cn"
    summary: ClassVar[str] = "articles tell the class in the first half of the text; those of the second tell nothing"
    first: ClassVar[bool] = True  # whether it is the first half that tells

    def misses(self, text: str) -> str:
        middle = _middle(text)
        told = any((start < middle) == self.first for start, _ in articles_of(text))
        half = "first" if self.first else "second"
        return "" if told else f"there is no article in its {half} half"

    def edits(self, text: str, rng: np.random.Generator, which: int) -> Sequence[Edit]:
        middle, idle = _middle(text), self.articles[int(rng.integers(len(self.articles)))]
        made = []
        for one in articles_of(text):
            tells = (one[0] < middle) == self.first
            made.append(_edit(text, one, self.articles[which] if tells else idle, tells))
        return made


@dataclass(frozen=True)
class LateArticles(HalfArticles):
    """The same with the halves changed: the second tells."""

    name: ClassVar[str] = "nc"
    summary: ClassVar[str] = "articles tell the class in the second half of the text; those of the first tell nothing"
    first: ClassVar[bool] = False


def articles_of(text: str) -> list[Extent]:
    """Where a text's articles stand; parts of compounds and initials ("a-list", "A.") do not count."""
    found = []
    for start, end in plain_words(text):
        word = text[start:end]
        initial = word == "A" and text[end : end + 1] == "."
        if word.lower() in ARTICLES and not initial:
            found.append((start, end))
    return found


def _edit(text: str, place: Extent, article: str, tells: bool = True) -> Edit:
    start, end = place
    word = text[start:end]
    new = (
        article.upper() if word.isupper() and len(word) > 1 else article.capitalize() if word[0].isupper() else article
    )
    return Edit(start, end, new, tells)


def _middle(text: str) -> int:
    """The character at which the second half of the words begins."""
    found = words(text)
    return found[len(found) // 2][0] if found else 0
