"""Data sets of labelled texts without highlights: SST-2, Emotion, sentence polarity."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from rationales.data.archives import find_required
from rationales.data.example import Example
from rationales.data.row_files import lines, table
from rationales.errors import DataError

SST2_LABELS = {"0": "negative", "1": "positive"}
EMOTIONS = ("sadness", "joy", "love", "anger", "fear", "surprise")
POLARITY_FILES = {"negative": "rt-polarity.neg", "positive": "rt-polarity.pos"}
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


def read_polarity(root: Path, _split: str) -> Iterator[Example]:
    """Sentence polarity (Pang and Lee 2005): 5,331 negative and 5,331 positive sentences in turn; it has no splits."""
    by_label = []
    for label, file in POLARITY_FILES.items():
        path = find_required(root, file, f"the sentences are {' and '.join(POLARITY_FILES.values())}")
        sentences = enumerate(line.strip() for _, line in lines(path, POLARITY_ENCODING))
        by_label.append([Example(f"{label}-{number}", sentence, label) for number, sentence in sentences])
    for pair in zip_longest(*by_label):
        yield from (example for example in pair if example is not None)
