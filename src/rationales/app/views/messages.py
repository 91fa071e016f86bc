"""The progress bar, errors and the heading of the web page."""

from __future__ import annotations

from rationales.app.jobs import Job
from rationales.app.limits import Limits
from rationales.report.html.marked_text import display_text, escape
from rationales.version import __version__

MEGABYTE = 1_000_000


def heading() -> str:
    """The title of the page."""
    return (
        '<header class="masthead"><h1>rationales</h1><p>Why did the model decide so? Choose a model, give it something '
        "to read, and see the few words, regions or moments that made it decide.</p></header>"
    )


def progress_bar(job: Job, noun: str = "explaining") -> str:
    """The share that is done, and how long it will take."""
    percents = round(100 * job.share)
    left = job.seconds_left
    time_left = f" · about {left:.0f} s left" if left is not None and left >= 1 else ""
    work = f"{noun} with {job.message}" if job.message else noun
    return (
        f'<div class="progress"><p>{display_text(work)} · {percents} %{escape(time_left)}</p>'
        '<div role="progressbar" aria-label="Progress" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{percents}">'
        f'<svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" '
        f'height="4"/><rect class="done" width="{100 * job.share:.1f}" height="4"/></svg></div></div>'
    )


def waiting(text: str = "waiting for a free place") -> str:
    """Before the work begins."""
    return f'<div class="progress"><p>{escape(text)} …</p></div>'


def message(text: str, kind: str = "error") -> str:
    """A message to the visitor: an error, or that the work was stopped."""
    role = "alert" if kind == "error" else "status"
    return f'<p class="message {escape(kind)}" role="{role}">{display_text(text)}</p>'


def footing(limits: Limits) -> str:
    """What this server takes, and where things are kept."""
    return (
        f'<p class="footing">rationales {escape(__version__)}. Texts up to {limits.characters:,} characters, '
        f"images and sounds up to {limits.upload_bytes / MEGABYTE:g} MB, tables up to {limits.table_rows:,} rows, "
        f"{limits.seconds:g} s for a request. What you send is kept in memory for your session only.</p>"
    )
