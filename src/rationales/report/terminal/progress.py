"""A spinner and a progress bar on stderr; both print nothing where stderr is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

BAR_DELAY = 2.0  # seconds before the bar appears


@contextmanager
def waiting(message: str) -> Iterator[None]:
    """Show a spinner with `message` inside the block."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(message):
        yield


@contextmanager
def progress(message: str) -> Iterator[Callable[[float], None] | None]:
    """Yield a function that takes the completed share and updates a bar, shown after `BAR_DELAY` seconds, or None."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(message, total=1.0)

    def report(done: float) -> None:
        bar.update(task, completed=done)
        if (bar.tasks[0].elapsed or 0.0) > BAR_DELAY and not bar.live.is_started:
            bar.start()

    try:
        yield report
    finally:
        bar.stop()
