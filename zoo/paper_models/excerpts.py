"""Excerpts of MultiRC's passages: the sentences that people marked, with a few of the others around them.

A passage has 350 tokens and only 56 passages can be trained on, so that a classifier does not learn to find the
evidence among them. It learns from the evidence alone, then from excerpts with more and more other sentences.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rationales.data import Example

OTHER_SENTENCES = (0, 0, 2, 4, 8, 8, 8)  # in the texts of each epoch, drawn anew for each


def excerpt_files() -> tuple[str, ...]:
    """Names of the training files, one for each of `OTHER_SENTENCES`."""
    return tuple(f"multirc-excerpts-{number}" for number in range(len(OTHER_SENTENCES)))


def excerpt(example: Example, count: int, rng: np.random.Generator) -> Example:
    """The example with the marked sentences and `count` others, drawn at random, as its text; each is a line."""
    lines = example.text.split("\n")
    begins = np.cumsum([0] + [len(line) + 1 for line in lines])
    marked = [
        any(begin < stop and start < begin + len(line) for start, stop in example.spans)
        for begin, line in zip(begins, lines, strict=False)
    ]
    others = rng.permutation([number for number, is_marked in enumerate(marked) if not is_marked])[:count]
    kept = [line for number, line in enumerate(lines) if marked[number] or number in others]
    return replace(example, text="\n".join(kept), spans=())
