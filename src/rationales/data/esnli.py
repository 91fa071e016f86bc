"""e-SNLI (Camburu and others 2018): pairs of sentences with the words that up to three annotators highlighted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rationales.data.archives import find
from rationales.data.example import IN_TOKENS, Example, Extent, extents_between_spaces, spans_of_words
from rationales.data.row_files import table
from rationales.errors import DataError

FILES = {"train": ("esnli_train_1.csv", "esnli_train_2.csv"), "dev": ("esnli_dev.csv",), "test": ("esnli_test.csv",)}
ANNOTATORS = 3
REQUIRED_COLUMNS = ("pairID", "gold_label", "Sentence1_Highlighted_1", "Sentence2_Highlighted_1")


def pairs(root: Path, split: str, agree: int) -> Iterator[Example]:
    """Premise and hypothesis (the pair); `spans` are the words that at least `agree` annotators marked.

    `annotator_spans` and `pair_annotator_spans` hold the marks of each annotator. The training split has one
    annotator, whose marks are then the spans.
    """
    for file in FILES[split]:
        path = find(root, file, f"{file}.gz")
        if path is None:
            raise DataError(f"there is no {file} (nor {file}.gz) in {root}")
        yield from (_example(location, row, agree) for location, row in table(path, REQUIRED_COLUMNS))


l2 = partial(pairs, agree=2)
l3 = partial(pairs, agree=3)


def _example(location: str, row: dict[str, str], agree: int) -> Example:
    texts = [_sentence(location, row, side) for side in (1, 2)]
    highlighted = [row.get(f"Sentence1_Highlighted_{number}") for number in range(1, ANNOTATORS + 1)]
    annotators = [number for number, cell in enumerate(highlighted, start=1) if cell not in (None, "")]
    min_votes = min(agree, len(annotators))
    marked = [[_marked(location, row, side, number) for number in annotators] for side in (1, 2)]  # by side
    agreed = [
        [word for word in set().union(*marks) if sum(word in indices for indices in marks) >= min_votes]
        for marks in marked
    ]
    words = [extents_between_spaces(text.split(" ")) for text in texts]  # as the annotation tool counted them
    by_annotator = [
        tuple(_spans(location, extents, indices) for indices in marks)
        for extents, marks in zip(words, marked, strict=True)
    ]
    return Example(
        name=row["pairID"],
        text=texts[0],
        label=row["gold_label"],
        spans=_spans(location, words[0], agreed[0]),
        pair=texts[1],
        pair_spans=_spans(location, words[1], agreed[1]),
        annotator_spans=by_annotator[0],
        pair_annotator_spans=by_annotator[1],
        marked_in=IN_TOKENS,
    )


def _sentence(location: str, row: dict[str, str], side: int) -> str:
    sentence = row.get(f"sentence{side}") or row.get(f"Sentence{side}")  # capitalised in the training files
    if sentence is None:
        raise DataError(f"{location}: there is no column sentence{side}")
    return sentence


def _marked(location: str, row: dict[str, str], side: int, annotator: int) -> set[int]:
    """The indices of the words that an annotator marked; "{}" stands for none."""
    cell = row.get(f"Sentence{side}_Highlighted_{annotator}", "{}").strip()
    if cell in ("{}", ""):
        return set()
    try:
        return {int(number) for number in cell.split(",")}
    except ValueError:
        raise DataError(f"{location}: {cell!r} is not a list of word numbers") from None


def _spans(location: str, words: list[Extent], marked: set[int] | list[int]) -> tuple[Extent, ...]:
    if any(not 0 <= number < len(words) for number in marked):
        raise DataError(f"{location}: word {max(marked)} is marked in a sentence of {len(words)} words")
    return spans_of_words(words, (number for number in marked if words[number][0] < words[number][1]))
