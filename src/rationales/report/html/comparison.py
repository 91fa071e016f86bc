"""Several methods on one input as a page: one column for each method, below a table of metrics and agreement.

For an image the heat maps and cut-outs of all methods stand in one grid below the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rationales.rationale import Grid, Rationale
from rationales.report.canvas import canvas, data_uri
from rationales.report.comparison import comparison_table, legend
from rationales.report.html.marked_text import display_text, escape
from rationales.report.html.page import PageLayout, page
from rationales.report.html.probabilities import prediction

if TYPE_CHECKING:
    from typing_extensions import Unpack

GRID_SIDE = 320  # pixels of the longer side of an image in the grid


def comparison_page(rationales: Sequence[Rationale], titles: Sequence[str], **layout: Unpack[PageLayout]) -> str:
    """One page with a column for each method, each with its own threshold; `layout`: endings, style, script."""
    first = rationales[0]
    name = f"Why {first.question}? {len(titles)} methods"
    headings, rows = comparison_table(rationales, titles)
    lines = "".join(
        f'<tr><th scope="row">{display_text(title)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for title, *cells in rows
    )
    columns = "".join(f'<th scope="col">{escape(heading)}</th>' if heading else "<td></td>" for heading in headings)
    input_name = f", given {display_text(first.name)}" if first.name else ""
    predicted = f"{prediction(first)} by {display_text(first.model)}{input_name}"
    lead = (
        f'<header class="lead"><h1>Why <em>{display_text(first.question)}</em>?</h1>'
        f"<p>{predicted}. {escape(legend(first, titles[0]))}</p>"
        f'<div class="wide"><table><thead><tr>{columns}</tr></thead><tbody>{lines}</tbody></table></div>'
        f"{image_grid(rationales, titles) if isinstance(first.units, Grid) else ''}</header>"
    )
    return page(rationales, **{**layout, "titles": titles, "lead": lead, "name": name})


def image_grid(rationales: Sequence[Rationale], titles: Sequence[str]) -> str:
    """The image, and below each other the heat map and the cut-out of each method."""
    cells = [_figure("The image", [("the image", canvas(rationales[0], GRID_SIDE).original)])]
    for rationale, title in zip(rationales, titles, strict=True):
        pixels = canvas(rationale, GRID_SIDE)
        panels = [(f"{title}: scores", pixels.heat(outline=True)), (f"{title}: rationale", pixels.cutout())]
        cells.append(_figure(title, panels))
    return f'<div class="grid">{"".join(cells)}</div>'


def _figure(caption: str, panels: Sequence[tuple[str, np.ndarray]]) -> str:
    """`panels`: the description and the pixels of each image."""
    images = "".join(f'<img src="{data_uri(pixels)}" alt="{escape(text)}">' for text, pixels in panels)
    return f"<figure><figcaption>{display_text(caption)}</figcaption>{images}</figure>"
