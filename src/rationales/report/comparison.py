"""Several methods on one input: side by side in the terminal, and as one page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from rationales.evaluation.stability import selection_iou
from rationales.evaluation.tables.statistics import rank_correlation
from rationales.rationale import Rationale
from rationales.report.html import page
from rationales.report.marked import escape, shown
from rationales.report.terminal import body, safe
from rationales.report.words import percent, selection, unit_name, verdict, whole

NARROWEST = 34  # characters of a column; narrower ones are put below each other
WIDE = 160  # characters of a line where nobody's terminal decides


@dataclass(frozen=True)
class Line:
    """What the overview says of one method."""

    title: str
    selected: str  # how much of the input
    alone: str  # the target's probability, given the rationale alone
    without: str  # and given everything but it
    order: str  # rank correlation with the first method's scores
    shared: str  # units that both select over units that one of them does
    seconds: str


HEADS = ("", "selected", "alone", "without", "rank corr.", "overlap", "seconds")


def overview(rationales: Sequence[Rationale], titles: Sequence[str]) -> list[Line]:
    """One line for each method; the agreement is with the first."""
    first = rationales[0]
    return [
        Line(
            title,
            selection(one),
            _given(one, "rationale"),
            _given(one, "complement"),
            "" if one is first else _number(rank_correlation(first.scores, one.scores)),
            "" if one is first else _number(selection_iou(first.selected(), one.selected())),
            f"{one.seconds:.2f}",
        )
        for one, title in zip(rationales, titles, strict=True)
    ]


def agreement(rationales: Sequence[Rationale]) -> dict[str, list[list[float | None]]]:
    """Every method with every other: the rank correlation of the scores, the overlap of what is selected."""
    ranks = [[rank_correlation(one.scores, other.scores) for other in rationales] for one in rationales]
    return {
        "rank_correlation": [[None if math.isnan(value) else value for value in line] for line in ranks],
        "overlap": [[selection_iou(one.selected(), other.selected()) for other in rationales] for one in rationales],
    }


def show_comparison(rationales: Sequence[Rationale], titles: Sequence[str], console: Console | None = None) -> None:
    """Print the rationales in columns where there is room, below each other where there is none."""
    console = console or Console()
    colours = console.is_terminal and console.color_system is not None and not console.no_color
    first = rationales[0]
    head = Text.assemble((safe(first.question), "bold"), (f"  {safe(verdict(first))} by {safe(first.model)}", "dim"))
    console.print(head, soft_wrap=True)
    console.print()
    shown = [body(one, colours=colours) for one in rationales]
    if console.is_terminal and console.width >= NARROWEST * len(shown):
        grid = Table.grid(padding=(0, 3), expand=True)
        for _ in shown:
            grid.add_column(ratio=1, overflow="fold")
        grid.add_row(*(Group(Rule(Text(safe(title), style="bold"), align="left"), Text()) for title in titles))
        grid.add_row(*shown)
        console.print(grid)
    else:
        for title, one in zip(titles, shown, strict=True):
            console.print(Text(safe(title), style="bold"), soft_wrap=True)
            console.print(one, soft_wrap=not console.is_terminal)
            console.print()
    console.print()
    # a pipe has no width of its own
    wide = console if console.is_terminal else Console(file=console.file, width=WIDE, color_system=None)
    wide.print(_table(overview(rationales, titles)))
    console.print()
    console.print(Text(_reading(first, titles[0]), style="dim"), soft_wrap=not console.is_terminal)
    for note in _notes(rationales, titles):
        console.print(Text.assemble(("note: ", "bold yellow"), safe(note)), soft_wrap=not console.is_terminal)


def comparison_page(rationales: Sequence[Rationale], titles: Sequence[str]) -> str:
    """One page with a column for each method, each with its own threshold."""
    first = rationales[0]
    name = f"Why {first.question}? {len(titles)} methods"
    cells = "".join(
        f'<tr><th scope="row">{shown(line.title)}</th>'
        + "".join(
            f"<td>{escape(value)}</td>"
            for value in (line.selected, line.alone, line.without, line.order, line.shared, line.seconds)
        )
        + "</tr>"
        for line in overview(rationales, titles)
    )
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in HEADS)
    given = f", given {shown(first.name)}" if first.name else ""
    lead = (
        f'<header class="lead"><h1>Why <em>{shown(first.question)}</em>?</h1>'
        f"<p>{shown(verdict(first))} by {shown(first.model)}{given}. {escape(_reading(first, titles[0]))}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{cells}</tbody></table></header>"
    )
    return page(rationales, titles=titles, lead=lead, name=name)


def _reading(first: Rationale, title: str) -> str:
    """How to read the overview."""
    unit = unit_name(first)
    return (
        f"Alone: the probability of {first.target} given only the selected {unit}s; without: given the {whole(first)} "
        f"without them. Rank correlation and overlap are with {title}."
    )


def _table(lines: Sequence[Line]) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for number, head in enumerate(HEADS):
        table.add_column(head, justify="left" if number < 2 else "right")
    for line in lines:
        values = (line.title, line.selected, line.alone, line.without, line.order, line.shared, line.seconds)
        table.add_row(*(Text(safe(value)) for value in values))
    return table


def _notes(rationales: Sequence[Rationale], titles: Sequence[str]) -> list[str]:
    """What may be wrong, each once, with the methods it is said of."""
    found: dict[str, list[str]] = {}
    for one, title in zip(rationales, titles, strict=True):
        for note in one.notes:
            found.setdefault(note.message, []).append(title)
    return [f"{', '.join(who)}: {message}" for message, who in found.items()]


def _given(rationale: Rationale, key: str) -> str:
    value = rationale.probabilities.get(key, {}).get(rationale.target)
    return "" if value is None else percent(value)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")
