"""Tables of methods and metrics as a page of their own: no script, everything escaped, nothing fetched."""

from __future__ import annotations

from collections.abc import Mapping

from rationales.evaluation.tables.table import Table
from rationales.evaluation.tables.table_html import to_html
from rationales.report.html.document import asset, footer, head, scrollable
from rationales.report.html.marked_text import escape


def table_page(
    tables: Mapping[str, Table], title: str = "Evaluation", references: Mapping[str, str | None] | None = None
) -> str:
    """One page with a section for each table, by its name.

    `references`: for a table the row that the others are tested against; cells that differ from it carry a star.
    """
    tested_against = references or {}
    style = "".join(map(asset, ("article.css", "page.css", "tables.css")))
    sections = "".join(
        f"<section><h2>{escape(name)}</h2>{scrollable(to_html(table, tested_against.get(name)), name)}</section>"
        for name, table in tables.items()
    )
    body = f'<body class="rationales tables"><main><h1>{escape(title)}</h1>{sections}</main>{footer()}</body></html>'
    return f"{head(title, style)}\n{body}\n"
