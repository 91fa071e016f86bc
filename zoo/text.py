"""Reading and cleaning of the raw review and phrase files."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path

LABELS = ("negative", "positive")
NEUTRAL = 2  # target probability one half
UNKNOWN = -1  # only the teacher's opinion counts


@dataclass(frozen=True)
class Text:
    """One text and its label: 0 negative, 1 positive, NEUTRAL or UNKNOWN."""

    text: str
    label: int


def one_line(text: str) -> str:
    return " ".join(text.split())


def normalised_words(text: str) -> list[str]:
    """Lower-case alphanumeric words: the form in which overlap is judged."""
    return re.findall(r"[a-z0-9]+", text.lower())


def read_imdb(path: Path) -> list[Text]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = [(row["review"], row["sentiment"]) for row in csv.DictReader(file)]
    return [Text(one_line(re.sub(r"<br\s*/?>", " ", review)), LABELS.index(label)) for review, label in rows]


def read_eraser(folder: Path, split: str) -> list[Text]:
    """Whole reviews of one split; the benchmark stores one sentence a line, joined here by spaces."""
    texts = []
    for line in (folder / f"{split}.jsonl").read_text().splitlines():
        row = json.loads(line)
        document = (folder / "docs" / row["annotation_id"]).read_text()
        texts.append(Text(one_line(document), {"NEG": 0, "POS": 1}[row["classification"]]))
    return texts


def read_sst2(path: Path) -> list[Text]:
    rows = [line.rsplit("\t", 1) for line in path.read_text().splitlines()[1:]]
    return [Text(one_line(sentence), int(label)) for sentence, label in rows]


def read_tree_sentences(path: Path) -> list[str]:
    """Plain sentences of a bracketed sentiment-tree file."""
    return [" ".join(re.findall(r"\(\d ([^()]+)\)", line)) for line in path.read_text().splitlines()]


def as_written(text: str) -> str:
    """Undo the treebank's "does n't": people type "doesn't", which BERT splits into other words."""
    return re.sub(r"(\w) n't\b", r"\1n't", text)
