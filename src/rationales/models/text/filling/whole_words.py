"""Which tokens of a masked language model are whole words, and how these are spelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.models.text.text_sources import AFTER_SPACE

SPACE_MARKS = ("Ġ", "▁")  # with which byte-level and sentencepiece tokens say that a space precedes them
CONTINUATION = "##"  # with which WordPiece tokens continue a word
AT_START, SPACED, GLUED = range(3)  # what precedes a word in its text: nothing, white space, a mark


@dataclass(frozen=True, eq=False)
class FillerVocabulary:
    """The V tokens that a filler can propose."""

    words: list[str]  # their spelling, without the space before
    allowed: Tensor  # (3, V) bool: tokens that are a whole word at the start of a text, after a space, after a mark

    def to(self, device: torch.device, size: int) -> Tensor:
        """(3, size): `allowed` for this many logits; a model may have more than its tokenizer has tokens."""
        padded = torch.zeros(3, size, dtype=torch.bool)
        count = min(size, self.allowed.shape[1])
        padded[:, :count] = self.allowed[:, :count]
        return padded.to(device)


def read_vocabulary(tokenizer: Any) -> FillerVocabulary:
    """The tokenizer's whole words: no special token, no continuation of a word, no part of a character.

    Where tokens carry a mark for the space before them, those with the mark stand after a space and those without it
    after a mark of punctuation.
    """
    size = len(tokenizer)
    pieces = [str(piece) for piece in tokenizer.convert_ids_to_tokens(list(range(size)))]
    decoded = tokenizer.batch_decode([[token] for token in range(size)], clean_up_tokenization_spaces=False)
    words = [word.strip() for word in decoded]
    special = set(tokenizer.all_special_ids)
    usable = np.array(
        [
            token not in special and _is_word(word) and not piece.startswith(CONTINUATION)
            for token, (word, piece) in enumerate(zip(words, pieces, strict=True))
        ]
    )
    marked = np.array([piece.startswith(SPACE_MARKS) for piece in pieces])
    if not marked.any():
        return FillerVocabulary(words, torch.from_numpy(np.stack([usable] * 3)))
    first = tokenizer("a", add_special_tokens=False)["input_ids"][:1]
    at_start = marked if first and marked[first[0]] else ~marked
    return FillerVocabulary(words, torch.from_numpy(np.stack([usable & at_start, usable & marked, usable & ~marked])))


def _is_word(word: str) -> bool:
    return bool(word) and "\ufffd" not in word and not any(map(str.isspace, word))


def boundary(before: str) -> int:
    """`AT_START`, `SPACED` or `GLUED`, from what precedes a word (see `preceding`)."""
    if not before:
        return AT_START
    return SPACED if before == AFTER_SPACE else GLUED
