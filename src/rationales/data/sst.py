"""The Stanford Sentiment Treebank (Socher and others 2013): sentences as trees with a rating of every phrase.

Phrases with a clear rating of the sentence's polarity count as human highlights, as in `Double Trouble` (Pham and
others 2022, section 5.2): those rated >= 0.7 in a positive sentence, <= 0.3 in a negative one, and at most half as
long as the sentence. The trees contain five classes instead of ratings in [0, 1]; ratings are read from the treebank's
`dictionary.txt` and `sentiment_labels.txt` where they exist, otherwise a class counts as the middle of its range.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rationales.data.archives import find, find_required
from rationales.data.example import IN_TOKENS, Example, extents_between_spaces, spans_of_words
from rationales.data.row_files import lines
from rationales.errors import DataError

MIN_CLEAR_RATING = 0.7  # of a positive phrase; for a negative one at most 1 - 0.7
CLASS_RATINGS = (0.1, 0.3, 0.5, 0.7, 0.9)  # the middles of the five classes
ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "\\/": "/", "\\*": "*"}
_PIECE = re.compile(r"[()]|[^\s()]+")


@dataclass(frozen=True)
class RatedPhrase:
    """Words first..last-1 of a sentence and their class: 0 very negative … 4 very positive."""

    first: int
    last: int
    rating_class: int


def sentences(root: Path, split: str) -> Iterator[Example]:
    """Sentences labelled negative, neutral or positive; neutral ones have no highlights (`spans` is None)."""
    path = find_required(root, f"{split}.txt", "the trees are train.txt, dev.txt and test.txt")
    ratings = _ratings(root)
    for number, (location, line) in enumerate(lines(path)):
        words, phrases = tree(line, location)
        yield _example(f"{split}-{number}", words, phrases, ratings)


def _example(name: str, words: list[str], phrases: list[RatedPhrase], ratings: Mapping[str, float]) -> Example:
    extents = extents_between_spaces(words)
    sentence = phrases[-1]  # the root of the tree closes last
    rating = _rating(words, sentence, ratings)
    label = "neutral" if sentence.rating_class == 2 else ("negative", "positive")[sentence.rating_class > 2]
    clear = [
        phrase
        for phrase in phrases
        if 2 * (phrase.last - phrase.first) <= len(words) and _is_clear(_rating(words, phrase, ratings), label)
    ]
    marked = (word for phrase in clear for word in range(phrase.first, phrase.last))
    return Example(
        name=name,
        text=" ".join(words),
        label=label,
        spans=None if label == "neutral" else spans_of_words(extents, marked),
        meta={"class": str(sentence.rating_class), "score": f"{rating:g}"},
        marked_in=IN_TOKENS,
    )


def _is_clear(rating: float, label: str) -> bool:
    if label == "positive":
        return rating >= MIN_CLEAR_RATING
    return label == "negative" and rating <= 1 - MIN_CLEAR_RATING + 1e-9


def _rating(words: list[str], phrase: RatedPhrase, ratings: Mapping[str, float]) -> float:
    return ratings.get(" ".join(words[phrase.first : phrase.last]), CLASS_RATINGS[phrase.rating_class])


def tree(line: str, location: str) -> tuple[list[str], list[RatedPhrase]]:
    """Words and phrases of `(3 (2 It) (4 works))`; phrases in the order in which they close, the sentence last."""
    words: list[str] = []
    phrases: list[RatedPhrase] = []
    open_: list[tuple[int, int]] = []  # class and first word of each open phrase
    pieces = iter(_PIECE.findall(line))
    for piece in pieces:
        if phrases and not open_:
            raise DataError(f"{location}: something follows the tree")
        if piece == "(":
            rating = next(pieces, "")
            if rating not in ("0", "1", "2", "3", "4"):
                raise DataError(f"{location}: a phrase begins with its class, 0 to 4, not with {rating!r}")
            open_.append((int(rating), len(words)))
        elif piece == ")":
            rating_class, first = open_.pop() if open_ else (-1, 0)
            if first == len(words) or rating_class < 0:
                raise DataError(f"{location}: brackets do not match, or a phrase has no words")
            phrases.append(RatedPhrase(first, len(words), rating_class))
        elif open_:
            words.append(ESCAPED.get(piece) or piece.replace("\\/", "/").replace("\\*", "*"))
        else:
            raise DataError(f"{location} is not a tree: it begins with {piece!r}, not with a bracket")
    if open_ or not phrases:
        raise DataError(f"{location}: {len(open_)} brackets stay open")
    return words, phrases


def _ratings(root: Path) -> dict[str, float]:
    """Phrase -> rating in [0, 1]; empty where the treebank's tables do not exist."""
    dictionary, labels = find(root, "dictionary.txt"), find(root, "sentiment_labels.txt")
    if dictionary is None or labels is None:
        return {}
    values: dict[str, float] = {}
    for location, line in lines(labels):
        number, _, value = line.partition("|")
        if number.strip().isdecimal():  # the first line names the columns
            try:
                values[number.strip()] = float(value)
            except ValueError:
                raise DataError(f"{location}: {value!r} is not a number") from None
    ratings: dict[str, float] = {}
    for location, line in lines(dictionary):
        phrase, _, number = line.rpartition("|")
        if number.strip() not in values:
            raise DataError(f"{location}: phrase {number!r} has no rating in {labels}")
        ratings[phrase] = values[number.strip()]
    return ratings
