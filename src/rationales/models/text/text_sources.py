"""The texts behind a batch, for methods that write other words into them, and texts with other words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from rationales.models.text.tokens import EncodedText, TextInput
from rationales.rationale_parts import Unit

AFTER_SPACE = "a "  # what a word is tokenised behind if white space precedes it in its text


@dataclass(frozen=True, eq=False)
class TextSources:
    """The texts that a batch was made from, and how its model tokenises them."""

    encoded: Sequence[EncodedText]  # per input
    tokenizer: Any
    limit: int  # tokens of a row
    padding: int  # token id
    _known: dict[tuple[str, str], list[int]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def contexts(self) -> tuple[list[str], list[np.ndarray]]:
        """What precedes words (see `preceding`), each once, and for every text the number of each unit's."""
        numbers: dict[str, int] = {}
        per_text = [
            np.array([numbers.setdefault(preceding(text, unit), len(numbers)) for unit in text.units], dtype=np.int64)
            for text in self.encoded
        ]
        return list(numbers), per_text

    def token_ids(self, words: Sequence[tuple[str, str]]) -> list[list[int]]:
        """Token ids of each (text before the word, word), as they are in a text; see `preceding`.

        A word never continues the one before it: after a letter, or where the tokenizer joins the two, its ids are
        those of the word alone. Each combination is tokenised once in the life of the batch, since the same words are
        proposed for many places.
        """
        new = [pair for pair in dict.fromkeys(words) if pair not in self._known]
        if new:
            self._known.update(zip(new, self._tokenized(new), strict=True))
        return [self._known[pair] for pair in words]

    def _tokenized(self, words: Sequence[tuple[str, str]]) -> list[list[int]]:
        befores = sorted({before for before, _ in words})
        joined, alone, before_ids = (
            self._tokenize(texts)
            for texts in ([before + word for before, word in words], [word for _, word in words], befores)
        )
        ids_before = dict(zip(befores, before_ids, strict=True))
        token_ids: list[list[int]] = []
        for (before, word), ids, word_ids in zip(words, joined, alone, strict=True):
            first = ids_before[before]
            separate = not (before[-1:].isalnum() and word[:1].isalnum()) and ids[: len(first)] == first
            token_ids.append(ids[len(first) :] if separate else word_ids)
        return token_ids

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        stripped = [text.rstrip() for text in texts]
        ids: list[list[int]] = self.tokenizer(stripped, add_special_tokens=False, verbose=False)["input_ids"]
        return ids if texts else []


def preceding(encoded: EncodedText, unit: Unit) -> str:
    """What decides how a word in the place of `unit` is tokenised: nothing, white space or a mark before it."""
    text = encoded.source.text if unit.text_index == 0 else encoded.source.pair or ""
    before = text[max(unit.start - 1, 0) : unit.start]
    if not text[: unit.start].strip():
        return ""
    return AFTER_SPACE if before.isspace() else before


def rewrite(encoded: EncodedText, kept: np.ndarray, replacements: dict[int, str] | None = None) -> TextInput:
    """The text of the kept units, with `replacements` for some of the units that are not kept.

    Units that stood side by side stay as they were; where something between them is left out, one space joins them if
    there was any between.
    """
    words = replacements or {}
    parts: list[str] = []
    for text_index in (0,) if encoded.source.pair is None else (0, 1):
        text = encoded.source.text if text_index == 0 else encoded.source.pair or ""
        positions = [number for number, unit in enumerate(encoded.units) if unit.text_index == text_index]
        kept_positions = [number for number in positions if kept[number] or number in words]
        parts.append(_join(text, encoded.units, kept_positions, words))
    return TextInput(parts[0], parts[1] if len(parts) > 1 else None, encoded.source.name)


def _join(text: str, units: Sequence[Unit], kept_positions: Sequence[int], words: dict[int, str]) -> str:
    if not kept_positions:
        return ""
    unit_texts = [words.get(number, units[number].text) for number in kept_positions]
    pieces = [unit_texts[0]]
    for (before, after), word in zip(pairwise(kept_positions), unit_texts[1:], strict=True):
        if after == before + 1:
            gap = text[units[before].end : units[after].start]
        else:
            apart = any(units[number].end < units[number + 1].start for number in range(before, after))
            gap = " " if apart else ""
        pieces += [gap, word]
    return "".join(pieces)
