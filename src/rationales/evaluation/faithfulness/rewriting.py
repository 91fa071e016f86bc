"""Texts without some of their words, as the rows of tokens that a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rationales.models.prompt.model import PromptModel
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import EncodedText, TextInput, TokenRow


@dataclass(frozen=True, eq=False)
class Rewrite:
    """A variant of an input: which of its units are kept, or that the input stays untouched."""

    input: EncodedText
    kept: np.ndarray  # (units,) bool
    untouched: bool
    order: tuple[int, ...] | None = None  # the removed units, best first; None where not the best ones are removed


def plain_rows(model: TextModel, texts: Sequence[TextInput], bare: bool) -> list[tuple[TokenRow, ...]]:
    """The rows that the model reads for each text; texts are tokenised together, long ones cut into segments.

    An empty text has only its special tokens. `bare`: special tokens are taken out; a prompt stays around its text.
    """
    if isinstance(model, PromptModel):
        return model.plain_rows(texts)
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
