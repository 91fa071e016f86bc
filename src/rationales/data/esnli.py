"""e-SNLI (Camburu and others 2018): pairs of sentences with the words that up to three people highlighted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rationales.data.archives import find
from rationales.data.example import IN_TOKENS, Example, Extent, of_words
from rationales.data.tables import table
from rationales.errors import DataError

FILES = {"train": ("esnli_train_1.csv", "esnli_train_2.csv"), "dev": ("esnli_dev.csv",), "test": ("esnli_test.csv",)}
ANNOTATORS = 3
NEEDED = ("pairID", "gold_label", "Sentence1_Highlighted_1", "Sentence2_Highlighted_1")


def pairs(root: Path, split: str, agree: int) -> Iterator[Example]:
    """Premise and hypothesis (the pair); `spans` are the words that at least `agree` people marked.

    `others` and `pair_others` hold each person's own marks. The training split was marked by one person alone, whose
    marks are then the spans.
    """
    for file in FILES[split]:
        path = find(root, file, f"{file}.gz")
        if path is None:
            raise DataError(f"there is no {file} (nor {file}.gz) in {root}")
        for place, row in table(path, NEEDED):
            yield _example(place, row, agree)


l2 = partial(pairs, agree=2)
l3 = partial(pairs, agree=3)


def _example(place: str, row: dict[str, str], agree: int) -> Example:
    texts = [_sentence(place, row, side) for side in (1, 2)]
    people = [who for who in range(1, ANNOTATORS + 1) if row.get(f"Sentence1_Highlighted_{who}") not in (None, "")]
    needed = min(agree, len(people))
    marked = [[_marked(place, row, side, who) for who in people] for side in (1, 2)]  # side -> person -> words
    agreed = [[word for word in set().union(*sets) if sum(word in one for one in sets) >= needed] for sets in marked]
    words = [_places(text) for text in texts]
    own = [tuple(_spans(place, extents, one) for one in sets) for extents, sets in zip(words, marked, strict=True)]
    return Example(
        name=row["pairID"],
        text=texts[0],
        label=row["gold_label"],
        spans=_spans(place, words[0], agreed[0]),
        pair=texts[1],
        pair_spans=_spans(place, words[1], agreed[1]),
        others=own[0],
        pair_others=own[1],
        marked_in=IN_TOKENS,
    )


def _sentence(place: str, row: dict[str, str], side: int) -> str:
    found = row.get(f"sentence{side}") or row.get(f"Sentence{side}")  # the training files write it with a capital
    if found is None:
        raise DataError(f"{place}: there is no column sentence{side}")
    return found


def _places(text: str) -> list[Extent]:
    """The words as the annotators' page counted them: pieces between single spaces, empty ones included."""
    found: list[Extent] = []
    cursor = 0
    for piece in text.split(" "):
        found.append((cursor, cursor + len(piece)))
        cursor += len(piece) + 1
    return found


def _marked(place: str, row: dict[str, str], side: int, who: int) -> set[int]:
    """The numbers of the words that a person marked; "{}" stands for none."""
    told = row.get(f"Sentence{side}_Highlighted_{who}", "{}").strip()
    if told in ("{}", ""):
        return set()
    try:
        return {int(number) for number in told.split(",")}
    except ValueError:
        raise DataError(f"{place}: {told!r} is not a list of word numbers") from None


def _spans(place: str, words: list[Extent], marked: set[int] | list[int]) -> tuple[Extent, ...]:
    if any(not 0 <= number < len(words) for number in marked):
        raise DataError(f"{place}: word {max(marked)} is marked in a sentence of {len(words)} words")
    return of_words(words, (number for number in marked if words[number][0] < words[number][1]))
