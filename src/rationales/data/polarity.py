"""Sentence polarity (Pang and Lee 2005): 5,331 negative and 5,331 positive sentences from Rotten Tomatoes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from rationales.data.archives import find
from rationales.data.example import Example
from rationales.data.tables import lines
from rationales.errors import DataError

FILES = {"negative": "rt-polarity.neg", "positive": "rt-polarity.pos"}
ENCODING = "cp1252"  # what its dashes and ellipses are written in


def sentences(root: Path, _split: str) -> Iterator[Example]:
    """All sentences, negative and positive in turn: the set has no splits of its own."""
    rows = []
    for label, file in FILES.items():
        path = find(root, file)
        if path is None:
            raise DataError(f"there is no {file} in {root}; the sentences are {' and '.join(FILES.values())}")
        rows.append(
            [
                Example(f"{label}-{number}", line.strip(), label)
                for number, (_, line) in enumerate(lines(path, ENCODING))
            ]
        )
    for together in zip_longest(*rows):
        yield from (one for one in together if one is not None)
