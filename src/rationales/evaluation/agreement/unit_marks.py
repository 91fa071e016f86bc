"""Marks on the model's own units: which units people marked, and which units are compared.

A white-space token such as "boring," holds two units, and the mean of their scores says more about the comma than about
the word. On units a word has its own score. Punctuation that nobody marked is left out: it is neither right nor wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import regex

from rationales.data.example import IN_TOKENS
from rationales.evaluation.protocols import AS_MARKED, UNITS, Protocol
from rationales.models.text.units import trim
from rationales.rationale import Unit

# Symbols beyond ASCII (emoji, signs of currencies) are words of a kind; those of ASCII are written as punctuation.
_PUNCTUATION = regex.compile(r"[\p{P}\s$+<=>^`|~]+")


@dataclass(frozen=True, eq=False)
class UnitExtents:
    """Where the n units of an input lie; all arrays are (n,)."""

    text_index: np.ndarray  # 0 in the text, 1 in its pair
    start: np.ndarray  # the first visible character
    end: np.ndarray  # one past the last
    punctuation: np.ndarray  # bool: nothing but punctuation


def judged_on_units(protocol: Protocol, example: Any) -> bool:
    """Whether agreement on this example is measured on units, not on white-space tokens."""
    if protocol.agreement_on == AS_MARKED:
        return getattr(example, "marked_in", "") != IN_TOKENS
    return protocol.agreement_on == UNITS


def unit_extents(example: Any, units: Sequence[Unit]) -> UnitExtents:
    """Where these units lie in the example's text and pair."""
    texts = (example.text, example.pair or "")
    extents = [trim(texts[unit.text_index], unit.start, unit.end) for unit in units]
    pieces = [texts[unit.text_index][start:end] for unit, (start, end) in zip(units, extents, strict=True)]
    return UnitExtents(
        np.array([unit.text_index for unit in units], dtype=np.int64),
        np.array([start for start, _ in extents], dtype=np.int64),
        np.array([end for _, end in extents], dtype=np.int64),
        np.array([_PUNCTUATION.fullmatch(piece) is not None for piece in pieces], dtype=bool),
    )


def gold_units(example: Any, extents: UnitExtents) -> np.ndarray | None:
    """(n,) bool: the units that share a character with a mark; None if the example has no annotation."""
    spans, pair_spans = example.spans, getattr(example, "pair_spans", None)
    if spans is None and pair_spans is None:
        return None
    gold = np.zeros(len(extents.text_index), dtype=bool)
    for text_index, (text, marks) in enumerate(((example.text, spans), (example.pair or "", pair_spans))):
        marked = np.zeros(len(text), dtype=np.int64)
        for start, end in marks or ():
            marked[start:end] = 1
        before = np.concatenate([[0], np.cumsum(marked)])  # marked characters before each place
        in_text = extents.text_index == text_index
        gold[in_text] = before[extents.end[in_text]] > before[extents.start[in_text]]
    return gold


def compared_units(gold: np.ndarray | None, extents: UnitExtents) -> np.ndarray:
    """(n,) bool: all units but the punctuation that nobody marked; all where nothing else is there."""
    compared = ~extents.punctuation if gold is None else gold | ~extents.punctuation
    return compared if compared.any() else np.ones_like(compared)
