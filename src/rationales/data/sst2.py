"""SST-2 as GLUE has it: phrases and sentences of film reviews, negative or positive, without highlights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rationales.data.archives import find
from rationales.data.example import Example
from rationales.data.tables import table
from rationales.errors import DataError

LABELS = {"0": "negative", "1": "positive"}


def sentences(root: Path, split: str) -> Iterator[Example]:
    """The lines of `split`.tsv; GLUE keeps the labels of its test split to itself (`label` is None)."""
    path = find(root, f"{split}.tsv")
    if path is None:
        raise DataError(f"there is no {split}.tsv in {root}; GLUE's SST-2 is train.tsv, dev.tsv and test.tsv")
    needed = ("sentence",) if split == "test" else ("sentence", "label")
    for number, (place, row) in enumerate(table(path, needed, delimiter="\t", quoted=False)):
        label = row.get("label")
        if label is not None and label not in LABELS:
            raise DataError(f"{place}: the label is {label!r}, not 0 or 1")
        yield Example(f"{split}-{number}", row["sentence"].strip(), None if label is None else LABELS[label])
