"""Signs of life on a terminal, and only there: a spinner, and a bar with the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

PATIENCE = 2.0  # seconds before a bar appears


@contextmanager
def waiting(message: str) -> Iterator[None]:
    """A sign of life on a terminal while something takes its time."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(message):
        yield


@contextmanager
def progress(message: str) -> Iterator[Callable[[float], None] | None]:
    """A bar with the time left, on a terminal, once the work has taken `PATIENCE` seconds."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(message, total=1.0)

    def report(done: float) -> None:
        bar.update(task, completed=done)
        if (bar.tasks[0].elapsed or 0.0) > PATIENCE and not bar.live.is_started:
            bar.start()

    try:
        yield report
    finally:
        bar.stop()
