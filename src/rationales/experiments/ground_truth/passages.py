"""Texts in place of BeerAdvocate's, which cannot be had: passages of film reviews, or sentences about films."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rationales.data import read
from rationales.data.example import Example, words_of
from rationales.errors import OptionError
from rationales.evaluation.sampling import evenly
from rationales.groundtruth import DataSplit, split

MOVIES, SENTENCES = "movies", "sentences"
DATA = {MOVIES: "eraser-movies", SENTENCES: "rotten-tomatoes"}
WORDS = 100  # of a passage, marks included; a review of beer has about 130
LEAST = 20  # words that the last passage of a review must have
MOST = (5000, 500, 500)  # passages for training, stopping and testing
SAID = {
    MOVIES: "BeerAdvocate cannot be had; the texts are passages of {words} words, marks included, cut from the movie "
    "reviews of ERASER: {train} to train on, {val} to stop by, {test} to test on, each from reviews of its own.",
    SENTENCES: "BeerAdvocate cannot be had; the texts are the sentences of rotten-tomatoes: {train} to train on, {val} "
    "to stop by, {test} to test on.",
}


@functools.cache
def texts(name: str, folder: Path | None) -> DataSplit:
    """Texts of this kind in three parts."""
    if name == SENTENCES:
        made = split(read(DATA[SENTENCES], None, folder), shares=(0.8, 0.1, 0.1))
        found = [made.train, made.val, made.test]
    elif name == MOVIES:
        found = [passages(read(DATA[MOVIES], part, folder)) for part in ("train", "val", "test")]
    else:
        raise OptionError(f"texts are {' or '.join(DATA)}, not {name!r}")
    return DataSplit(*(evenly(part, most) for part, most in zip(found, MOST, strict=True)))


def passages(examples: Sequence[Example], words: int = WORDS) -> list[Example]:
    """Every text cut into pieces of so many words; what people marked is left out, and each piece has the label."""
    made = []
    for one in examples:
        extents = words_of(one.text)
        for number, begin in enumerate(range(0, len(extents), words)):
            own = extents[begin : begin + words]
            if len(own) >= min(LEAST, words) or not number:
                piece = one.text[own[0][0] : own[-1][1]]
                made.append(replace(one, name=f"{one.name} {number + 1}", text=piece, spans=None, others=()))
    return made


def said(name: str, given: DataSplit) -> str:
    """What must be said of the texts."""
    counts = {part: f"{len(getattr(given, part)):,}" for part in ("train", "val", "test")}
    return SAID[name].format(words=WORDS, **counts)
