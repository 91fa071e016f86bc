"""Tables of methods and metrics as a page of their own: no script, everything escaped, nothing fetched."""

from __future__ import annotations

from collections.abc import Mapping

from rationales.evaluation.tables.table import Table
from rationales.evaluation.tables.table_html import to_html
from rationales.report.html.document import footer, head
from rationales.report.html.marked_text import escape

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1a202c}"
    "table{border-collapse:collapse;margin:1rem 0}th,td{padding:.35rem .7rem;border-bottom:1px solid #e2e8f0;"
    "text-align:right;vertical-align:top}th[scope=row],thead th:first-child{text-align:left}"
    "small{color:#4a5568}footer{margin-top:3rem;color:#4a5568;font-size:.85rem}"
)


def table_page(tables: Mapping[str, Table], title: str = "Evaluation") -> str:
    """One page with a section for each table, by its name."""
    sections = "".join(
        f"<section><h2>{escape(name)}</h2><div>{to_html(table)}</div></section>" for name, table in tables.items()
    )
    body = f"<body><main><h1>{escape(title)}</h1>{sections}</main>{footer()}</body></html>"
    return f"{head(title, STYLE)}\n{body}\n"
