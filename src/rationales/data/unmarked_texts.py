"""Data sets of labelled texts without highlights: SST-2, Emotion, sentence polarity, IMDB."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from rationales.data.archives import find, find_required
from rationales.data.example import Example
from rationales.data.row_files import lines, table
from rationales.errors import DataError

SST2_LABELS = {"0": "negative", "1": "positive"}
EMOTIONS = ("sadness", "joy", "love", "anger", "fear", "surprise")
POLARITY_FILES = {"negative": "rt-polarity.neg", "positive": "rt-polarity.pos"}
IMDB_FILES = ("a1_IMDB_Dataset.csv", "IMDB Dataset.csv", "imdb.csv", "imdb.csv.gz")
IMDB_SPLITS = {8: "val", 9: "test"}  # by the last digit of a row's number; every other row is for training
_LINE_BREAK = re.compile(r"<br\s*/?>")
POLARITY_ENCODING = "cp1252"  # of its dashes and ellipses


def read_sst2(root: Path, split: str) -> Iterator[Example]:
    """SST-2 as in GLUE: the lines of `split`.tsv; the test split has no labels (`label` is None)."""
    path = find_required(root, f"{split}.tsv", "GLUE's SST-2 is train.tsv, dev.tsv and test.tsv")
    needed = ("sentence",) if split == "test" else ("sentence", "label")
    for number, (location, row) in enumerate(table(path, needed, delimiter="\t", quoted=False)):
        label = row.get("label")
        if label is not None and label not in SST2_LABELS:
            raise DataError(f"{location}: the label is {label!r}, not 0 or 1")
        yield Example(f"{split}-{number}", row["sentence"].strip(), None if label is None else SST2_LABELS[label])


def read_emotion(root: Path, split: str) -> Iterator[Example]:
    """Emotion (Saravia and others 2018): short messages, lines of `text;emotion` in `split`.txt, header optional."""
    path = find_required(root, f"{split}.txt", "the messages are train.txt, val.txt and test.txt")
    number = 0
    for location, line in lines(path):
        text, separator, label = line.rpartition(";")
        if number == 0 and text == "text":
            continue
        if not separator or label.strip() not in EMOTIONS:
            raise DataError(f"{location} does not end in ';' and one of {', '.join(EMOTIONS)}")
        yield Example(f"{split}-{number}", text.strip(), label.strip())
        number += 1


def read_polarity(root: Path, split: str) -> Iterator[Example]:
    """Sentence polarity (Pang and Lee 2005): 5,331 negative and 5,331 positive sentences in turn.

    The files have no splits; `train`, `val` and `test` are the first 80 %, the next 10 % and the last 10 % of each
    file, the division under the name Rotten Tomatoes.
    """
    by_label = []
    for label, file in POLARITY_FILES.items():
        path = find_required(root, file, f"the sentences are {' and '.join(POLARITY_FILES.values())}")
        sentences = enumerate(line.strip() for _, line in lines(path, POLARITY_ENCODING))
        examples = [Example(f"{label}-{number}", sentence, label) for number, sentence in sentences]
        by_label.append(_polarity_split(examples, split))
    for pair in zip_longest(*by_label):
        yield from (example for example in pair if example is not None)


def _polarity_split(examples: list[Example], split: str) -> list[Example]:
    tenth = len(examples) // 10
    train_end, val_end = len(examples) - 2 * tenth, len(examples) - tenth
    bounds = {"all": (0, None), "train": (0, train_end), "val": (train_end, val_end), "test": (val_end, None)}
    return examples[slice(*bounds[split])]


def read_imdb(root: Path, split: str) -> Iterator[Example]:
    """IMDB's 50,000 labelled reviews (Maas and others 2011) as one table of `review` and `sentiment`.

    The table does not say which reviews its authors tested on. Here, of every ten rows eight are `train`, one is `val`
    and one `test`; a review that repeats an earlier one is left out. Line-break tags become spaces.
    """
    path = find(root, *IMDB_FILES)
    if path is None:
        raise DataError(f"there is no {IMDB_FILES[0]} in {root}; the reviews are one table with review and sentiment")
    known: set[int] = set()
    for number, (location, row) in enumerate(table(path, ("review", "sentiment"))):
        if row["sentiment"] not in POLARITY_FILES:
            raise DataError(f"{location}: the sentiment is {row['sentiment']!r}, not negative or positive")
        text = " ".join(_LINE_BREAK.sub(" ", row["review"]).split())
        repeated = hash(text) in known
        known.add(hash(text))
        if not repeated and split in ("all", IMDB_SPLITS.get(number % 10, "train")):
            yield Example(f"review-{number}", text, row["sentiment"])
