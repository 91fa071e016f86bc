"""Many rationales in the terminal, one line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rationales.rationale import Frames, Grid, Rationale, TextAndImage
from rationales.report.terminal.show import safe
from rationales.report.wording import percent, predicted_label, selection_size, time_range

MAX_REASON_WIDTH = 60  # characters of the selected spans
PIPE_WIDTH = 160  # characters of a line where the output is not a terminal


def show_overview(rationales: Sequence[Rationale], console: Console | None = None) -> None:
    """Print one line per rationale: name, target, the probability of the target, and what is selected."""
    console = console or Console()
    if not console.is_terminal:  # a pipe has no width of its own
        console = Console(file=console.file, width=PIPE_WIDTH, color_system=None)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for head, justify in (("", "right"), ("input", "left"), ("label", "left"), ("", "right"), ("because of", "left")):
        table.add_column(head, justify=justify, overflow="ellipsis", no_wrap=True)  # type: ignore[arg-type]  # literals
    for number, rationale in enumerate(rationales, 1):
        full = rationale.probabilities.get("full", {}).get(rationale.target)
        differs = predicted_label(rationale) not in (None, rationale.target)
        label = f"{rationale.target} (predicted: {predicted_label(rationale)})" if differs else rationale.target
        cells = (rationale.name or "", label, "" if full is None else percent(full), _reasons(rationale))
        table.add_row(str(number), *(Text(safe(cell)) for cell in cells))
    console.print(table)


def _reasons(rationale: Rationale) -> str:
    """The strongest spans of a text or a sound; how much of an image is selected."""
    if isinstance(rationale.units, Grid):
        return selection_size(rationale)
    if isinstance(rationale.units, TextAndImage):
        return f"{_reasons(rationale.text_part)} · {_reasons(rationale.image_part)}".removeprefix(" · ")
    if isinstance(rationale.units, Frames):
        spans = [(stretch.score, time_range(stretch)) for stretch in rationale.times()]
    else:
        spans = [(span.score, " ".join(span.text.split())) for span in rationale.spans()]
    words = " · ".join(text for _, text in sorted(spans, key=lambda span: -span[0])[:3])
    return words if len(words) <= MAX_REASON_WIDTH else words[: MAX_REASON_WIDTH - 1] + "…"
