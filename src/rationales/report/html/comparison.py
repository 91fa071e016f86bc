"""Several methods on one input as a page: one column for each method, below a table of how far they agree."""

from __future__ import annotations

from collections.abc import Sequence

from rationales.rationale import Rationale
from rationales.report.comparison import HEADINGS, legend, summarize
from rationales.report.html.marked_text import display_text, escape
from rationales.report.html.page import page
from rationales.report.wording import prediction_sentence


def comparison_page(rationales: Sequence[Rationale], titles: Sequence[str]) -> str:
    """One page with a column for each method, each with its own threshold."""
    first = rationales[0]
    name = f"Why {first.question}? {len(titles)} methods"
    rows = "".join(
        f'<tr><th scope="row">{display_text(summary.title)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in summary.cells()[1:])
        + "</tr>"
        for summary in summarize(rationales, titles)
    )
    headings = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in HEADINGS)
    input_name = f", given {display_text(first.name)}" if first.name else ""
    prediction = f"{display_text(prediction_sentence(first))} by {display_text(first.model)}{input_name}"
    lead = (
        f'<header class="lead"><h1>Why <em>{display_text(first.question)}</em>?</h1>'
        f"<p>{prediction}. {escape(legend(first, titles[0]))}</p>"
        f"<table><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table></header>"
    )
    return page(rationales, titles=titles, lead=lead, name=name)
