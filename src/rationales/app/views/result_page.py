"""The page of one explanation, shown in a frame without rights to the page around it; also what is downloaded."""

from __future__ import annotations

from collections.abc import Sequence

from rationales.app.views.assets import app_asset
from rationales.app.views.curve_chart import curve_chart, time_note
from rationales.rationale import Rationale
from rationales.report.html.comparison import comparison_page
from rationales.report.html.marked_text import escape
from rationales.report.html.page import page


def result_page(rationales: Sequence[Rationale], *, framed: bool = False) -> str:
    """One rationale, or several side by side, each with its curve; `framed`: it tells its height to the page around."""
    endings = [curve_chart(rationale) + time_note(rationale) for rationale in rationales]
    style, script = app_asset("curve.css"), ""
    if framed:
        style, script = style + app_asset("frame.css"), app_asset("frame.js")
    if len(rationales) == 1:
        return page(rationales, endings=endings, style=style, script=script)
    titles = [rationale.method for rationale in rationales]
    return comparison_page(rationales, titles, endings=endings, style=style, script=script)


def table_page(rationales: Sequence[Rationale], *, framed: bool = False) -> str:
    """The rationales of a table, one below the other, with an index."""
    style, script = (app_asset("frame.css"), app_asset("frame.js")) if framed else ("", "")
    return page(rationales, style=style, script=script)


def frame(content: str, title: str) -> str:
    """An element that shows the page `content`: its script runs, but can reach neither this page nor the server."""
    return (
        f'<iframe class="result" title="{escape(title)}" sandbox="allow-scripts" referrerpolicy="no-referrer" '
        f'srcdoc="{escape(content)}"></iframe>'
    )
