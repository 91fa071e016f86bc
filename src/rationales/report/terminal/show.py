"""A rationale in the terminal: coloured where the terminal has colours, with [[brackets]] elsewhere."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text

from rationales.rationale import Frames, Grid, Rationale, TextAndImage
from rationales.report import wording
from rationales.report.bidirectional import visible
from rationales.report.envelope import envelope
from rationales.report.scale import scale_of
from rationales.report.terminal.excerpt import excerpt

# (minimal strength, foreground, background). Both colours are set, so that words are legible on dark and on light
# terminals; weak scores are grey rather than pale, since pale colours stand out most on a dark terminal.
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

MAX_LABEL_COLUMNS = 4  # up to this number every label has a column; of more labels two have
MAX_REGIONS = 5  # listed regions of an image
MAX_STRETCHES = 12  # listed stretches of a sound
TEXT_TITLES = ("Text:", "Pair:")  # above the two texts of a pair
COLUMNS = 72  # characters of a waveform
BARS = " ▁▂▃▄▅▆▇█"  # from silent to loud

# Control characters are replaced by their symbols (U+2400 ...); line breaks and tabs are kept.
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_CONTROLS |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD) | dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)


def plain(rationale: Rationale) -> str:
    """The rationale without colours: spans in [[brackets]] or a list of regions, the probabilities, the notes."""
    buffer = io.StringIO()
    console = Console(file=buffer, color_system=None, width=100, force_terminal=False, legacy_windows=False)
    _print(rationale, console, colours=False)
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n")).rstrip("\n")


def show(rationale: Rationale, console: Console | None = None) -> None:
    """Print the rationale: coloured by score with underlined spans, or in brackets where there are no colours."""
    console = console or Console()
    colours = console.is_terminal and console.color_system is not None and not console.no_color
    _print(rationale, console, colours=colours)


def style(strength: float) -> Style:
    """The colours of a strength in [-1, 1]."""
    for min_strength, foreground, background in reversed(FOR if strength >= 0 else AGAINST):
        if abs(strength) >= min_strength:
            return Style(color=foreground, bgcolor=background)
    return Style.null()


def safe(text: str) -> str:
    """`text` with control characters replaced by visible ones, so that it cannot control the terminal."""
    return visible(text.replace("\r\n", "\n").translate(_CONTROLS))


def body(rationale: Rationale, *, colours: bool) -> RenderableType:
    """The input with its rationale: a coloured or bracketed text, a list of regions, both, or a line of bars."""
    if isinstance(rationale.units, TextAndImage):
        words = _text(rationale.text_part, colours=colours)
        return Group(words, Text(), _regions(rationale.image_part, colours=colours))
    if isinstance(rationale.units, Grid):
        return _regions(rationale, colours=colours)
    if isinstance(rationale.units, Frames):
        return _stretches(rationale, rationale.units, colours=colours)
    return _text(rationale, colours=colours)


def _print(rationale: Rationale, console: Console, *, colours: bool) -> None:
    method = f"  {safe(rationale.method)} on {safe(rationale.model)}"
    head = Text.assemble((safe(rationale.question), "bold"), (method, "dim"))
    if rationale.name:
        head = Text.assemble((f"{safe(rationale.name)}  ", "dim"), head)
    console.print(head, soft_wrap=True)
    if wording.predicted_label(rationale) not in (None, rationale.target):
        console.print(Text(f"{safe(wording.prediction_sentence(rationale))}."), soft_wrap=True)
    console.print()
    console.print(body(rationale, colours=colours), soft_wrap=not console.is_terminal)
    console.print()
    console.print(_table(rationale))
    console.print()
    labels = wording.listed_labels(rationale)
    if len(rationale.labels) > MAX_LABEL_COLUMNS:
        full = rationale.probabilities.get("full", {})
        values = " · ".join(f"{safe(label)} {wording.percent(full[label])}" for label in labels if label in full)
        complete = len(labels) == len(rationale.labels)
        title = "all classes" if complete else f"likeliest of {len(rationale.labels):,} classes"
        console.print(Text(f"{title}: {values}", style="dim"), soft_wrap=True)
    console.print(Text(_summary(rationale), style="dim"), soft_wrap=True)
    for note in rationale.notes:
        mark = ("note: ", "bold yellow") if note.level == "warning" else ("info: ", "dim")
        console.print(Text.assemble(mark, safe(note.message)), soft_wrap=not console.is_terminal)


def _table(rationale: Rationale) -> Table:
    labels = [rationale.target, *filter(None, [wording.runner_up(rationale)])]
    if len(rationale.labels) <= MAX_LABEL_COLUMNS:
        labels += [label for label in rationale.labels if label not in labels]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    for label in labels:
        table.add_column(Text(safe(label)), justify="right", max_width=24)
    table.add_column("")
    for _, name, hint, probabilities in wording.probability_rows(rationale):
        values = [wording.percent(probabilities[label]) if label in probabilities else "" for label in labels]
        table.add_row(Text(name), *map(Text, values), Text(safe(hint), style="dim"))
    return table


def _regions(rationale: Rationale, *, colours: bool) -> Group:
    """The largest regions of an image with their area, position and score."""
    regions, scale, total = rationale.regions(), scale_of(rationale), max(len(rationale.units), 1)
    grid = rationale.units if isinstance(rationale.units, Grid) else None
    title = Text(wording.input_size(rationale).capitalize())
    if not regions:
        unit = wording.unit_name(rationale)
        return Group(title, Text(f"No {unit} reached the threshold: nothing is selected."))
    columns = ("", Column("area", justify="right"), "where", Column("score", justify="right"))
    table = Table(*columns, box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for number, region in enumerate(regions[:MAX_REGIONS], 1):
        look = style(float(scale.strength(np.array([region.score]))[0])) if colours else Style.null()
        score = Text(scale.number(region.score), style=look)
        table.add_row(str(number), wording.percent(region.area / total), wording.region_bounds(region, grid), score)
    if len(regions) <= MAX_REGIONS:
        return Group(title, table)
    unlisted = wording.count(len(regions) - MAX_REGIONS, "region")
    share = wording.percent(sum(region.area for region in regions[MAX_REGIONS:]) / total)
    summary = Text(f"and {unlisted} more, {share} of the {wording.input_noun(rationale)}", style="dim")
    return Group(title, table, summary)


def _stretches(rationale: Rationale, frames: Frames, *, colours: bool) -> Group:
    """A sound as a line of bars with the rationale marked below it, and its stretches with their scores."""
    stretches, scale = rationale.times(), scale_of(rationale)
    loudness = envelope(rationale, COLUMNS)
    edges = np.linspace(0, len(frames), len(loudness) + 1)
    column_frames = np.minimum(edges[:-1].astype(int), len(frames) - 1)
    strengths = scale.strength(rationale.scores)[column_frames]
    selected = rationale.selected()[column_frames]
    bars = Text()
    for height, strength in zip(loudness.tolist(), strengths.tolist(), strict=True):
        bars.append(BARS[round(height * (len(BARS) - 1))], style=style(strength) if colours else Style.null())
    arrows = "".join("^" if is_selected else " " for is_selected in selected.tolist()).rstrip()
    marks = Text(arrows, style="bold" if colours else "")
    scales = Text(f"0 s{f'{frames.duration:.2f} s':>{max(len(loudness) - 3, 1)}}", style="dim")
    title = Text(wording.input_size(rationale).capitalize())
    if not stretches:
        return Group(title, bars, scales, Text("No frame reached the threshold."))
    table = Table("", "when", Column("score", justify="right"), box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for number, stretch in enumerate(stretches[:MAX_STRETCHES], 1):
        look = style(float(scale.strength(np.array([stretch.score]))[0])) if colours else Style.null()
        table.add_row(str(number), wording.time_range(stretch), Text(scale.number(stretch.score), style=look))
    unlisted = len(stretches) - MAX_STRETCHES
    summary = [Text(f"and {wording.count(unlisted, 'span')} more", style="dim")] if unlisted > 0 else []
    return Group(title, bars, marks, scales, Text(), table, *summary)


def _summary(rationale: Rationale) -> str:
    facts = [wording.selection_size(rationale)]
    if rationale.steps:
        stop = f" (stopped by {safe(rationale.stop)})" if rationale.stop not in (None, "", "steps") else ""
        facts.append(wording.count(rationale.steps, "step") + stop)
    if rationale.segments > 1:
        facts.append(wording.count(rationale.segments, "segment"))
    if rationale.seconds:  # a corpus run does not store it
        facts.append(f"{rationale.seconds:.1f} s")
    return " · ".join(facts)


def _text(rationale: Rationale, *, colours: bool) -> Text:
    """The text, or its excerpt: units coloured and those selected underlined, or those selected in brackets."""
    selected, strength = rationale.selected(), scale_of(rationale).strength(rationale.scores)
    mark = Style(bold=True, underline=True)

    def styled(index: int) -> Style:
        return style(strength[index]) + (mark if selected[index] else Style.null()) if colours else Style.null()

    body = Text()
    noun = wording.unit_name(rationale)
    visible_text = excerpt(rationale)
    complete = visible_text.left_out == 0
    for text_index, tail in visible_text.tails.items():
        if text_index > 0:
            body.append("\n\n" if complete else "\n")
        if rationale.pair is not None:
            body.append(f"{TEXT_TITLES[text_index]}\n", style="dim bold")
        for piece in (piece for piece in visible_text.pieces if piece.text_index == text_index):
            if piece.skipped:
                body.append(f"[… {wording.count(piece.skipped, noun)} left out …]\n", style="dim italic")
            runs = _runs(rationale, piece.first, piece.last, selected, styled, not colours, edges=complete)
            for content, look in runs:
                body.append(safe(content), style=look)
            body.append("" if complete else "\n")
        if tail:
            body.append(f"[… {wording.count(tail, noun)} left out …]\n", style="dim italic")
    if not complete:
        hidden_spans = visible_text.spans_left_out
        spans = f" and {wording.count(hidden_spans, 'span')}" if hidden_spans else ""
        body.append(f"\nNot shown: {visible_text.left_out:,} of {len(rationale.words):,} {noun}s{spans}.", style="dim")
    return body


def _runs(
    rationale: Rationale,
    first: int,
    last: int,
    selected: np.ndarray,
    styled: Callable[[int], Style],
    brackets: bool,
    edges: bool,
) -> Iterator[tuple[str, Style]]:
    """(content, style) of the units first..last and the text between them; with `edges` also the text around them."""
    units = rationale.words
    text = rationale.text_at(units[first].text_index)
    position = 0 if edges else units[first].start
    for index in range(first, last + 1):
        unit = units[index]
        joined = index > first and bool(selected[index]) and bool(selected[index - 1])
        yield text[position : unit.start], styled(index) if joined and not brackets else Style.null()
        opens = brackets and selected[index] and not joined
        closes = brackets and selected[index] and not (index < last and selected[index + 1])
        content = text[max(unit.start, position) : unit.end]
        yield f"{'[[' if opens else ''}{content}{']]' if closes else ''}", styled(index)
        position = max(position, unit.end)
    if edges:
        yield text[position:], Style.null()
