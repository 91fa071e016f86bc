"""Texts without some of their words, as the rows of tokens that a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rationales.models.text import TextModel
from rationales.models.tokens import Encoded, TextInput, TokenRow
from rationales.rationale import Unit


@dataclass(frozen=True, eq=False)
class Rewrite:
    """An input, which of its units are kept, and whether it is to stay as it is."""

    input: Encoded
    kept: np.ndarray  # (units,) bool
    whole: bool


def token_rows(one: Encoded, kept: np.ndarray, filler: int, bare: bool) -> tuple[TokenRow, ...]:
    """The rows with the tokens of all other units taken out: what follows moves up, nothing is tokenised anew.

    kept: (units,) bool. `bare`: special tokens are taken out as well. A row with no token left reads the one token
    `filler`, since no model reads nothing.
    """
    rows = []
    for row in one.rows:
        owner = np.asarray(row.owner)
        own = np.append(kept[np.asarray(row.units, dtype=np.int64)], not bare)  # the last for special tokens (-1)
        left = np.flatnonzero(own[owner])
        ids = np.asarray(row.ids)[left].tolist() or [filler]
        types = None if row.types is None else np.asarray(row.types)[left].tolist() or [0]
        rows.append(_unowned(ids, types))
    return tuple(rows)


def plain_rows(model: TextModel, texts: Sequence[TextInput], bare: bool) -> list[tuple[TokenRow, ...]]:
    """What the model reads of each text, many tokenised together; long ones are cut into segments as ever.

    An empty text is its special tokens alone. `bare`: special tokens are taken out.
    """
    pairs = [one.pair or "" for one in texts] if texts and texts[0].pair is not None else None
    told = model.tokenizer(
        *([one.text for one in texts], *([pairs] if pairs is not None else [])),
        return_special_tokens_mask=True,
        verbose=False,
    ) if texts else {"input_ids": []}  # fmt: skip
    found: list[tuple[TokenRow, ...]] = []
    for number, one in enumerate(texts):
        ids = told["input_ids"][number]
        if len(ids) <= model.limit:
            types = told["token_type_ids"][number] if "token_type_ids" in told else None
            found.append((_stripped(ids, types, told["special_tokens_mask"][number], model.filler, bare),))
        else:
            rows = _segments(model, one)
            found.append(
                tuple(_stripped(r.ids, r.types, [owner < 0 for owner in r.owner], model.filler, bare) for r in rows)
            )
    return found


def _segments(model: TextModel, one: TextInput) -> tuple[TokenRow, ...]:
    """A long text in segments; where one of two parts is empty, the other one alone."""
    if one.pair is not None and not (one.text.strip() and one.pair.strip()):
        one = TextInput(one.text if one.text.strip() else one.pair, None, one.name)
    return model.encode([one])[0].rows


def _stripped(ids: list[int], types: Any, special: Sequence[Any], filler: int, bare: bool) -> TokenRow:
    if bare:
        left = [place for place, mark in enumerate(special) if not mark]
        ids = [ids[place] for place in left]
        types = None if types is None else [types[place] for place in left]
    return _unowned(list(ids) or [filler], (list(types) or [0]) if types is not None else None)


def _unowned(ids: list[int], types: list[int] | None) -> TokenRow:
    """A row whose tokens belong to no unit: all of them are read as they are."""
    return TokenRow(ids, types, [-1] * len(ids), [0], [1.0], [0.0])


def rewritten(one: Encoded, kept: np.ndarray, instead: dict[int, str] | None = None) -> TextInput:
    """The text with its kept units alone, and `instead` of some others these words.

    Units that stood side by side stay as they were; where something between them is left out, one space joins them if
    there was any between.
    """
    words = instead or {}
    parts: list[str] = []
    for part in (0,) if one.source.pair is None else (0, 1):
        text = one.source.text if part == 0 else one.source.pair or ""
        places = [number for number, unit in enumerate(one.units) if unit.part == part]
        left = [number for number in places if kept[number] or number in words]
        parts.append(_joined(text, one.units, left, words))
    return TextInput(parts[0], parts[1] if len(parts) > 1 else None, one.source.name)


def _joined(text: str, units: Sequence[Unit], left: Sequence[int], words: dict[int, str]) -> str:
    if not left:
        return ""
    said = [words.get(number, units[number].text) for number in left]
    made = [said[0]]
    for (before, after), word in zip(pairwise(left), said[1:], strict=True):
        if after == before + 1:
            gap = text[units[before].end : units[after].start]
        else:
            apart = any(units[number].end < units[number + 1].start for number in range(before, after))
            gap = " " if apart else ""
        made += [gap, word]
    return "".join(made)
