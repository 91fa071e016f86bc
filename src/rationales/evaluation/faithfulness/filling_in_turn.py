"""Words filled in one after the other, each given the words filled in before it (Deletion-BERT, Pham et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Protocol

import numpy as np

from rationales.models.text.text_sources import rewrite
from rationales.models.text.tokens import EncodedText, TextInput
from rationales.rationale_parts import Unit


class FillsWords(Protocol):
    """What fills in words; `Filler` does."""

    def fill(self, inputs: Sequence[EncodedText], kept: Sequence[np.ndarray]) -> list[TextInput]:
        """Each text with the units that are not kept replaced; kept: (units,) bool for each text."""


def fill_in_turn(
    filler: FillsWords, inputs: Sequence[EncodedText], orders: Sequence[Sequence[int]]
) -> list[list[TextInput]]:
    """For each text its forms after 0, 1, 2, ... of the units in its order were replaced by the likeliest words.

    orders: numbers of units, the first to be replaced first. A replaced word stays as it is from then on. The k-th
    replacements of all texts are predicted together.
    """
    current = [_tidy(encoded) for encoded in inputs]
    forms = [[encoded.source] for encoded in current]
    for step in range(max((len(order) for order in orders), default=0)):
        active = [number for number, order in enumerate(orders) if step < len(order)]
        kept = [np.arange(len(current[number].units)) != orders[number][step] for number in active]
        filled = filler.fill([current[number] for number in active], kept)
        for number, source in zip(active, filled, strict=True):
            current[number] = _follow(current[number], orders[number][step], source)
            forms[number].append(source)
    return forms


def _tidy(encoded: EncodedText) -> EncodedText:
    """The text without white space at its ends, as rewritten texts are, and its units there."""
    source = rewrite(encoded, np.ones(len(encoded.units), dtype=bool))
    texts = (encoded.source.text, encoded.source.pair or "")
    first = [min((unit.start for unit in encoded.units if unit.text_index == index), default=0) for index in (0, 1)]
    units = []
    for unit in encoded.units:
        start, end = unit.start - first[unit.text_index], unit.end - first[unit.text_index]
        units.append(Unit(texts[unit.text_index][unit.start : unit.end], start, end, unit.text_index))
    return EncodedText(source, tuple(units), ())


def _follow(encoded: EncodedText, replaced: int, source: TextInput) -> EncodedText:
    """The same units in the new text: those before the replaced one stay, those after it move.

    A filler that reads words of another length may replace a neighbour too; such units then share the new stretch.
    """
    text_index = encoded.units[replaced].text_index
    before, after = (
        (form.text if text_index == 0 else form.pair or "") for form in (encoded.source, source)
    )  # the part that changed, in both forms
    start, end = encoded.units[replaced].start, encoded.units[replaced].end
    prefix = min(_shared_start(before, after), start)
    suffix = min(_shared_start(before[::-1], after[::-1]), len(before) - end, len(after) - prefix)
    shift = len(after) - len(before)

    def moved(unit: Unit) -> Unit:
        if unit.text_index != text_index or unit.end <= prefix:
            return unit
        if unit.start >= len(before) - suffix:
            return unit._replace(start=unit.start + shift, end=unit.end + shift)
        return Unit(after[prefix : len(after) - suffix], prefix, len(after) - suffix, text_index)

    return EncodedText(source, tuple(map(moved, encoded.units)), ())


def _shared_start(first: str, second: str) -> int:
    """Number of characters that both texts begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
