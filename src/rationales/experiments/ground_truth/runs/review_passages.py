"""Texts that replace the paper's BeerAdvocate reviews: passages of film reviews, or sentences about films."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rationales.data import read_data
from rationales.data.example import Example, words_of
from rationales.errors import OptionError
from rationales.evaluation.sampling import evenly
from rationales.groundtruth import DataSplit, split

MOVIES, SENTENCES = "movies", "sentences"
DATA = {MOVIES: "eraser-movies", SENTENCES: "rotten-tomatoes"}
PASSAGE_WORDS = 100  # words of a passage, punctuation marks included; a beer review has about 130
MIN_WORDS = 20  # a shorter last passage of a review is dropped
MAX_TEXTS = (5000, 500, 500)  # texts for training, validation and test
DESCRIPTIONS = {
    MOVIES: "BeerAdvocate cannot be had; the texts are passages of {words} words, marks included, cut from the movie "
    "reviews of ERASER: {train} to train on, {val} to stop by, {test} to test on, each from different reviews.",
    SENTENCES: "BeerAdvocate cannot be had; the texts are the sentences of rotten-tomatoes: {train} to train on, {val} "
    "to stop by, {test} to test on.",
}


@functools.cache
def read_texts(name: str, folder: Path | None) -> DataSplit:
    """Texts for training, validation and test."""
    if name == SENTENCES:
        sentences = split(read_data(DATA[SENTENCES], None, folder), shares=(0.8, 0.1, 0.1))
        splits = [sentences.train, sentences.val, sentences.test]
    elif name == MOVIES:
        splits = [cut_passages(read_data(DATA[MOVIES], split_name, folder)) for split_name in ("train", "val", "test")]
    else:
        raise OptionError(f"texts are {' or '.join(DATA)}, not {name!r}")
    return DataSplit(*(evenly(examples, limit) for examples, limit in zip(splits, MAX_TEXTS, strict=True)))


def cut_passages(examples: Sequence[Example], words: int = PASSAGE_WORDS) -> list[Example]:
    """Cut every text into passages of `words` words with the label of the text; human rationales are dropped."""
    passages = []
    for example in examples:
        extents = words_of(example.text)
        for number, begin in enumerate(range(0, len(extents), words)):
            passage = extents[begin : begin + words]
            if len(passage) >= min(MIN_WORDS, words) or not number:
                text = example.text[passage[0][0] : passage[-1][1]]
                name = f"{example.name} {number + 1}"
                passages.append(replace(example, name=name, text=text, spans=None, annotator_spans=()))
    return passages


def describe_texts(name: str, texts: DataSplit) -> str:
    """Sentence for the report: which texts were used, and how many."""
    counts = {split_name: f"{len(getattr(texts, split_name)):,}" for split_name in ("train", "val", "test")}
    return DESCRIPTIONS[name].format(words=PASSAGE_WORDS, **counts)
