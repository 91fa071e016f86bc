"""Several methods on one or several images as a PNG: a row for each image, a column for each method."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rationales.files import write_bytes
from rationales.rationale import Rationale
from rationales.report.canvas import canvas, encoded, image_of, pillow
from rationales.report.comparison import NOT_APPLICABLE, curve_areas
from rationales.report.png.image import COLUMN, GAP, INK, MARGIN, PAPER, SOFT, fitted
from rationales.report.wording import percent

if TYPE_CHECKING:
    from PIL import ImageDraw, ImageFont

SIDE = 320  # pixels of a panel's longer side
TITLE, CAPTION = 26, 22  # pixels of the line above the columns, and of the one below each panel


def picture_grid_png(
    rows: Sequence[Sequence[Rationale]],
    titles: Sequence[str],
    path: str | os.PathLike[str],
    *,
    cutouts: bool,
    gaps: Sequence[str] = (),
) -> Path:
    """Write a grid to `path`: each image, and its heat map by every method with the rationale outlined.

    `rows`: the rationales of each image, one for each method in `titles`. `cutouts`: also the cut-outs, in a second
    line of each row. `gaps`: titles of methods without rationales, which have a column of n/a.
    """
    from PIL import ImageDraw, ImageFont

    panels = [_panels(row, cutouts) for row in rows]  # image -> column -> the images below each other
    column = max(COLUMN, *(line.shape[1] for row in panels for cell in row for line in cell))
    heights = [max(sum(line.shape[0] + GAP for line in cell) for cell in row) + CAPTION for row in panels]
    columns = (*titles, *gaps)
    size = (2 * MARGIN + (1 + len(columns)) * (column + GAP) - GAP, MARGIN + TITLE + sum(heights) + MARGIN)
    sheet = pillow().new("RGB", size, PAPER)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(13)
    top = MARGIN
    for number, title in enumerate(columns, 1):
        _write(pen, title, (MARGIN + number * (column + GAP), top, column, TITLE), INK, font)
    top += TITLE
    for row, cells, height in zip(rows, panels, heights, strict=True):
        captions = [_name(row[0]), *map(_caption, row)]
        for number in range(1 + len(titles), 1 + len(columns)):
            box = (MARGIN + number * (column + GAP), top, column, height - CAPTION)
            _write(pen, NOT_APPLICABLE, box, SOFT, font)
        for number, (cell, caption) in enumerate(zip(cells, captions, strict=True)):
            left, below = MARGIN + number * (column + GAP), top
            for pixels in cell:
                sheet.paste(image_of(pixels), (left + (column - pixels.shape[1]) // 2, below))
                below += pixels.shape[0] + GAP
            _write(pen, caption, (left, below - GAP, column, CAPTION), SOFT, font)
        top += height
    return write_bytes(path, encoded(sheet, "PNG", optimize=True))


def _panels(row: Sequence[Rationale], cutouts: bool) -> list[list[np.ndarray]]:
    """The image, then the heat map and the cut-out of each method; each (h, w, 3) uint8."""
    canvases = [canvas(rationale, SIDE) for rationale in row]
    explained = [[drawing.heat(outline=True), *([drawing.cutout()] if cutouts else [])] for drawing in canvases]
    return [[canvases[0].original], *explained]


def _name(rationale: Rationale) -> str:
    """'cat.jpg: tabby 91.0 %'."""
    full = rationale.probabilities.get("full", {}).get(rationale.target)
    name = f"{Path(rationale.name).name}: " if rationale.name else ""
    return f"{name}{rationale.question}{'' if full is None else f' {percent(full)}'}"


def _caption(rationale: Rationale) -> str:
    """Sufficiency and comprehensiveness over all sizes, where they were measured; else of the rationale itself."""
    target, areas = rationale.target, curve_areas(rationale)
    if areas is not None:
        return f"suff. {areas[0]:.2f} · comp. {areas[1]:.2f}"
    alone, without = (rationale.probabilities[name][target] for name in ("rationale", "complement"))
    return f"alone {percent(alone)} · without {percent(without)}"


def _write(
    pen: ImageDraw.ImageDraw,
    text: str,
    box: tuple[int, int, int, int],
    colour: tuple[int, int, int],
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> None:
    """Write one line in the middle of `box`, (left, top, width, height)."""
    left, top, width, height = box
    pen.text((left + width // 2, top + height // 2), fitted(text, font, width), colour, font, anchor="mm")
