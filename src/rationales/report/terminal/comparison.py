"""Several methods on one input in the terminal: side by side where there is room, and how far they agree."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from rationales.rationale import Rationale
from rationales.report.comparison import comparison_table, gap_notes, legend
from rationales.report.terminal.overview import PIPE_WIDTH
from rationales.report.terminal.show import body, safe
from rationales.report.wording import prediction_sentence

MIN_COLUMN_WIDTH = 34  # characters; narrower columns are put below each other


def show_comparison(
    rationales: Sequence[Rationale],
    titles: Sequence[str],
    console: Console | None = None,
    not_applicable: Mapping[str, str] | None = None,
) -> None:
    """Print the rationales in columns where the terminal is wide enough, else below each other.

    `not_applicable`: title -> reason of methods without a rationale, which have a row of n/a in the table.
    """
    gaps = not_applicable or {}
    console = console or Console()
    colours = console.is_terminal and console.color_system is not None and not console.no_color
    first = rationales[0]
    prediction = f"  {safe(prediction_sentence(first))}. Model: {safe(first.model)}"
    console.print(Text.assemble((safe(first.question), "bold"), (prediction, "dim")), soft_wrap=True)
    console.print()
    bodies = [body(rationale, colours=colours) for rationale in rationales]
    if console.is_terminal and console.width >= MIN_COLUMN_WIDTH * len(bodies):
        grid = Table.grid(padding=(0, 3), expand=True)
        for _ in bodies:
            grid.add_column(ratio=1, overflow="fold")
        grid.add_row(*(Group(Rule(Text(safe(title), style="bold"), align="left"), Text()) for title in titles))
        grid.add_row(*bodies)
        console.print(grid)
    else:
        for title, content in zip(titles, bodies, strict=True):
            console.print(Text(safe(title), style="bold"), soft_wrap=True)
            console.print(content, soft_wrap=not console.is_terminal)
            console.print()
    console.print()
    # a pipe has no width
    wide = console if console.is_terminal else Console(file=console.file, width=PIPE_WIDTH, color_system=None)
    wide.print(_table(*comparison_table(rationales, titles, gaps)))
    console.print()
    console.print(Text(legend(first, titles[0]), style="dim"), soft_wrap=not console.is_terminal)
    for note in [*gap_notes(gaps), *_notes(rationales, titles)]:
        console.print(Text.assemble(("note: ", "bold yellow"), safe(note)), soft_wrap=not console.is_terminal)


def plain_comparison(
    rationales: Sequence[Rationale], titles: Sequence[str], not_applicable: Mapping[str, str] | None = None
) -> str:
    """What `show_comparison` prints, as plain text."""
    output = io.StringIO()
    show_comparison(rationales, titles, Console(file=output, width=PIPE_WIDTH, color_system=None), not_applicable)
    return output.getvalue().rstrip()


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < 2 else "right")
    for row in rows:
        table.add_row(*(Text(safe(cell)) for cell in row))
    return table


def _notes(rationales: Sequence[Rationale], titles: Sequence[str]) -> list[str]:
    """Each note once, with the methods that it belongs to."""
    methods: dict[str, list[str]] = {}  # message -> titles
    for rationale, title in zip(rationales, titles, strict=True):
        for note in rationale.notes:
            methods.setdefault(note.message, []).append(title)
    return [f"{', '.join(names)}: {message}" for message, names in methods.items()]
