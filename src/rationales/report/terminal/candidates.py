"""A filler's candidates for each word in the terminal: a line for each word."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rationales.pipeline.word_candidates import CandidateList
from rationales.report.terminal.overview import PIPE_WIDTH
from rationales.report.terminal.show import safe
from rationales.report.wording import candidate_line, candidates_sentence, prediction_text


def show_candidates(candidates: CandidateList, console: Console | None = None) -> None:
    """Print the words with their candidates."""
    console = console or Console()
    console.print(Text(safe(candidates_sentence(candidates)), style="dim"), soft_wrap=not console.is_terminal)
    table = Table("", "without it", "candidates", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for word in candidates.words:
        cells = Text()
        for number, candidate in enumerate(word.candidates):
            style = "bold" if candidate.is_original else ""
            cells.append("  " if number else "").append(safe(candidate_line(candidate)), style=style)
        changed = word.without.label != candidates.predicted.label
        without = Text(safe(prediction_text(word.without)), style="bold" if changed else "")
        proposals = cells if word.candidates else Text("cannot be masked")
        table.add_row(Text(safe(word.unit.text.strip())), without, proposals)
    # a pipe has no width
    wide = console if console.is_terminal else Console(file=console.file, width=PIPE_WIDTH, color_system=None)
    wide.print(table)


def plain_candidates(candidates: CandidateList) -> str:
    """What `show_candidates` prints, as plain text."""
    output = io.StringIO()
    show_candidates(candidates, Console(file=output, width=PIPE_WIDTH, color_system=None))
    return output.getvalue().rstrip()
