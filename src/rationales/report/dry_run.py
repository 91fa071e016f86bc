"""The results of a dry run as a self-contained page, and as tables in the terminal.

The page loads nothing and runs no script; names, texts, labels and messages all go through `escape`.
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

from rationales.evaluation.tables.markdown import number
from rationales.groundtruth.dryrun import text_report
from rationales.groundtruth.dryrun.results import DryRun, ExplainedInput, MethodResult, PlantResult
from rationales.groundtruth.dryrun.verdict import FOUND_GAIN
from rationales.rationale import Grid
from rationales.report.canvas import canvas, data_uri, edges
from rationales.report.html.document import asset, footer, head
from rationales.report.html.marked_text import LEVELS, escape, right_to_left, unit_class
from rationales.report.scale import scale_of
from rationales.report.terminal.show import safe
from rationales.report.wording import count

SHOWN_INPUTS = 2  # best inputs shown for each method, and as many of the worst
LEAD = (
    "Labels were drawn anew so that the original data predict them poorly or not at all, and a plant was put in that "
    "predicts them fully. A model that is accurate afterwards must use the plant. Which methods show it?"
)
PEAK_QUANTILE = 0.99  # quantile of the absolute scores that gets the strongest colour
VERDICT_STYLES = {"found": "bold green", "distracted": "yellow", "missed": "red"}


def page(run: DryRun) -> str:
    """The page: for each plant the table, its settings, and the best and worst inputs of each method."""
    style = asset("article.css") + asset("page.css") + asset("dry_run.css")
    size = count(run.examples, "image" if run.kind == "image" else "text")
    notes = "".join(f"<li>{escape(note)}</li>" for note in run.notes)
    return "\n".join(
        (
            head(f"Dry run: {run.data}", style),
            '<body class="rationales dry">',
            "<main>",
            f'<header class="lead"><p class="kicker">{escape(run.data)} · {size}</p>',
            "<h1>Which methods find a known cause?</h1>",
            f"<p>{LEAD}</p></header>",
            f'<aside class="notes" aria-label="Notes"><ul>{notes}</ul></aside>' if notes else "",
            *(_plant_article(run, plant) for plant in run.plants),
            "</main>",
            footer(),
            "</body>",
            "</html>",
            "",
        )
    )


def show(run: DryRun, console: Console | None = None) -> None:
    """Print the results: as tables on a terminal, as Markdown into a pipe or a file."""
    console = console or Console()
    if not console.is_terminal:
        console.file.write(run.to_markdown())
        console.file.flush()
        return
    for plant in run.plants:
        console.print(Text(safe(text_report.headline(plant)), style="bold"))
        if plant.methods:
            console.print(_terminal_table(plant))
            console.print(Text(f"{text_report.LEGEND}.", style="dim"))
        for line in text_report.details(run, plant):
            console.print(Text(f"{safe(line)}.", style="dim"))
        console.print()


def _terminal_table(plant: PlantResult) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    columns = text_report.visible_columns(plant)
    for column in columns:
        table.add_column(text_report.COLUMNS[column], justify="left" if column < 2 else "right", overflow="fold")
    for method in plant.methods:
        texts = [Text(safe(cell.replace(" [", "\n["))) for cell in text_report.cells(method)]
        texts[1].stylize(VERDICT_STYLES.get(method.verdict.name, "") if method.verdict is not None else "")
        table.add_row(*(texts[column] for column in columns))
    return table


def _plant_article(run: DryRun, plant: PlantResult) -> str:
    settings = text_report.settings_of(run, plant).items()
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in settings)
    notes = "".join(f"<li>{escape(line)}</li>" for line in text_report.remarks(plant))
    reason = plant.no_verdict
    return "\n".join(
        (
            f'<article><header><p class="kicker">Plant</p><h2>{escape(plant.plant.name)}</h2>',
            f"<p>{escape(plant.plant.summary[:1].upper() + plant.plant.summary[1:])}.</p></header>",
            f'<p class="refused">No verdict. {escape(reason[:1].upper() + reason[1:])}.</p>' if reason else "",
            _html_table(plant) if plant.methods else "",
            f'<dl class="choices">{facts}</dl>',
            f'<aside class="notes" aria-label="Notes"><ul>{notes}</ul></aside>' if notes else "",
            *(_method_section(method) for method in plant.methods if method.explained and method.title != "random"),
            "</article>",
        )
    )


def _html_table(plant: PlantResult) -> str:
    with_distractors = text_report.has_distractors(plant)
    titles = ["Method", "Verdict", "Attr% on the plant", "", "Gain", "Top unit"]
    titles += ["On distractors"] if with_distractors else []
    header = "".join(f'<th scope="col">{title}</th>' for title in titles)
    body = "".join(f"<tr>{''.join(_html_row(method, with_distractors))}</tr>" for method in plant.methods)
    return (
        f'<table class="verdicts"><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>'
        '<p class="caption">Bars: the 95 % interval of Attr% with its mean; the thin line is chance, the dashed line '
        f"is the Attr% from which the plant counts as found. {escape(text_report.LEGEND)}.</p>"
    )


def _html_row(method: MethodResult, with_distractors: bool) -> Iterator[str]:
    title, verdict, share, _, gain, top_unit, distractors, *_ = text_report.cells(method)
    yield f'<th scope="row">{escape(title)}</th><td>{_badge(method, verdict)}</td>'
    yield f"<td>{_stacked(share)}</td>"
    yield f'<td class="bar">{_bar(method)}</td><td>{_stacked(gain)}</td><td>{escape(top_unit)}</td>'
    if with_distractors:
        yield f"<td>{_stacked(distractors)}</td>"


def _stacked(cell: str) -> str:
    """A mean with its interval in small type below."""
    mean, _, interval = cell.partition(" [")
    if not interval:
        return escape(mean)
    return f"{escape(mean)}<small>{escape(interval.rstrip(']').replace(' ', ' – '))}</small>"


def _badge(method: MethodResult, text: str) -> str:
    return f'<span class="verdict {_verdict_class(method)}">{escape(text)}</span>'


def _verdict_class(method: MethodResult) -> str:
    return method.verdict.name if method.verdict is not None else "none"


def _bar(method: MethodResult) -> str:
    """A bar from 0 to 1 with the interval of Attr%, chance, and the Attr% from which a plant counts as found."""
    attribution, chance = method.region.attribution, method.region.area.mean
    if math.isnan(attribution.mean):
        return ""
    low, high = attribution.low, attribution.high
    if math.isnan(low):
        low = high = attribution.mean
    threshold = chance + FOUND_GAIN * (1 - chance)
    width = max(100 * (high - low), 0.8)
    return (
        '<svg viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" y="6" width="100" height="4"/>'
        f'<rect class="{_verdict_class(method)}" x="{100 * low:.2f}" y="4" width="{width:.2f}" height="8"/>'
        f'<rect class="mean" x="{100 * attribution.mean - 0.4:.2f}" y="2" width="0.8" height="12"/>'
        f'<line x1="{100 * chance:.2f}" x2="{100 * chance:.2f}" y1="0" y2="16"/>'
        f'<line class="half" x1="{100 * threshold:.2f}" x2="{100 * threshold:.2f}" y1="0" y2="16"/></svg>'
    )


def _method_section(method: MethodResult) -> str:
    """The best and the worst inputs of one method."""
    ranked = method.ranked()
    best = ranked[:SHOWN_INPUTS]
    worst = [explained for explained in ranked[::-1][:SHOWN_INPUTS] if explained not in best]
    groups = "".join(
        f'<div class="cases"><p class="part">{name}</p>{"".join(map(_figure, inputs))}</div>'
        for name, inputs in (("Best", best), ("Worst", worst))
        if inputs
    )
    badge = _badge(method, text_report.cells(method)[1])
    return f'<section class="method"><h3>{escape(method.title)} {badge}</h3>{groups}</section>'


def _figure(explained: ExplainedInput) -> str:
    name, rationale = explained.planted.example.name, explained.rationale
    caption = escape(f"{name} · Attr% {number(explained.share)}, gain {number(explained.gain)}")
    if isinstance(rationale.units, Grid):
        captions = ("The image with the plant's region outlined", "Scores")
        images = "".join(
            f'<img alt="{escape(alt)}" src="{data_uri(pixels)}">'
            for pixels, alt in zip(_outlined_images(explained), captions, strict=True)
        )
        return f'<figure><div class="pair">{images}</div><figcaption>{caption}</figcaption></figure>'
    direction = "rtl" if right_to_left(rationale.text) else "ltr"
    return (
        f'<figure><div class="text" dir="{direction}" lang="">{"".join(_coloured_words(explained))}</div>'
        f"<figcaption>{caption} · {escape(rationale.target)}</figcaption></figure>"
    )


def _outlined_images(explained: ExplainedInput) -> Sequence[np.ndarray]:
    """(h, w, 3), twice: the planted image and its scores, both with the true region outlined."""
    drawing = canvas(explained.rationale)
    if not drawing.scale.keeps:  # a few very high scores would leave all other pixels without a colour
        peak = float(np.quantile(np.abs(drawing.scores), PEAK_QUANTILE)) or drawing.scale.peak
        drawing = replace(drawing, scale=replace(drawing.scale, peak=peak))
    region = np.asarray(explained.planted.region, dtype=bool)
    rows, columns = (
        np.arange(length) * side // length for length, side in zip(drawing.selected.shape, region.shape, strict=True)
    )
    inside, outside = edges(region[np.ix_(rows, columns)])
    panels = [drawing.original.copy(), drawing.heat()]
    for panel in panels:
        panel[outside], panel[inside] = 0, 255
    return panels


def _coloured_words(explained: ExplainedInput) -> Iterator[str]:
    """The text with words coloured by their scores; those of the plant and the distractors are outlined."""
    rationale, case, position = explained.rationale, explained.case, 0
    text, scale = rationale.text, scale_of(rationale)
    levels = np.rint(scale.strength(rationale.scores) * LEVELS).astype(int).tolist()
    for index, (unit, level) in enumerate(zip(rationale.words, levels, strict=True)):
        start = max(unit.start, position)
        flag = "plant" if case.region[index] else "decoy" if case.distractors[index] else ""
        title = escape(scale.number(float(rationale.scores[index])))
        yield f'{escape(text[position:start])}<span{unit_class(level, flag)} title="{title}">'
        position = max(unit.end, start)
        yield f"{escape(text[start:position])}</span>"
    yield escape(text[position:])
