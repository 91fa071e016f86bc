"""A dry run as a page of its own, and as tables in the terminal.

Nothing is fetched from anywhere, no script runs, and names, texts, labels and messages all go through `escape`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rationales.groundtruth.dryrun.result import DryRun, Explained, Outcome, Row
from rationales.groundtruth.dryrun.verdict import HALF
from rationales.groundtruth.dryrun.words import (
    HEADS,
    RULE,
    cells,
    choices,
    columns,
    headline,
    numeral,
    remarks,
    rests_on,
)
from rationales.rationale import Grid
from rationales.report.head import asset, footer, head
from rationales.report.marked import LEVELS, escape, right_to_left, unit_class
from rationales.report.picture import canvas, data_uri, edges
from rationales.report.scale import scale_of
from rationales.report.terminal import safe
from rationales.report.words import count

CASES = 2  # best ones shown of each method, and as many of the worst
LEAD = (
    "Labels were drawn anew so that the data say little about them or nothing, and a plant was put in that says all. A "
    "model that is right afterwards must use the plant. Does a method say so?"
)
SHOWN = 0.99  # quantile of the scores' sizes from which on colours are strongest
STYLES = {"found": "bold green", "distracted": "yellow", "missed": "red"}


def page(run: DryRun) -> str:
    """The whole run: for each plant the table, what it rests on, and the best and worst cases of each method."""
    style = asset("article.css") + asset("page.css") + asset("dry_run.css")
    what = count(run.examples, "picture" if run.kind == "image" else "text")
    notes = "".join(f"<li>{escape(note)}</li>" for note in run.notes)
    return "\n".join(
        (
            head(f"Dry run: {run.data}", style),
            '<body class="rationales dry">',
            "<main>",
            f'<header class="lead"><p class="kicker">{escape(run.data)} · {what}</p>',
            "<h1>Which methods find a cause that is known?</h1>",
            f"<p>{LEAD}</p></header>",
            f'<aside class="notes" aria-label="Notes"><ul>{notes}</ul></aside>' if notes else "",
            *(_article(run, one) for one in run.outcomes),
            "</main>",
            footer(),
            "</body>",
            "</html>",
            "",
        )
    )


def show(run: DryRun, console: Console | None = None) -> None:
    """Print the run: drawn on a terminal, as Markdown into a pipe or a file."""
    console = console or Console()
    if not console.is_terminal:
        console.file.write(run.to_markdown())
        console.file.flush()
        return
    for one in run.outcomes:
        console.print(Text(safe(headline(one)), style="bold"))
        if one.rows:
            console.print(_drawn(one))
            console.print(Text(f"{RULE}.", style="dim"))
        for line in rests_on(run, one):
            console.print(Text(f"{safe(line)}.", style="dim"))
        console.print()


def _drawn(one: Outcome) -> Table:
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    shown = columns(one)
    for number in shown:
        made.add_column(HEADS[number], justify="left" if number < 2 else "right", overflow="fold")
    for row in one.rows:
        told = [Text(safe(cell.replace(" [", "\n["))) for cell in cells(row)]
        told[1].stylize(STYLES.get(row.verdict.name, "") if row.verdict is not None else "")
        made.add_row(*(told[number] for number in shown))
    return made


def _article(run: DryRun, one: Outcome) -> str:
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in choices(run, one).items())
    said = "".join(f"<li>{escape(line)}</li>" for line in remarks(one))
    return "\n".join(
        (
            f'<article><header><p class="kicker">Plant</p><h2>{escape(one.plant.name)}</h2>',
            f"<p>{escape(one.plant.summary[:1].upper() + one.plant.summary[1:])}.</p></header>",
            f'<p class="refused">No verdict. {escape(one.why[:1].upper() + one.why[1:])}.</p>' if one.why else "",
            _table(one) if one.rows else "",
            f'<dl class="choices">{facts}</dl>',
            f'<aside class="notes" aria-label="Notes"><ul>{said}</ul></aside>' if said else "",
            *(_cases(row) for row in one.rows if row.explained and row.title != "random"),
            "</article>",
        )
    )


def _table(one: Outcome) -> str:
    some = any(row.distractors.attribution.n for row in one.rows)
    heads = ["Method", "Verdict", "Attr% on the plant", "", "Of the way", "Top unit"]
    heads += ["On distractors"] if some else []
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    body = "".join(f"<tr>{''.join(_line(row, some))}</tr>" for row in one.rows)
    return (
        f'<table class="verdicts"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        '<p class="caption">In a bar: the 95 % interval of Attr% with its mean; the thin line is chance, the dashed '
        f"one half of the way from there to a perfect scorer. {escape(RULE)}.</p>"
    )


def _line(row: Row, some: bool) -> Iterator[str]:
    title, name, share, _, gain, top, distractors, *_ = cells(row)
    yield f'<th scope="row">{escape(title)}</th><td>{_badge(row, name)}</td>'
    yield f"<td>{_stacked(share)}</td>"
    yield f'<td class="bar">{_bar(row)}</td><td>{_stacked(gain)}</td><td>{escape(top)}</td>'
    if some:
        yield f"<td>{_stacked(distractors)}</td>"


def _stacked(cell: str) -> str:
    """The mean, and its interval smaller below it."""
    mean, _, rest = cell.partition(" [")
    return f"{escape(mean)}<small>{escape(rest.rstrip(']').replace(' ', ' – '))}</small>" if rest else escape(mean)


def _badge(row: Row, name: str) -> str:
    kind = row.verdict.name if row.verdict is not None else "none"
    return f'<span class="verdict {kind}">{escape(name)}</span>'


def _bar(row: Row) -> str:
    """Attr% from 0 to 1 with its interval, chance and the half of the way."""
    own, chance = row.region.attribution, row.region.area.mean
    if math.isnan(own.mean):
        return ""
    low, high = (own.mean, own.mean) if math.isnan(own.low) else (own.low, own.high)
    kind = row.verdict.name if row.verdict is not None else "none"
    half = chance + HALF * (1 - chance)
    wide = max(100 * (high - low), 0.8)
    return (
        '<svg viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" y="6" width="100" height="4"/>'
        f'<rect class="{kind}" x="{100 * low:.2f}" y="4" width="{wide:.2f}" height="8"/>'
        f'<rect class="mean" x="{100 * own.mean - 0.4:.2f}" y="2" width="0.8" height="12"/>'
        f'<line x1="{100 * chance:.2f}" x2="{100 * chance:.2f}" y1="0" y2="16"/>'
        f'<line class="half" x1="{100 * half:.2f}" x2="{100 * half:.2f}" y1="0" y2="16"/></svg>'
    )


def _cases(row: Row) -> str:
    """The best and the worst inputs of one method."""
    ranked = row.ranked()
    best = ranked[:CASES]
    worst = [one for one in ranked[::-1][:CASES] if one not in best]
    groups = "".join(
        f'<div class="cases"><p class="part">{name}</p>{"".join(map(_case, some))}</div>'
        for name, some in (("Best", best), ("Worst", worst))
        if some
    )
    return f'<section class="method"><h3>{escape(row.title)} {_badge(row, cells(row)[1])}</h3>{groups}</section>'


def _case(one: Explained) -> str:
    told = escape(f"{one.planted.example.name} · Attr% {numeral(one.share)}, of the way {numeral(one.gain)}")
    if isinstance(one.rationale.units, Grid):
        images = "".join(
            f'<img alt="{escape(alt)}" src="{data_uri(pixels)}">'
            for pixels, alt in zip(
                _drawn_case(one), ("The picture, the plant's region outlined", "Scores"), strict=True
            )
        )
        return f'<figure><div class="pair">{images}</div><figcaption>{told}</figcaption></figure>'
    direction = "rtl" if right_to_left(one.rationale.text) else "ltr"
    words = "".join(_words(one))
    return (
        f'<figure><div class="text" dir="{direction}" lang="">{words}</div>'
        f"<figcaption>{told} · {escape(one.rationale.target)}</figcaption></figure>"
    )


def _drawn_case(one: Explained) -> Sequence[np.ndarray]:
    """(h, w, 3), twice: the planted picture and its scores, both with the true region outlined."""
    drawn = canvas(one.rationale)
    if not drawn.scale.keeps:  # a few very strong pixels would leave all others without a colour
        peak = float(np.quantile(np.abs(drawn.scores), SHOWN)) or drawn.scale.peak
        drawn = replace(drawn, scale=replace(drawn.scale, peak=peak))
    region = np.asarray(one.planted.region, dtype=bool)
    rows, across = (
        np.arange(shown) * side // shown for shown, side in zip(drawn.chosen.shape, region.shape, strict=True)
    )
    inside, outside = edges(region[np.ix_(rows, across)])
    made = []
    for panel in (drawn.original.copy(), drawn.heat()):
        panel[outside], panel[inside] = 0, 255
        made.append(panel)
    return made


def _words(one: Explained) -> Iterator[str]:
    """The text, character for character: words coloured by their scores, the plant's outlined."""
    text, units, position = one.rationale.text, one.rationale.words, 0
    scale = scale_of(one.rationale)
    levels = np.rint(scale.strength(one.rationale.scores) * LEVELS).astype(int).tolist()
    for number, (unit, level) in enumerate(zip(units, levels, strict=True)):
        start = max(unit.start, position)
        flag = "plant" if one.case.region[number] else "decoy" if one.case.distractors[number] else ""
        title = escape(scale.number(float(one.rationale.scores[number])))
        yield f'{escape(text[position:start])}<span{unit_class(level, flag)} title="{title}">'
        position = max(unit.end, start)
        yield f"{escape(text[start:position])}</span>"
    yield escape(text[position:])
