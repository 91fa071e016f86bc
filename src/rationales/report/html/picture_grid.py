"""Several methods on one or several images as a table of images: a row for each image, a column for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rationales.rationale import Rationale
from rationales.report.canvas import canvas, data_uri
from rationales.report.comparison import NOT_APPLICABLE, comparison_table, gap_notes
from rationales.report.html.document import asset, footer, head, scrollable
from rationales.report.html.marked_text import display_text, escape
from rationales.report.html.probabilities import prediction
from rationales.report.wording import count

GRID_SIDE = 320  # pixels of the longer side of an image in the grid
LEAD = (
    "Above, the scores over the image with the rationale outlined; below, the rationale alone. Sufficiency and "
    "comprehensiveness: what the probability loses given the rationale alone, and without it, mean over selections of "
    "all sizes."
)


def picture_grid_page(
    rows: Sequence[Sequence[Rationale]], titles: Sequence[str], not_applicable: Mapping[str, str] | None = None
) -> str:
    """A self-contained page; `rows`: the rationales of each image, one for each method in `titles`.

    `not_applicable`: title -> reason of methods without rationales, which have an empty column at the end.
    """
    gaps = not_applicable or {}
    lead = "".join(f"<p>{display_text(text)}</p>" for text in (LEAD, *gap_notes(gaps)))
    style = "".join(map(asset, ("article.css", "page.css", "side_by_side.css")))
    name = f"{count(len(rows), 'image')}, {count(len(titles), 'method')}"
    return "\n".join(
        (
            head(name, style),
            '<body class="rationales">',
            f'<main class="lead"><h1>{escape(name)}</h1>{lead}{picture_table(rows, titles, tuple(gaps))}</main>',
            footer(),
            "</body>",
            "</html>",
            "",
        )
    )


def picture_table(rows: Sequence[Sequence[Rationale]], titles: Sequence[str], gaps: Sequence[str] = ()) -> str:
    """The table; each cell has the heat map, the cut-out and, where there are several images, the figures.

    `gaps`: titles of methods without rationales, which have a column of n/a.
    """
    header = "".join(f'<th scope="col">{display_text(title)}</th>' for title in ("The image", *titles, *gaps))
    empty_cells = f"<td>{NOT_APPLICABLE}</td>" * len(gaps)
    body = "".join(f"<tr>{_cells(row, titles, figures=len(rows) > 1)}{empty_cells}</tr>" for row in rows)
    table = f'<table class="pictures"><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>'
    return scrollable(table, "Images and their rationales by every method")


def _cells(rationales: Sequence[Rationale], titles: Sequence[str], figures: bool) -> str:
    first = rationales[0]
    captions = _figures(rationales, titles) if figures else [""] * len(titles)
    name = f"<b>{display_text(first.name)}</b><br>" if first.name else ""
    image = _image(data_uri(canvas(first, GRID_SIDE).original), "the image")
    cells = [f'<th scope="row">{image}{f"<p>{name}{prediction(first)}</p>" if figures else ""}</th>']
    for rationale, title, caption in zip(rationales, titles, captions, strict=True):
        drawing = canvas(rationale, GRID_SIDE)
        heat = _image(data_uri(drawing.heat(outline=True)), f"{title}: scores")
        cutout = _image(data_uri(drawing.cutout()), f"{title}: rationale")
        cells.append(f"<td>{heat}{cutout}{caption}</td>")
    return "".join(cells)


def _figures(rationales: Sequence[Rationale], titles: Sequence[str]) -> list[str]:
    """The figures of the comparison below the images, as 'name value' lines."""
    headings, rows = comparison_table(rationales, titles)
    return [
        "<p>" + "<br>".join(f"{escape(heading)} <b>{escape(cell)}</b>" for heading, cell in pairs if cell) + "</p>"
        for pairs in (list(zip(headings, row, strict=True))[1:] for row in rows)
    ]


def _image(source: str, description: str) -> str:
    return f'<img src="{source}" alt="{escape(description)}">'
