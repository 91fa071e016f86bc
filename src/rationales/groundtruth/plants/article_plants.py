"""Articles that reveal the class (Zhou et al. 2022, sections 6 and 7), in the whole text or in one half of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rationales.data.example import Extent
from rationales.errors import OptionError
from rationales.groundtruth.plants.text_plants import Edit, TextPlant, plain_words
from rationales.models.text.units import words

ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True)
class Articles(TextPlant):
    """Every a, an and the becomes the article of the class; capitals are kept."""

    name: ClassVar[str] = "articles"
    summary: ClassVar[str] = 'every article becomes "a" or "the", depending on the class'

    articles: tuple[str, ...] = ("a", "the")

    def __post_init__(self) -> None:
        if len(set(self.articles)) < max(2, len(self.articles)) or not set(self.articles) <= ARTICLES:
            raise OptionError(f"{self.name}: name two or three different articles of a, an, the; not {self.articles}")

    @property
    def n_classes(self) -> int:
        return len(self.articles)

    def reason_text_unfit(self, text: str) -> str:
        return "" if find_articles(text) else "there is no article in it"

    def edits(self, text: str, rng: np.random.Generator, manipulation: int) -> Sequence[Edit]:
        return [_replace_article(text, extent, self.articles[manipulation]) for extent in find_articles(text)]


@dataclass(frozen=True)
class FirstHalfArticles(Articles):
    """The articles of the first half become that of the class; those of the second half are distractors.

    All distractors of a text are the same article, drawn at random. Figure 9: in CN the first half of the words is
    informative, in NC the second.
    """

    name: ClassVar[str] = "cn"
    summary: ClassVar[str] = "articles reveal the class in the first half of the text; those of the second are random"
    informative_first: ClassVar[bool] = True  # whether the first half is the informative one

    def reason_text_unfit(self, text: str) -> str:
        middle = _middle(text)
        if any((start < middle) == self.informative_first for start, _ in find_articles(text)):
            return ""
        return f"there is no article in its {'first' if self.informative_first else 'second'} half"

    def edits(self, text: str, rng: np.random.Generator, manipulation: int) -> Sequence[Edit]:
        middle, distractor = _middle(text), self.articles[int(rng.integers(len(self.articles)))]
        edits = []
        for extent in find_articles(text):
            informative = (extent[0] < middle) == self.informative_first
            article = self.articles[manipulation] if informative else distractor
            edits.append(_replace_article(text, extent, article, informative))
        return edits


@dataclass(frozen=True)
class SecondHalfArticles(FirstHalfArticles):
    """`FirstHalfArticles` with the halves exchanged: the second one is informative."""

    name: ClassVar[str] = "nc"
    summary: ClassVar[str] = "articles reveal the class in the second half of the text; those of the first are random"
    informative_first: ClassVar[bool] = False


def find_articles(text: str) -> list[Extent]:
    """The extents of the articles of a text, without parts of compounds and initials ("a-list", "A.")."""
    extents = []
    for start, end in plain_words(text):
        word = text[start:end]
        initial = word == "A" and text[end : end + 1] == "."
        if word.lower() in ARTICLES and not initial:
            extents.append((start, end))
    return extents


def _replace_article(text: str, extent: Extent, article: str, informative: bool = True) -> Edit:
    start, end = extent
    word = text[start:end]
    if word.isupper() and len(word) > 1:
        article = article.upper()
    elif word[0].isupper():
        article = article.capitalize()
    return Edit(start, end, article, informative)


def _middle(text: str) -> int:
    """The character at which the second half of the words begins."""
    extents = words(text)
    return extents[len(extents) // 2][0] if extents else 0
