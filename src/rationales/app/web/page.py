"""The page: heading, tabs, and the endpoints of the HTTP API."""

from __future__ import annotations

from typing import Any

import gradio

from rationales.app.api import api_functions
from rationales.app.service import ExplainService
from rationales.app.views.messages import footing, heading
from rationales.app.web.events import MODEL_QUEUE, QUICK_QUEUE, visitor_of
from rationales.app.web.explain_tab import explain_tab
from rationales.app.web.table_tab import table_tab


def build_page(service: ExplainService) -> gradio.Blocks:
    """The page of a service, with its queue."""
    with gradio.Blocks(analytics_enabled=False, title="rationales", fill_width=False) as opened:
        blocks: gradio.Blocks = opened
        gradio.HTML(heading(), apply_default_css=False)
        with gradio.Tabs():
            with gradio.Tab("Explain"):
                explain_tab(service)
            if service.choices.titles_of("text"):
                with gradio.Tab("Table"):
                    table_tab(service)
        gradio.HTML(footing(service.limits), apply_default_css=False)
        functions = api_functions(service, lambda text: gradio.Error(text, print_exception=False))
        untyped: Any = gradio
        for name, function in functions.items():
            queue, limit = (QUICK_QUEUE, 4) if name == "probabilities" else (MODEL_QUEUE, 1)
            untyped.api(function, api_name=name, concurrency_id=queue, concurrency_limit=limit)

        def leave(request: gradio.Request) -> None:
            service.forget(visitor_of(request))

        blocks.unload(leave)
    blocks.queue(max_size=service.limits.queue, default_concurrency_limit=4)
    return blocks
