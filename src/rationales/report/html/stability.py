"""A stability check as a self-contained page: run against run, each baseline alone, the least stable inputs.

The page loads nothing and runs no script; names, texts, labels and messages all go through `escape`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from rationales.evaluation.stability.results import Disagreement, MethodStability, StabilityResult
from rationales.evaluation.tables.markdown import number
from rationales.rationale import Grid, Rationale
from rationales.report.canvas import canvas, data_uri
from rationales.report.html.document import asset, footer, head, scrollable
from rationales.report.html.marked_text import display_text, escape, marked
from rationales.report.scale import scale_of
from rationales.report.stability import BASELINES, CAPTIONS, ReportTable, baseline_rows, headline, tables
from rationales.report.wording import count, selection_size

IMAGE_SIDE = 384  # pixels of the longer side of an image on the page
SHADES = 10  # classes h0 ... h10 of stability.css
LEAD = (
    "The same inputs were explained with several seeds and learning rates, and with each baseline alone. What stays "
    "the same can be read as a property of the model; what changes is a property of the run."
)


def stability_page(result: StabilityResult) -> str:
    """The page: an article for each method."""
    style = "".join(map(asset, ("article.css", "page.css", "stability.css")))
    size = f"{display_text(result.model)} · {count(len(result.inputs), result.kind)} · {escape(result.device)}"
    return "\n".join(
        (
            head(f"Stability: {result.model}", style),
            '<body class="rationales stability">',
            "<main>",
            f'<header class="lead"><p class="kicker">{size}</p>',
            "<h1>How stable are these explanations?</h1>",
            f"<p>{LEAD}</p></header>",
            *(_article(result, method) for method in result.methods),
            "</main>",
            footer(),
            "</body>",
            "</html>",
            "",
        )
    )


def _article(result: StabilityResult, method: MethodStability) -> str:
    by_name = {table.name: table for table in tables(result, method)}
    sentences = "".join(f"<li>{display_text(line)}</li>" for line in result.interpretation()[method.title])
    remarks = "".join(f"<li>{display_text(remark)}</li>" for remark in method.remarks)
    notes = f'<aside class="notes info" aria-label="Remarks"><ul>{remarks}</ul></aside>' if remarks else ""
    return "\n".join(
        (
            f'<article><header><p class="kicker">{display_text(headline(result, method))}</p>',
            f"<h2>{display_text(method.title)}</h2></header>",
            f'<ul class="reading">{sentences}</ul>',
            notes,
            _section(by_name.get("agreement")),
            _matrices(method) if len(method.runs) > 1 else "",
            _section(by_name.get("runs")),
            _section(by_name.get("baselines"), _labels(result, method)),
            _cases(result, method),
            "</article>",
        )
    )


def _section(table: ReportTable | None, ending: str = "") -> str:
    if table is None:
        return ""
    caption = f'<p class="caption">{escape(CAPTIONS[table.name])}</p>'
    body = _table(table.headings, table.rows, table.name)
    return f"<section><h3>{escape(table.title)}</h3>{body}{caption}{ending}</section>"


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]], name: str) -> str:
    header = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        f'<tr{"" if row[0] else " class=sub"}><th scope="row">{display_text(row[0])}</th>'
        + "".join(f"<td>{_stacked(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    table = f'<table class="figures {name}"><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>'
    return scrollable(table, f"Table of {name}")


def _stacked(cell: str) -> str:
    """A mean with its interval in small type below; any other text as it is."""
    mean, bracket, interval = cell.partition(" [")
    if not (bracket and cell.endswith("]") and mean.lstrip("−-").replace(".", "").isdigit()):
        return display_text(cell)
    return f"{escape(mean)}<small>{escape(interval.rstrip(']').replace(' ', ' – '))}</small>"


def _labels(result: StabilityResult, method: MethodStability) -> str:
    """What each baseline favours, and the rows of all labels where the table above has none."""
    items = "".join(
        f"<li{' class=strong' if item.carries_evidence else ''}><b>{display_text(item.name)}</b> "
        f"{display_text(item.favoured[0])} {number(item.favoured[1])}</li>"
        for item in method.baselines
    )
    favoured = f'<p class="part">What the model predicts from each baseline itself</p><ul class="favoured">{items}</ul>'
    shown_labels = {row[1] for table in tables(result, method) if table.name == "baselines" for row in table.rows}
    if len(shown_labels) > 1 or len(result.predicted_labels) < 2:
        return favoured
    rows = [row for item in method.baselines for row in baseline_rows(result, item, result.predicted_labels)]
    table = _table(BASELINES, rows, "baselines")
    return f"{favoured}<details><summary>The same for each predicted label</summary>{table}</details>"


def _matrices(method: MethodStability) -> str:
    matrices = "".join(
        f"<figure><figcaption>{title}</figcaption>{scrollable(_matrix(method, name), title)}</figure>"
        for name, title in (("iou", "IoU of the rationales"), ("rank", "Rank correlation of the scores"))
    )
    return f'<section><h3>Run against run</h3><div class="matrices">{matrices}</div></section>'


def _matrix(method: MethodStability, name: str) -> str:
    """A table of runs against runs, each cell coloured by its mean over inputs."""
    values = method.mean_matrix(name)
    numbers = range(1, len(method.runs) + 1)
    header = "".join(
        f'<th scope="col" title="{escape(run.title)}">{k}</th>' for k, run in zip(numbers, method.runs, strict=True)
    )
    rows = "".join(
        f'<tr><th scope="row"><b>{row + 1}</b> {escape(run.title)}</th>'
        + "".join(_shaded(float(value), row == column) for column, value in enumerate(values[row]))
        + "</tr>"
        for row, run in enumerate(method.runs)
    )
    return f'<table class="matrix"><thead><tr><td></td>{header}</tr></thead><tbody>{rows}</tbody></table>'


def _shaded(value: float, same_run: bool) -> str:
    if same_run:
        return '<td class="same"></td>'
    shade = 0 if math.isnan(value) else round(SHADES * min(max(value, 0.0), 1.0) ** 2)  # tells .8 from .9 apart
    text = "–" if math.isnan(value) else f"{value:.2f}".replace("0.", ".", 1)
    return f'<td class="h{shade}">{text}</td>'


def _cases(result: StabilityResult, method: MethodStability) -> str:
    if not method.disagreements:
        return ""
    cases = "".join(_case(result, case) for case in method.disagreements)
    return (
        f'<section><h3>The least stable inputs</h3><p class="caption">{escape(CAPTIONS["inputs"])}</p>{cases}</section>'
    )


def _case(result: StabilityResult, case: Disagreement) -> str:
    figures = (
        f"mean IoU {number(case.mean_iou)}; these two: IoU {number(case.iou)}, rank correlation {number(case.rank)}"
    )
    title = f"<b>{display_text(case.name)}</b> · {display_text(result.targets[case.number])} · {escape(figures)}"
    panels = "".join(_panels(case))
    return f'<div class="case"><p>{title}</p><div class="runs">{panels}</div></div>'


def _panels(case: Disagreement) -> Iterator[str]:
    """The image, if it is one, then the rationales of the two runs."""
    if isinstance(case.rationales[0].units, Grid):
        original = data_uri(canvas(case.rationales[0], IMAGE_SIDE).original)
        yield f'<figure><figcaption>The image</figcaption><img alt="{escape(case.name)}" src="{original}"></figure>'
    for run, rationale in zip(case.runs, case.rationales, strict=True):
        probabilities = rationale.probabilities
        facts = (
            f"{selection_size(rationale)}; alone {number(probabilities['rationale'][rationale.target])}, "
            f"complement {number(probabilities['complement'][rationale.target])}"
        )
        caption = f"<figcaption><b>{escape(run)}</b> {escape(facts)}</figcaption>"
        yield f"<figure>{caption}{_picture_or_text(rationale)}</figure>"


def _picture_or_text(rationale: Rationale) -> str:
    """The rationale of one run: a marked text, or the image under its heat map with the selection outlined."""
    if isinstance(rationale.units, Grid):
        pixels = canvas(rationale, IMAGE_SIDE).heat(outline=True)
        return f'<img alt="Heat map of the scores with the rationale outlined" src="{data_uri(pixels)}">'
    scale, several = scale_of(rationale), rationale.pair is not None
    indices = (0, 1) if several else (0,)
    return "".join(marked(rationale, scale, index, live=False, several=several) for index in indices)
