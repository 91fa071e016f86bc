"""A rationale in the terminal: with colours where there are some, with brackets where there are none."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from rationales.rationale import Frames, Grid, Rationale
from rationales.report.bidirectional import visible
from rationales.report.excerpt import excerpt
from rationales.report.scale import scale_of
from rationales.report.wave import envelope
from rationales.report.words import (
    box,
    count,
    leading,
    percent,
    predicted,
    rows,
    runner_up,
    selection,
    size,
    unit_name,
    verdict,
    when,
    whole,
)

# (from this strength on, foreground, background). Both colours are set, so the words can be read on dark and on
# light terminals; weak scores are grey rather than pale, since pale is the loudest colour on a dark terminal.
FOR = (
    (0.2, "#ffffff", "#67635a"),
    (0.35, "#ffffff", "#7d6534"),
    (0.5, "#000000", "#c98f22"),
    (0.8, "#000000", "#ffb627"),
)
AGAINST = (
    (0.2, "#ffffff", "#5a616b"),
    (0.35, "#ffffff", "#3f678e"),
    (0.5, "#000000", "#4d9bdb"),
    (0.8, "#000000", "#7cc0ff"),
)

COLUMN_LABELS = 4  # so many labels have a column each; of more, two have
REGIONS = 5  # of a picture, listed one by one
STRETCHES = 12  # of a sound, listed one by one
PARTS = ("Text:", "Pair:")  # what stands above the two texts of a pair
COLUMNS = 72  # of a waveform
BARS = " ▁▂▃▄▅▆▇█"  # how loud a column is

# What a terminal would obey rather than show becomes its picture; line breaks and tabs stay.
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_CONTROLS |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD) | dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)


def plain(rationale: Rationale) -> str:
    """The rationale without colours: spans in [[brackets]] or a list of regions, the probabilities, the notes."""
    buffer = io.StringIO()
    console = Console(file=buffer, color_system=None, width=100, force_terminal=False, legacy_windows=False)
    _print(rationale, console, colours=False)
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n")).rstrip("\n")


def show(rationale: Rationale, console: Console | None = None) -> None:
    """Print the rationale, coloured by score with the spans underlined; in brackets where colours are not wanted."""
    console = console or Console()
    colours = console.is_terminal and console.color_system is not None and not console.no_color
    _print(rationale, console, colours=colours)


def style(strength: float) -> Style:
    """The colours of a strength in [-1, 1]."""
    for least, front, back in reversed(FOR if strength >= 0 else AGAINST):
        if abs(strength) >= least:
            return Style(color=front, bgcolor=back)
    return Style.null()


def safe(text: str) -> str:
    """`text` with control characters replaced by visible ones, so that no text can steer the terminal."""
    return visible(text.replace("\r\n", "\n").translate(_CONTROLS))


def body(rationale: Rationale, *, colours: bool) -> RenderableType:
    """The input with its rationale: a coloured or bracketed text, a list of regions, a line of bars."""
    if isinstance(rationale.units, Grid):
        return _regions(rationale, colours=colours)
    if isinstance(rationale.units, Frames):
        return _stretches(rationale, rationale.units, colours=colours)
    return _coloured(rationale) if colours else _bracketed(rationale)


def _print(rationale: Rationale, console: Console, *, colours: bool) -> None:
    head = Text.assemble(
        (safe(rationale.question), "bold"), (f"  {safe(rationale.method)} on {safe(rationale.model)}", "dim")
    )
    if rationale.name:
        head = Text.assemble((f"{safe(rationale.name)}  ", "dim"), head)
    console.print(head, soft_wrap=True)
    if predicted(rationale) not in (None, rationale.target):
        console.print(Text(f"{safe(verdict(rationale))}."), soft_wrap=True)
    console.print()
    console.print(body(rationale, colours=colours), soft_wrap=not console.is_terminal)
    console.print()
    console.print(_table(rationale))
    console.print()
    labels = leading(rationale)
    if len(rationale.labels) > COLUMN_LABELS:
        full = rationale.probabilities.get("full", {})
        values = " · ".join(f"{safe(label)} {percent(full[label])}" for label in labels if label in full)
        few = len(labels) == len(rationale.labels)
        title = "all classes" if few else f"likeliest of {len(rationale.labels):,} classes"
        console.print(Text(f"{title}: {values}", style="dim"), soft_wrap=True)
    console.print(Text(_summary(rationale), style="dim"), soft_wrap=True)
    for note in rationale.notes:
        mark = ("note: ", "bold yellow") if note.level == "warning" else ("info: ", "dim")
        line = Text.assemble(mark, safe(note.message))
        console.print(line, soft_wrap=not console.is_terminal)


def _table(rationale: Rationale) -> Table:
    labels = [rationale.target, *filter(None, [runner_up(rationale)])]
    if len(rationale.labels) <= COLUMN_LABELS:
        labels += [label for label in rationale.labels if label not in labels]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    for label in labels:
        table.add_column(Text(safe(label)), justify="right", max_width=24)
    table.add_column("")
    for _, name, hint, probabilities in rows(rationale):
        values = [percent(probabilities[label]) if label in probabilities else "" for label in labels]
        table.add_row(Text(name), *map(Text, values), Text(safe(hint), style="dim"))
    return table


def _regions(rationale: Rationale, *, colours: bool) -> Group:
    """The largest regions of a picture: their share of it, where they lie and how they score."""
    found, scale, total = rationale.regions(), scale_of(rationale), max(len(rationale.units), 1)
    grid = rationale.units if isinstance(rationale.units, Grid) else None
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    table.add_column("area", justify="right")
    table.add_column("where")
    table.add_column("score", justify="right")
    for number, region in enumerate(found[:REGIONS], 1):
        look = style(float(scale.strength(np.array([region.score]))[0])) if colours else Style.null()
        score = Text(scale.number(region.score), style=look)
        table.add_row(str(number), percent(region.area / total), box(region, grid), score)
    if not found:
        return Group(
            Text(size(rationale).capitalize()),
            Text(f"No {unit_name(rationale)} reached the threshold: nothing is selected."),
        )
    shown: list[RenderableType] = [Text(size(rationale).capitalize()), table]
    if len(found) > REGIONS:
        rest = sum(region.area for region in found[REGIONS:])
        words = f"and {count(len(found) - REGIONS, 'region')} more, {percent(rest / total)} of the {whole(rationale)}"
        shown.append(Text(words, style="dim"))
    return Group(*shown)


def _stretches(rationale: Rationale, frames: Frames, *, colours: bool) -> Group:
    """A sound as a line of bars, the rationale marked below it, and its stretches with their scores."""
    found, scale = rationale.times(), scale_of(rationale)
    loud = envelope(rationale, COLUMNS)
    edges = np.linspace(0, len(frames), len(loud) + 1)
    owner = np.minimum(edges[:-1].astype(int), len(frames) - 1)
    strength, chosen = scale.strength(rationale.scores)[owner], rationale.selected()[owner]
    bars = Text()
    for height, one in zip(loud.tolist(), strength.tolist(), strict=True):
        bars.append(BARS[round(height * (len(BARS) - 1))], style=style(one) if colours else Style.null())
    marks = Text("".join("^" if one else " " for one in chosen.tolist()).rstrip(), style="bold" if colours else "")
    scales = Text(f"0 s{f'{frames.duration:.2f} s':>{max(len(loud) - 3, 1)}}", style="dim")
    if not found:
        return Group(Text(size(rationale).capitalize()), bars, scales, Text("No frame reached the threshold."))
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    table.add_column("when")
    table.add_column("score", justify="right")
    for number, one in enumerate(found[:STRETCHES], 1):
        look = style(float(scale.strength(np.array([one.score]))[0])) if colours else Style.null()
        table.add_row(str(number), when(one), Text(scale.number(one.score), style=look))
    rest = len(found) - STRETCHES
    more = [Text(f"and {count(rest, 'span')} more", style="dim")] if rest > 0 else []
    return Group(Text(size(rationale).capitalize()), bars, marks, scales, Text(), table, *more)


def _summary(rationale: Rationale) -> str:
    facts = [selection(rationale)]
    if rationale.steps:
        facts.append(count(rationale.steps, "step") + (f" (stop: {safe(rationale.stop)})" if rationale.stop else ""))
    if rationale.segments > 1:
        facts.append(count(rationale.segments, "segment"))
    facts.append(f"{rationale.seconds:.1f} s")
    return " · ".join(facts)


def _bracketed(rationale: Rationale) -> Text:
    chosen = rationale.selected()
    return _body(rationale, chosen, lambda _: Style.null(), brackets=True)


def _coloured(rationale: Rationale) -> Text:
    chosen = rationale.selected()
    strength = scale_of(rationale).strength(rationale.scores)
    mark = Style(bold=True, underline=True)
    return _body(
        rationale, chosen, lambda i: style(strength[i]) + (mark if chosen[i] else Style.null()), brackets=False
    )


def _body(rationale: Rationale, chosen: np.ndarray, styled: Callable[[int], Style], *, brackets: bool) -> Text:
    """The text, or its excerpt, with each unit in its style."""
    body = Text()
    noun = unit_name(rationale)
    taken = excerpt(rationale)
    pieces = {part: [piece for piece in taken.pieces if piece.part == part] for part in taken.tails}
    for part, tail in taken.tails.items():
        if part > 0:
            body.append("\n" if taken.left_out else "\n\n")
        if rationale.pair is not None:
            body.append(f"{PARTS[part]}\n", style="dim bold")
        for piece in pieces[part]:
            if piece.skipped:
                body.append(f"[… {count(piece.skipped, noun)} left out …]\n", style="dim italic")
            whole = taken.left_out == 0
            for content, look in _runs(rationale, piece.first, piece.last, chosen, styled, brackets, edges=whole):
                body.append(safe(content), style=look)
            body.append("" if whole else "\n")
        if tail:
            body.append(f"[… {count(tail, noun)} left out …]\n", style="dim italic")
    if taken.left_out:
        spans = f" and {count(taken.spans_left_out, 'span')}" if taken.spans_left_out else ""
        body.append(f"\nNot shown: {taken.left_out:,} of {len(rationale.words):,} {noun}s{spans}.", style="dim")
    return body


def _runs(
    rationale: Rationale,
    first: int,
    last: int,
    chosen: np.ndarray,
    styled: Callable[[int], Style],
    brackets: bool,
    edges: bool,
) -> Iterator[tuple[str, Style]]:
    """(content, style) for the units first..last and what stands between them; with `edges` also around them."""
    units = rationale.words
    whole = rationale.part(units[first].part)
    position = 0 if edges else units[first].start
    for index in range(first, last + 1):
        unit = units[index]
        joined = index > first and bool(chosen[index]) and bool(chosen[index - 1])
        yield whole[position : unit.start], styled(index) if joined and not brackets else Style.null()
        opens = brackets and chosen[index] and not joined
        closes = brackets and chosen[index] and not (index < last and chosen[index + 1])
        content = whole[max(unit.start, position) : unit.end]
        yield f"{'[[' if opens else ''}{content}{']]' if closes else ''}", styled(index)
        position = max(position, unit.end)
    if edges:
        yield whole[position:], Style.null()
