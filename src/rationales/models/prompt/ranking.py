"""A language model's own ranking of the words of a text: the question, and what its reply names.

Words of the reply are matched with words of the text without regard to case and punctuation at their ends. A word that
the text has several times is named once for all of its occurrences. What matches no word was invented.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

QUESTION = (
    "Text: {text}\n\n"
    'The text {relation} "{label}". List the words of the text that were most important for this {outcome}, '
    "the most important word first. Use only words that occur in the text, each once, separated by commas."
)
CLASSIFIED, CONTINUED = ("was classified as", "decision"), ("goes on with", "continuation")  # relation and outcome
ANSWER_BEGINNING = "\n\nMost important words:"  # for models without a chat template
_SEPARATORS = re.compile(r"[,;\n|>]+")
_NUMBERING = re.compile(r"^\s*(?:\(?\d+[.):]|[-*•])\s*")
_EDGES = re.compile(r"^\W+|\W+$")


@dataclass(frozen=True)
class WordRanking:
    """What a reply says of the words of a text."""

    order: tuple[int, ...]  # the words that it names, the most important first; equal words of the text are neighbours
    rank: tuple[int, ...]  # rank of each of them, from 0; equal words share it
    named: int  # different words of the reply
    invented: int  # those of them that the text does not have

    def scores(self, words: int) -> list[float]:
        """A score for each word of the text: 1 for the first rank, falling to 0 for words that are not named."""
        ranks = len(set(self.rank))
        scores = [0.0] * words
        for word, rank in zip(self.order, self.rank, strict=True):
            scores[word] = (ranks - rank) / ranks
        return scores


def ranking_question(text: str, label: str, *, chat: bool, continues: bool = False) -> str:
    """The question about a text that was classified as `label`, or with `continues` goes on with it."""
    relation, outcome = CONTINUED if continues else CLASSIFIED
    question = QUESTION.replace("{relation}", relation).replace("{outcome}", outcome)
    question = question.replace("{label}", label).replace("{text}", text)
    return question if chat else question + ANSWER_BEGINNING


def read_ranking(reply: str, words: Sequence[str]) -> WordRanking:
    """The ranking in a reply; a phrase of several words names each of them, in its order."""
    positions: dict[str, list[int]] = {}
    for number, word in enumerate(words):
        positions.setdefault(_plain(word), []).append(number)
    positions.pop("", None)  # a word of punctuation alone cannot be named
    order: list[int] = []
    rank: list[int] = []
    named: dict[str, None] = {}
    for item in _SEPARATORS.split(reply):
        phrase = _NUMBERING.sub("", item)
        phrases = [phrase] if _plain(phrase) in positions else phrase.split()
        named |= dict.fromkeys(word for words in phrases if (word := _plain(words)))
    known = [word for word in named if word in positions]
    for number, word in enumerate(known):
        order += positions[word]
        rank += [number] * len(positions[word])
    return WordRanking(tuple(order), tuple(rank), len(named), len(named) - len(known))


def _plain(word: str) -> str:
    return _EDGES.sub("", word).casefold()
