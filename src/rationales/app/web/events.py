"""What the events of several tabs share: who asks, which queue they wait in, and downloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio

from rationales.app.downloads import Download
from rationales.app.jobs import VisitorJobs
from rationales.app.views.messages import message
from rationales.app.web.widgets import plain_html, saved, saver
from rationales.errors import RationalesError

MODEL_QUEUE = "explanations"  # one at a time: each uses all cores
QUICK_QUEUE = "edits"
HIDDEN: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}  # events of the page alone
AT_ONCE: dict[str, Any] = {**HIDDEN, "queue": False}
ON, OFF = gradio.update(interactive=True), gradio.update(interactive=False)  # of a button
POLL = 0.15  # seconds between updates of a progress bar


def visitor_of(request: gradio.Request) -> str:
    """Who asks: the session of the browser, and the user where there are passwords."""
    return f"{request.username or ''}/{request.session_hash or ''}"


def cancel_button(jobs: VisitorJobs, stop: Any, outputs: Sequence[Any], work: Any) -> None:
    """Let the button `stop` end the event `work` and the job of the visitor.

    outputs: the message, the button that starts a job, `stop`. On a busy machine an update of the progress bar can be
    on its way while the job is cancelled, and arrive last, so that the outputs are set twice.
    """
    cancelled = (message("cancelled", "status"), ON, OFF)

    def cancel(request: gradio.Request) -> tuple[Any, ...]:
        jobs.cancel(visitor_of(request))
        return cancelled

    def confirm(request: gradio.Request) -> tuple[Any, ...]:
        return (gradio.skip(),) * len(cancelled) if jobs.is_running(visitor_of(request)) else cancelled

    stop.click(cancel, None, outputs, cancels=[work], **AT_ONCE).then(confirm, None, outputs, **AT_ONCE)


def download_buttons(download: Callable[[str, str], Download], kinds: Mapping[str, str]) -> None:
    """A row of buttons, one for each kind of file: kind -> title."""
    with gradio.Row(elem_classes="downloads"):
        plain_html("<span>Download</span>", elem_classes="try")
        buttons = {kind: gradio.Button(title, size="sm", min_width=80) for kind, title in kinds.items()}
    notice = plain_html("")
    file = saver()

    def save_as(kind: str) -> Callable[[gradio.Request], tuple[str, str]]:
        def save(request: gradio.Request) -> tuple[str, str]:
            try:
                return saved(download(visitor_of(request), kind)), ""
            except RationalesError as error:
                return "", message(str(error))

        return save

    for kind, button in buttons.items():
        button.click(save_as(kind), None, [file, notice], api_visibility="private", show_progress="minimal")
