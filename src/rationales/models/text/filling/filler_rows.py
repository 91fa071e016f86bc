"""Texts as a filler reads them: its own tokens and segments, each token assigned to a word of the explained text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.models.text.edits import TokenTable
from rationales.models.text.filling.whole_words import boundary
from rationales.models.text.text_sources import preceding
from rationales.models.text.tokens import EncodedText, encode, tokenize
from rationales.rationale_parts import Unit

OVERLAP_SHARE = 0.25  # of a segment: the words that neighbouring segments share, so that every word has context


@dataclass(frozen=True, eq=False)
class FillerRows:
    """F rows of a filler's tokens for B texts of up to n words."""

    table: TokenTable  # its units are the words of the texts
    input: Tensor  # (F,) the text of each row
    home: Tensor  # (B, n) the row in which a word has the most context; -1: the filler's tokenizer drops the word
    boundary: Tensor  # (B, n) what precedes a word: AT_START, SPACED or GLUED
    token: Tensor  # (B, n) the word's own token if it is a single one; else -1


def read_texts(encoded: Sequence[EncodedText], tokenizer: Any, limit: int, device: torch.device) -> FillerRows:
    """Rows of at most `limit` tokens; tokens are assigned to words by their characters.

    A text that the tokenizer drops completely has a row of special tokens alone, and none of its words can be masked.
    """
    sources = [text.source for text in encoded]
    readings = [
        encode(source, tokenizer, "token", limit, int(OVERLAP_SHARE * limit), tokenization, allow_empty=True)
        for source, tokenization in zip(sources, tokenize(sources, tokenizer), strict=True)
    ]
    token_rows = [(number, row) for number, reading in enumerate(readings) for row in reading.rows]
    width, size = max(len(text.units) for text in encoded), max(1, *(len(row.ids) for _, row in token_rows))
    padding = tokenizer.pad_token_id or 0
    ids, types = np.full((len(token_rows), size), padding), np.zeros((len(token_rows), size), dtype=np.int64)
    owner = np.full((len(token_rows), size), width)
    shape = (len(encoded), width)
    home, weight, single = np.full(shape, -1), np.zeros(shape), np.full(shape, -1)
    words = [_word_of_units(text.units, reading.units) for text, reading in zip(encoded, readings, strict=True)]
    for index, (number, row) in enumerate(token_rows):
        length = len(row.ids)
        ids[index, :length] = row.ids
        types[index, :length] = row.types or 0
        unit_words = words[number][np.asarray(row.units, dtype=np.int64)]
        owner[index, :length] = np.append(unit_words, width)[np.asarray(row.owner, dtype=np.int64)]
        row_weight = np.zeros(width)
        np.add.at(row_weight, unit_words, row.weight)
        better = row_weight > weight[number]
        home[number, better], weight[number, better] = index, row_weight[better]
        count = np.bincount(owner[index, :length], minlength=width + 1)[:width]
        first = np.full(width + 1, -1)
        first[owner[index, :length]] = ids[index, :length]
        single[number] = np.where(better, np.where(count == 1, first[:width], -1), single[number])
    single[single == (-1 if tokenizer.unk_token_id is None else tokenizer.unk_token_id)] = -1
    boundaries = np.zeros(shape, dtype=np.int64)
    for number, text in enumerate(encoded):
        boundaries[number, : len(text.units)] = [boundary(preceding(text, unit)) for unit in text.units]

    def tensor(values: Any) -> Tensor:
        return torch.as_tensor(np.asarray(values)).to(device)

    has_types = all(row.types is not None for _, row in token_rows)
    lengths = [len(row.ids) for _, row in token_rows]
    table = TokenTable(
        tensor(ids), tensor(types) if has_types else None, tensor(owner), tensor(lengths), width, limit, padding
    )
    return FillerRows(table, tensor([number for number, _ in token_rows]), *map(tensor, (home, boundaries, single)))


def _word_of_units(words: Sequence[Unit], tokens: Sequence[Unit]) -> np.ndarray:
    """(tokens,): the word that each token belongs to: the first that ends after the token's start."""
    word_index = np.zeros(len(tokens), dtype=np.int64)
    for text_index in (0, 1):
        numbers = np.array([number for number, word in enumerate(words) if word.text_index == text_index])
        positions = [position for position, token in enumerate(tokens) if token.text_index == text_index]
        if len(numbers) and positions:
            ends = np.array([words[number].end for number in numbers])
            after = np.searchsorted(ends, [tokens[position].start for position in positions], side="right")
            word_index[positions] = numbers[np.minimum(after, len(numbers) - 1)]
    return word_index
