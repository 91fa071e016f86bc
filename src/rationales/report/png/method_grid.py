"""Many pictures and many methods on one sheet: a row for each picture, a column for each method."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from rationales.files import write_bytes, write_text
from rationales.rationale import Rationale
from rationales.report.canvas import canvas, data_uri, encoded, image_of, pillow
from rationales.report.html.document import footer, head
from rationales.report.html.marked_text import escape
from rationales.report.png.image import INK, MARGIN, PAPER, fitted

SIDE, GAP, TITLE = 160, 6, 24  # pixels of a panel's longer side, between panels, and of a line of text
PICTURE = "picture"
STYLE = (
    "body{font:15px/1.4 system-ui,sans-serif;margin:2rem;color:#1a202c}table{border-collapse:collapse}"
    "th,td{padding:.3rem;text-align:center;vertical-align:top}img{display:block;max-width:10rem}"
    "footer{margin-top:2rem;color:#4a5568;font-size:.85rem}"
)
Row = tuple[str, Mapping[str, Rationale]]  # name of a picture, and its rationale by the title of the method


def method_grid_png(rows: Sequence[Row], titles: Sequence[str], path: str | os.PathLike[str]) -> Path:
    """Write the sheet: the picture, then the scores of every method; a method without a result leaves a gap."""
    from PIL import ImageDraw, ImageFont

    panel = SIDE + GAP
    size = (2 * MARGIN + (1 + len(titles)) * panel, MARGIN + TITLE + len(rows) * (panel + TITLE))
    sheet = pillow().new("RGB", size, PAPER)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(12)
    for column, title in enumerate((PICTURE, *titles)):
        centre = MARGIN + column * panel + SIDE // 2
        pen.text((centre, MARGIN), fitted(title, font, SIDE), INK, font, anchor="mm")
    for number, (name, rationales) in enumerate(rows):
        top = MARGIN + TITLE + number * (panel + TITLE)
        first = next(iter(rationales.values()))
        label = fitted(f"{name}: {first.target}", font, size[0] - 2 * MARGIN)
        pen.text((MARGIN, top + SIDE + TITLE // 2), label, INK, font, anchor="lm")
        sheet.paste(image_of(canvas(first, SIDE, 1).original), (MARGIN, top))
        for column, title in enumerate(titles, start=1):
            if title in rationales:
                heat = image_of(canvas(rationales[title], SIDE, 1).heat(outline=True))
                sheet.paste(heat, (MARGIN + column * panel, top))
    return write_bytes(path, encoded(sheet, "PNG", optimize=True))


def method_grid_page(
    rows: Sequence[Row], titles: Sequence[str], path: str | os.PathLike[str], title: str = "Methods"
) -> Path:
    """Write the same as a page without scripts: the scores of every method, and under them its cut-out."""
    headings = "".join(f"<th scope=col>{escape(name)}</th>" for name in (PICTURE, *titles))
    lines = []
    for name, rationales in rows:
        first = next(iter(rationales.values()))
        picture = _image(canvas(first, SIDE, 1).original, name)
        cells = [f"<th scope=row>{picture}{escape(name)}: {escape(first.target)}</th>"]
        for method in titles:
            if method not in rationales:
                cells.append("<td>n/a</td>")
                continue
            panels = canvas(rationales[method], SIDE, 1)
            scores = _image(panels.heat(outline=True), f"{method}: scores")
            cells.append(f"<td>{scores}{_image(panels.cutout(), f'{method}: rationale')}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    table = f"<table><thead><tr>{headings}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    body = f"<body><main><h1>{escape(title)}</h1>{table}</main>{footer()}</body></html>"
    return write_text(path, f"{head(title, STYLE)}\n{body}\n")


def _image(pixels: np.ndarray, description: str) -> str:
    return f'<img src="{data_uri(pixels)}" alt="{escape(description)}">'
