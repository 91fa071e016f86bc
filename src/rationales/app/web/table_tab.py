"""The tab Table: a CSV file of texts, explained with one method, as one page with an index."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import gradio

from rationales.app.service import ExplainService
from rationales.app.views.messages import message, progress_bar, waiting
from rationales.app.views.result_page import frame, table_page
from rationales.app.web.events import (
    AT_ONCE,
    HIDDEN,
    MODEL_QUEUE,
    OFF,
    ON,
    POLL,
    cancel_button,
    download_buttons,
    visitor_of,
)
from rationales.app.web.widgets import plain_html, result_frame, upload_box
from rationales.errors import RationalesError

FILES = {"html": "Page (HTML)", "csv": "Table (CSV)", "jsonl": "Data (JSON lines)"}


def table_tab(service: ExplainService) -> None:
    """Build the tab; call inside a Blocks context."""
    titles = service.choices.titles_of("text")
    first, rows = service.choices.get(titles[0]), service.limits.table_rows
    with gradio.Row(equal_height=False):
        with gradio.Column(scale=3, min_width=320):
            table = upload_box("table", ".csv,text/csv", service.limits.table_bytes, "none", elem_id="table")
            plain_html(f'<p class="hint">A CSV file whose first row names its columns, at most {rows:,} rows.</p>')
        with gradio.Column(scale=2, min_width=300):
            model = gradio.Dropdown(titles, value=first.title, label="Model of texts")
            column = gradio.Textbox(label="Column of the texts", placeholder="text", max_lines=1, elem_id="column")
            method = gradio.Dropdown(first.methods, value=first.default_methods[0], label="Method")
            with gradio.Row():
                go = gradio.Button("Explain the table", variant="primary", elem_id="explain-table", min_width=120)
                stop = gradio.Button("Cancel", interactive=False, elem_id="cancel-table", min_width=100)
    progress = plain_html("", elem_id="table-progress")
    result = result_frame()
    with gradio.Column(visible=False, elem_id="after-table") as after:
        download_buttons(service.download_table, FILES)

    def choose(title: str) -> Any:
        served = service.choices.get(title)
        return gradio.update(choices=served.methods, value=served.default_methods[0])

    model.change(choose, model, method, **HIDDEN)
    started = go.click(lambda: (waiting(), ON), None, [progress, stop], **AT_ONCE)
    work = started.then(
        _explaining(service),
        [model, table, column, method],
        [progress, result, after, go, stop],
        concurrency_id=MODEL_QUEUE,
        concurrency_limit=1,
        **HIDDEN,
    )
    cancel_button(service.jobs, stop, [progress, go, stop], work)


def _explaining(service: ExplainService) -> Callable[..., AsyncIterator[tuple[Any, ...]]]:
    """The event of the button: a progress bar, then the page of all rows."""

    async def explain_rows(
        model: str, table: str, column: str, method: str, request: gradio.Request
    ) -> AsyncIterator[tuple[Any, ...]]:
        visitor, job = visitor_of(request), None
        try:
            texts = (str(model or ""), table or "", column or "", str(method or ""))
            job = await asyncio.to_thread(service.start_table, visitor, *texts)
            while not job.finished:
                yield progress_bar(job), gradio.skip(), gradio.update(visible=False), OFF, ON
                await asyncio.sleep(POLL)
            rationales = job.outcome()
            service.keep_table(visitor, rationales)
            content = await asyncio.to_thread(table_page, rationales, framed=True)
            yield "", frame(content, f"{len(rationales)} rationales"), gradio.update(visible=True), ON, OFF
        except RationalesError as error:
            kind = "status" if job is not None and job.cancelled else "error"
            yield message(str(error), kind), gradio.skip(), gradio.skip(), ON, OFF
        finally:
            if job is not None:
                service.jobs.end(visitor, job)

    return explain_rows
