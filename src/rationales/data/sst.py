"""The Stanford Sentiment Treebank (Socher and others 2013): sentences as trees with a judgement on every phrase.

Phrases that say clearly what the sentence says are taken as human highlights, as in `Double Trouble` (Pham and others
2022, section 5.2): those judged >= 0.7 in a positive sentence, <= 0.3 in a negative one, and at most half as long as
the sentence. The trees hold five classes instead of judgements in [0, 1]; where the treebank's `dictionary.txt` and
`sentiment_labels.txt` lie beside them the judgements are read from there, otherwise a class counts as its middle
(0.1, 0.3, 0.5, 0.7, 0.9).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rationales.data.archives import find
from rationales.data.example import IN_TOKENS, Example, Extent, of_words
from rationales.data.tables import lines
from rationales.errors import DataError

CLEAR = 0.7  # and 1 - 0.7
MIDDLE = (0.1, 0.3, 0.5, 0.7, 0.9)
ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "\\/": "/", "\\*": "*"}
_PIECE = re.compile(r"[()]|[^\s()]+")


@dataclass(frozen=True)
class Phrase:
    """Words first..last-1 of a sentence and what people thought of them: 0 very negative … 4 very positive."""

    first: int
    last: int
    judged: int


def sentences(root: Path, split: str) -> Iterator[Example]:
    """Sentences labelled negative, neutral or positive; neutral ones have no highlights (`spans` is None)."""
    path = find(root, f"{split}.txt")
    if path is None:
        raise DataError(f"there is no {split}.txt in {root}; the trees are train.txt, dev.txt and test.txt")
    scores = _scores(root)
    for number, (place, line) in enumerate(lines(path)):
        words, phrases = tree(line, place)
        yield _example(f"{split}-{number}", words, phrases, scores)


def _example(name: str, words: list[str], phrases: list[Phrase], scores: Mapping[str, float]) -> Example:
    extents = _extents(words)
    whole = phrases[-1]  # the root closes last
    value = _value(words, whole, scores)
    label = "neutral" if whole.judged == 2 else ("negative", "positive")[whole.judged > 2]
    clear = [
        phrase
        for phrase in phrases
        if 2 * (phrase.last - phrase.first) <= len(words) and _clear(_value(words, phrase, scores), label)
    ]
    marked = (word for phrase in clear for word in range(phrase.first, phrase.last))
    return Example(
        name=name,
        text=" ".join(words),
        label=label,
        spans=None if label == "neutral" else of_words(extents, marked),
        meta={"class": str(whole.judged), "score": f"{value:g}"},
        marked_in=IN_TOKENS,
    )


def _clear(value: float, label: str) -> bool:
    return value >= CLEAR if label == "positive" else label == "negative" and value <= 1 - CLEAR + 1e-9


def _value(words: list[str], phrase: Phrase, scores: Mapping[str, float]) -> float:
    said = " ".join(words[phrase.first : phrase.last])
    return scores.get(said, MIDDLE[phrase.judged])


def tree(line: str, place: str) -> tuple[list[str], list[Phrase]]:
    """Words and phrases of `(3 (2 It) (4 works))`; phrases in the order in which they close, the whole one last."""
    words: list[str] = []
    phrases: list[Phrase] = []
    open_: list[tuple[int, int]] = []  # the judgement of a phrase and its first word
    pieces = iter(_PIECE.findall(line))
    for piece in pieces:
        if phrases and not open_:
            raise DataError(f"{place}: something follows the tree")
        if piece == "(":
            judged = next(pieces, "")
            if judged not in ("0", "1", "2", "3", "4"):
                raise DataError(f"{place}: a phrase begins with its class, 0 to 4, not with {judged!r}")
            open_.append((int(judged), len(words)))
        elif piece == ")":
            judged_as, first = open_.pop() if open_ else (-1, 0)
            if first == len(words) or judged_as < 0:
                raise DataError(f"{place}: brackets do not match, or a phrase has no words")
            phrases.append(Phrase(first, len(words), judged_as))
        elif open_:
            words.append(_plain(piece))
        else:
            raise DataError(f"{place} is not a tree: it begins with {piece!r}, not with a bracket")
    if open_ or not phrases:
        raise DataError(f"{place}: {len(open_)} brackets stay open")
    return words, phrases


def _plain(word: str) -> str:
    """A word without the treebank's escapes: brackets, slashes and stars as they were written."""
    return ESCAPED.get(word) or word.replace("\\/", "/").replace("\\*", "*")


def _extents(words: list[str]) -> list[Extent]:
    found: list[Extent] = []
    cursor = 0
    for word in words:
        found.append((cursor, cursor + len(word)))
        cursor += len(word) + 1
    return found


def _scores(root: Path) -> dict[str, float]:
    """Phrase -> judgement in [0, 1], where the treebank's own tables are there; else nothing."""
    dictionary, judgements = find(root, "dictionary.txt"), find(root, "sentiment_labels.txt")
    if dictionary is None or judgements is None:
        return {}
    values: dict[str, float] = {}
    for place, line in lines(judgements):
        number, _, value = line.partition("|")
        if number.strip().isdecimal():  # the first line names the columns
            try:
                values[number.strip()] = float(value)
            except ValueError:
                raise DataError(f"{place}: {value!r} is not a number") from None
    found: dict[str, float] = {}
    for place, line in lines(dictionary):
        phrase, _, number = line.rpartition("|")
        if number.strip() not in values:
            raise DataError(f"{place}: phrase {number!r} has no judgement in {judgements}")
        found[phrase] = values[number.strip()]
    return found
