"""Several methods on one input as a page: one column for each method, below a table of metrics and agreement.

For an image the heat maps and cut-outs of all methods stand in one table below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rationales.rationale import Grid, Rationale
from rationales.report.comparison import comparison_table, gap_notes, legend
from rationales.report.html.document import scrollable
from rationales.report.html.marked_text import display_text, escape
from rationales.report.html.page import PageAdditions, page
from rationales.report.html.picture_grid import picture_table
from rationales.report.html.probabilities import prediction

if TYPE_CHECKING:
    from typing_extensions import Unpack


def comparison_page(
    rationales: Sequence[Rationale],
    titles: Sequence[str],
    not_applicable: Mapping[str, str] | None = None,
    **additions: Unpack[PageAdditions],
) -> str:
    """One page with a column for each method, each with its own threshold.

    `not_applicable`: title -> reason of methods without a rationale; `additions`: endings, style, script.
    """
    first, gaps = rationales[0], not_applicable or {}
    name = f"Why {first.question}? {len(titles)} methods"
    headings, rows = comparison_table(rationales, titles, gaps)
    lines = "".join(
        f'<tr><th scope="row">{display_text(title)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for title, *cells in rows
    )
    columns = "".join(f'<th scope="col">{escape(heading)}</th>' if heading else "<td></td>" for heading in headings)
    table = f"<table><thead><tr>{columns}</tr></thead><tbody>{lines}</tbody></table>"
    input_name = f", given {display_text(first.name)}" if first.name else ""
    predicted = f"{prediction(first)}{input_name}. Model: {display_text(first.model)}"
    lead = (
        f'<header class="lead"><h1>Why <em>{display_text(first.question)}</em>?</h1>'
        f"<p>{predicted}. {escape(legend(first, titles[0]))}</p>"
        f"{scrollable(table, 'Methods and metrics')}"
        f"{''.join(f'<p>{display_text(note)}</p>' for note in gap_notes(gaps))}"
        f"{picture_table([rationales], titles, tuple(gaps)) if isinstance(first.units, Grid) else ''}</header>"
    )
    return page(rationales, titles=titles, lead=lead, name=name, **additions)
