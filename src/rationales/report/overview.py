"""Many rationales in the terminal: one line for each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rationales.rationale import Frames, Grid, Rationale
from rationales.report.terminal import safe
from rationales.report.words import percent, predicted, selection, when

WIDEST = 60  # characters of what is selected
PIPE_WIDTH = 160  # characters of a line where nobody's terminal decides


def show_overview(rationales: Sequence[Rationale], console: Console | None = None) -> None:
    """Print name, target, its probability and what is selected, a line for each rationale."""
    console = console or Console()
    if not console.is_terminal:  # a pipe has no width of its own
        console = Console(file=console.file, width=PIPE_WIDTH, color_system=None)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for head, justify in (("", "right"), ("input", "left"), ("label", "left"), ("", "right"), ("because of", "left")):
        table.add_column(head, justify=justify, overflow="ellipsis", no_wrap=True)  # type: ignore[arg-type]  # literals
    for number, rationale in enumerate(rationales, 1):
        full = rationale.probabilities.get("full", {}).get(rationale.target)
        differs = predicted(rationale) not in (None, rationale.target)
        label = f"{rationale.target} (predicted: {predicted(rationale)})" if differs else rationale.target
        cells = (rationale.name or "", label, "" if full is None else percent(full), _reasons(rationale))
        table.add_row(str(number), *(Text(safe(cell)) for cell in cells))
    console.print(table)


def _reasons(rationale: Rationale) -> str:
    """The strongest spans of a text or a sound; how much of a picture is selected."""
    if isinstance(rationale.units, Grid):
        return selection(rationale)
    if isinstance(rationale.units, Frames):
        found = [(stretch.score, when(stretch)) for stretch in rationale.times()]
    else:
        found = [(span.score, " ".join(span.text.split())) for span in rationale.spans()]
    words = " · ".join(text for _, text in sorted(found, key=lambda entry: -entry[0])[:3])
    return words if len(words) <= WIDEST else words[: WIDEST - 1] + "…"
