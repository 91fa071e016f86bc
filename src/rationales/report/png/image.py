"""The rationale of an image as a PNG: the original, a heat map over it, and the cut-out, side by side."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rationales.files import write_bytes
from rationales.rationale import Rationale, TextAndImage
from rationales.report.canvas import canvas, captions, encoded, image_of, pillow
from rationales.report.png.words import LINE, draw_words, placed_words
from rationales.report.wording import percent, probability_rows

if TYPE_CHECKING:
    from PIL import ImageDraw, ImageFont

MARGIN, GAP, HEAD, FOOT = 16, 16, 48, 26  # pixels around and between the panels, for the heading and the captions
NOTE = 20  # pixels of a line with a warning
COLUMN = 180  # minimal width of a panel's column in pixels, so that its caption is legible
INK, SOFT, PAPER, WARNING = (29, 33, 38), (100, 106, 115), (255, 255, 255), (154, 88, 0)


def png(rationale: Rationale) -> bytes:
    """Three panels with captions under a heading with the target and its probabilities, as the bytes of a PNG.

    The words of a text that belongs to the image are below the panels, each over the colour of its score.
    """
    both = isinstance(rationale.units, TextAndImage)
    picture = rationale.image_part if both else rationale
    panel_data = canvas(picture)
    height, width = panel_data.selected.shape
    column = max(width, COLUMN)
    warnings = [note.message for note in rationale.notes if note.level == "warning"]
    sheet_width = 2 * MARGIN + 3 * column + 2 * GAP
    placed = placed_words(rationale.text_part, sheet_width - 2 * MARGIN) if both else []
    words_height = (placed[-1].line + 1) * LINE + GAP if placed else 0
    size = (sheet_width, HEAD + height + FOOT + words_height + MARGIN + NOTE * len(warnings))
    sheet = pillow().new("RGB", size, PAPER)
    from PIL import ImageDraw, ImageFont

    pen = ImageDraw.Draw(sheet)
    small, available = ImageFont.load_default(13), size[0] - 2 * MARGIN
    draw_heading(pen, rationale, available)
    panels = (panel_data.original, panel_data.heat(), panel_data.cutout())
    for number, (panel, caption) in enumerate(zip(panels, captions(picture), strict=True)):
        left = MARGIN + number * (column + GAP)
        sheet.paste(image_of(panel), (left + (column - width) // 2, HEAD))
        text = fitted(caption, small, column)
        pen.text((left + column // 2, HEAD + height + FOOT // 2), text, SOFT, small, anchor="mm")
    draw_words(pen, placed, MARGIN, HEAD + height + FOOT)
    for number, warning in enumerate(warnings):
        top = HEAD + height + FOOT + words_height + NOTE * number + NOTE // 2
        pen.text((MARGIN, top), fitted(f"note: {warning}", small, available), WARNING, small, anchor="lm")
    return encoded(sheet, "PNG", optimize=True)


def to_png(rationale: Rationale, path: str | os.PathLike[str]) -> Path:
    """Write `png` to `path` atomically."""
    return write_bytes(path, png(rationale))


def draw_heading(pen: ImageDraw.ImageDraw, rationale: Rationale, width: float) -> None:
    """Write the target and its probabilities into the first `HEAD` rows."""
    from PIL import ImageFont

    large, small = ImageFont.load_default(17), ImageFont.load_default(13)
    title = fitted(rationale.question, large, width)
    pen.text((MARGIN, HEAD // 2), title, INK, large, anchor="lm")
    used = large.getlength(title) + 18
    probabilities = fitted(_target_probabilities(rationale), small, width - used)
    pen.text((MARGIN + used, HEAD // 2 + 1), probabilities, SOFT, small, anchor="lm")


def _target_probabilities(rationale: Rationale) -> str:
    """'Full image 91.0 % · Rationale alone 88.0 % · Complement 3.0 %'."""
    target, rows = rationale.target, probability_rows(rationale)[:3]
    return " · ".join(f"{name} {percent(by_label[target])}" for _, name, _, by_label in rows if target in by_label)


def fitted(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: float) -> str:
    """`text` on one line, cut to `width` pixels."""
    line = " ".join(text.split())[:400]
    if font.getlength(line) <= width:
        return line
    while line and font.getlength(line + "…") > width:
        line = line[:-1]
    return line.rstrip() + "…" if line else ""
