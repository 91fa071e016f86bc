"""The rationale of a text and an image as two: that of the words and that of the pixels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rationales.errors import OptionError
from rationales.rationale_parts import TextAndImage

if TYPE_CHECKING:
    from rationales.rationale import Rationale, Rule


def select_parts(rule: Rule, scores: np.ndarray, words: int) -> np.ndarray:
    """(n,) booleans: what a rule selects of `words` words and the pixels after them.

    A threshold holds for both, unless the pixels have one of their own; a share is taken of each.
    """
    if rule.top is not None:
        raise OptionError("top counts units, and words and pixels cannot be counted together; give share or threshold")
    return np.concatenate([rule.select(scores[:words]), rule.for_pixels().select(scores[words:])])


def text_half(rationale: Rationale) -> Rationale:
    """The rationale of the words alone: text, words, their scores and which are selected."""
    units = both_parts(rationale)
    words = slice(0, len(units.words))
    selection = rationale.selected()[words]
    return replace(
        rationale,
        units=units.words,
        scores=rationale.scores[words],
        selection=selection,
        image=None,
        unit="word",
        curve=None,
    )


def image_half(rationale: Rationale) -> Rationale:
    """The rationale of the pixels alone: image, grid, their scores and which are selected."""
    units = both_parts(rationale)
    pixels = slice(len(units.words), None)
    selection = rationale.selected()[pixels]
    return replace(
        rationale,
        text="",
        units=units.grid,
        scores=rationale.scores[pixels],
        selection=selection,
        rule=rationale.rule.for_pixels(),
        unit="pixel",
        curve=None,
    )


def both_parts(rationale: Rationale) -> TextAndImage:
    """The units of a text and an image; an OptionError for any other input."""
    if not isinstance(rationale.units, TextAndImage):
        raise OptionError("only the rationale of a text and an image has two parts")
    return rationale.units
