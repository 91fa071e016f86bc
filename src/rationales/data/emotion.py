"""Emotion (Saravia and others 2018): short messages with one of six emotions, lines of `text;emotion`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rationales.data.archives import find
from rationales.data.example import Example
from rationales.data.tables import lines
from rationales.errors import DataError

EMOTIONS = ("sadness", "joy", "love", "anger", "fear", "surprise")


def messages(root: Path, split: str) -> Iterator[Example]:
    """The messages of `split`.txt; a first line that names the columns is passed over."""
    path = find(root, f"{split}.txt")
    if path is None:
        raise DataError(f"there is no {split}.txt in {root}; the messages are train.txt, val.txt and test.txt")
    number = 0
    for place, line in lines(path):
        text, separated, label = line.rpartition(";")
        if number == 0 and text == "text":
            continue
        if not separated or label.strip() not in EMOTIONS:
            raise DataError(f"{place} does not end in ';' and one of {', '.join(EMOTIONS)}")
        yield Example(f"{split}-{number}", text.strip(), label.strip())
        number += 1
