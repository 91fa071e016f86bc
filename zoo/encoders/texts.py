"""The texts that travel to the training machine: one compressed file of labelled texts in named sets."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.paper_models.storage import TokenRows, token_rows

TEXT_FILE = "texts.jsonl.xz"
SENTENCE_WORDS = (4, 40)  # of a sentence that is cut out of a review
MAX_TOKENS = 512


@dataclass(frozen=True)
class LabelledText:
    """A text with its class number; `shared`: it repeats a passage of a test sentence of another data set."""

    text: str
    label: int
    shared: bool = False


TextSets = dict[str, list[LabelledText]]


def save_texts(sets: Mapping[str, Sequence[LabelledText]], folder: Path) -> int:
    """Write all sets to one file; returns its bytes."""
    rows = [[name, item.text, item.label, int(item.shared)] for name, items in sets.items() for item in items]
    content = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    path = folder / TEXT_FILE
    path.write_bytes(lzma.compress(content.encode("utf-8"), preset=9))
    return path.stat().st_size


def load_texts(folder: Path, limit: int | None = None) -> TextSets:
    """The sets that `save_texts` wrote; `limit`: the first texts of each, for a dry run."""
    sets: TextSets = {}
    for line in lzma.decompress((folder / TEXT_FILE).read_bytes()).decode("utf-8").split("\n"):
        name, text, label, shared = json.loads(line)
        items = sets.setdefault(name, [])
        if limit is None or len(items) < limit:
            items.append(LabelledText(text, label, bool(shared)))
    return sets


def review_sentences(reviews: Sequence[LabelledText], count: int, rng: np.random.Generator) -> list[str]:
    """At most `count` sentences of the reviews, in random order."""
    pieces = [piece for item in reviews for piece in re.split(r"(?<=[.!?])\s+", item.text)]
    shortest, longest = SENTENCE_WORDS
    sentences = sorted({piece for piece in pieces if shortest <= len(piece.split()) <= longest})
    return [sentences[i] for i in rng.permutation(len(sentences))[:count]]


def encode_texts(tokenizer: Any, texts: Sequence[str], labels: Sequence[int] | None = None) -> TokenRows:
    """Rows of token ids, special tokens among them, cut to MAX_TOKENS."""
    rows = tokenizer(list(texts), truncation=True, max_length=MAX_TOKENS, verbose=False)["input_ids"]
    return token_rows(rows, label=labels)
