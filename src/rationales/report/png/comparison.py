"""Several methods on one image as a PNG: the image, and a column for each method with its heat map and cut-out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rationales.files import write_bytes
from rationales.rationale import Rationale
from rationales.report.canvas import canvas, encoded, image_of, pillow
from rationales.report.comparison import curve_areas
from rationales.report.png.image import COLUMN, GAP, HEAD, INK, MARGIN, PAPER, SOFT, draw_heading, fitted
from rationales.report.wording import percent

SIDE = 320  # pixels of a panel's longer side
TITLE, CAPTION = 26, 22  # pixels of the line above a column, and of the one below


def comparison_png(rationales: Sequence[Rationale], titles: Sequence[str], path: str | os.PathLike[str]) -> Path:
    """Write the panels of all methods to `path`."""
    canvases = [canvas(rationale, SIDE) for rationale in rationales]
    height, width = canvases[0].selected.shape
    column = max(width, COLUMN)
    size = (
        2 * MARGIN + (1 + len(canvases)) * column + len(canvases) * GAP,
        HEAD + TITLE + 2 * height + GAP + CAPTION + MARGIN,
    )
    sheet = pillow().new("RGB", size, PAPER)
    from PIL import ImageDraw, ImageFont

    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(13)
    draw_heading(pen, rationales[0], size[0] - 2 * MARGIN)
    inset, top = (column - width) // 2, HEAD + TITLE
    sheet.paste(image_of(canvases[0].original), (MARGIN + inset, top))
    for number, (panels, rationale, title) in enumerate(zip(canvases, rationales, titles, strict=True), 1):
        left = MARGIN + number * (column + GAP)
        pen.text((left + column // 2, HEAD + TITLE // 2), fitted(title, font, column), INK, font, anchor="mm")
        sheet.paste(image_of(panels.heat(outline=True)), (left + inset, top))
        sheet.paste(image_of(panels.cutout()), (left + inset, top + height + GAP))
        caption = fitted(_caption(rationale), font, column)
        pen.text((left + column // 2, top + 2 * height + GAP + CAPTION // 2), caption, SOFT, font, anchor="mm")
    return write_bytes(path, encoded(sheet, "PNG", optimize=True))


def _caption(rationale: Rationale) -> str:
    """What the model says of the cut-out alone, and of everything else."""
    target, areas = rationale.target, curve_areas(rationale)
    if areas is not None:
        return f"suff. {areas[0]:.2f} · comp. {areas[1]:.2f}"
    alone, without = (rationale.probabilities[name][target] for name in ("rationale", "complement"))
    return f"alone {percent(alone)} · without {percent(without)}"
