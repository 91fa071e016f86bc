"""Texts without some of their words, as the rows of tokens that a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rationales.models.text.model import TextModel
from rationales.models.text.tokens import EncodedText, TextInput, TokenRow
from rationales.rationale import Unit


@dataclass(frozen=True, eq=False)
class Rewrite:
    """A variant of an input: which of its units are kept, or that the input stays untouched."""

    input: EncodedText
    kept: np.ndarray  # (units,) bool
    untouched: bool


def token_rows(encoded: EncodedText, kept: np.ndarray, filler: int, bare: bool) -> tuple[TokenRow, ...]:
    """The rows with the tokens of all other units taken out: what follows moves up, nothing is tokenised anew.

    kept: (units,) bool. `bare`: special tokens are taken out as well. A row with no token left reads the one token
    `filler`, since no model reads nothing.
    """
    rows = []
    for row in encoded.rows:
        owner = np.asarray(row.owner)
        # the last entry is for special tokens, whose owner is -1
        token_kept_of_unit = np.append(kept[np.asarray(row.units, dtype=np.int64)], not bare)
        kept_tokens = np.flatnonzero(token_kept_of_unit[owner])
        ids = np.asarray(row.ids)[kept_tokens].tolist() or [filler]
        types = None if row.types is None else np.asarray(row.types)[kept_tokens].tolist() or [0]
        rows.append(_without_units(ids, types))
    return tuple(rows)


def plain_rows(model: TextModel, texts: Sequence[TextInput], bare: bool) -> list[tuple[TokenRow, ...]]:
    """The rows that the model reads for each text; texts are tokenised together, long ones cut into segments.

    An empty text has only its special tokens. `bare`: special tokens are taken out.
    """
    pairs = [source.pair or "" for source in texts] if texts and texts[0].pair is not None else None
    tokenized = model.tokenizer(
        *([source.text for source in texts], *([pairs] if pairs is not None else [])),
        return_special_tokens_mask=True,
        verbose=False,
    ) if texts else {"input_ids": []}  # fmt: skip
    rows_of_texts: list[tuple[TokenRow, ...]] = []
    for number, source in enumerate(texts):
        ids = tokenized["input_ids"][number]
        if len(ids) <= model.limit:
            types = tokenized["token_type_ids"][number] if "token_type_ids" in tokenized else None
            rows_of_texts.append((_strip(ids, types, tokenized["special_tokens_mask"][number], model.filler, bare),))
        else:
            rows = _segments(model, source)
            rows_of_texts.append(
                tuple(_strip(r.ids, r.types, [owner < 0 for owner in r.owner], model.filler, bare) for r in rows)
            )
    return rows_of_texts


def _segments(model: TextModel, source: TextInput) -> tuple[TokenRow, ...]:
    """A long text in segments; where one of two parts is empty, the other one alone."""
    if source.pair is not None and not (source.text.strip() and source.pair.strip()):
        source = TextInput(source.text if source.text.strip() else source.pair, None, source.name)
    return model.encode([source])[0].rows


def _strip(ids: list[int], types: Any, special: Sequence[Any], filler: int, bare: bool) -> TokenRow:
    if bare:
        kept_positions = [position for position, mark in enumerate(special) if not mark]
        ids = [ids[position] for position in kept_positions]
        types = None if types is None else [types[position] for position in kept_positions]
    return _without_units(list(ids) or [filler], (list(types) or [0]) if types is not None else None)


def _without_units(ids: list[int], types: list[int] | None) -> TokenRow:
    """A row whose tokens belong to no unit: all of them are read as they are."""
    return TokenRow(ids, types, [-1] * len(ids), [0], [1.0], [0.0])


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
