"""The words of a text as part of a PNG: lines of words over the colours of their scores, selected ones underlined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rationales.rationale import Rationale
from rationales.report.canvas import ramp
from rationales.report.scale import scale_of

if TYPE_CHECKING:
    from PIL import ImageDraw

LINE, SIZE, SPACE, PAD = 28, 16, 6, 3  # pixels: height of a line, size of the letters, between words, around a word
MAX_LINES = 12  # of a longer text the first lines
INK, PAPER = (29, 33, 38), 255


@dataclass(frozen=True)
class PlacedWord:
    """A word with its place on the sheet and its colours."""

    text: str
    left: float
    width: float
    line: int
    colour: tuple[int, int, int]
    selected: bool


def placed_words(rationale: Rationale, width: float) -> list[PlacedWord]:
    """The words of a text in lines of `width` pixels."""
    from PIL import ImageFont

    font = ImageFont.load_default(SIZE)
    strengths = scale_of(rationale).strength(rationale.scores)
    placed: list[PlacedWord] = []
    left, line = 0.0, 0
    for unit, strength, selected in zip(rationale.words, strengths, rationale.selected().tolist(), strict=True):
        length = font.getlength(unit.text) + 2 * PAD
        if left and left + length > width:
            left, line = 0.0, line + 1
        if line == MAX_LINES:
            break
        red, green, blue, alpha = ramp(strength).tolist()
        mixed = [round(alpha * channel + (1 - alpha) * PAPER) for channel in (red, green, blue)]
        placed.append(PlacedWord(unit.text, left, length, line, (mixed[0], mixed[1], mixed[2]), selected))
        left += length + SPACE
    return placed


def draw_words(pen: ImageDraw.ImageDraw, words: Sequence[PlacedWord], left: int, top: int) -> None:
    """Draw the words from (left, top) on."""
    from PIL import ImageFont

    font = ImageFont.load_default(SIZE)
    for word in words:
        x, y = left + word.left, top + word.line * LINE
        pen.rectangle((x, y, x + word.width, y + LINE - 6), fill=word.colour)
        dark = sum(word.colour) < 3 * 110
        pen.text((x + PAD, y + (LINE - 6) / 2), word.text, (255, 255, 255) if dark else INK, font, anchor="lm")
        if word.selected:
            pen.line((x, y + LINE - 4, x + word.width, y + LINE - 4), fill=INK, width=2)
