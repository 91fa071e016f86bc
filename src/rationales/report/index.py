"""The index of a page with several rationales: what was predicted, of which input, and a box that filters."""

from __future__ import annotations

from collections.abc import Sequence

from rationales.rationale import Rationale
from rationales.report.marked import escape, shown
from rationales.report.words import percent, predicted, size

EXCERPT = 90  # characters of a text in the index


def index(rationales: Sequence[Rationale], title: str) -> str:
    """One line for each rationale, with a link to it; the script filters lines and articles by what lines say."""
    box = (
        '<p class="find"><input type="search" class="filter" aria-label="Filter by label, name or words" '
        'placeholder="Filter by label, name or words"><output class="matches"></output></p>'
        if len(rationales) > 1
        else ""
    )
    items = "".join(_line(number, rationale) for number, rationale in enumerate(rationales, 1))
    return f'<nav aria-label="Index"><h1>{escape(title)}</h1>{box}<ol>{items}</ol></nav>'


def excerpt_of(rationale: Rationale) -> str:
    """The first words of a text; the size of a picture or a sound."""
    words = " ".join((size(rationale) or rationale.text[: 4 * EXCERPT]).split())
    return words if len(words) <= EXCERPT else words[:EXCERPT].rsplit(" ", 1)[0] + " …"


def _line(number: int, rationale: Rationale) -> str:
    full, label = rationale.probabilities.get("full", {}), predicted(rationale) or rationale.target
    probability = escape(percent(full[label])) if label in full else ""
    explained = "" if label == rationale.target else f"<small>explained: {shown(rationale.target)}</small> "
    name = f'<b class="name">{shown(rationale.name)}</b> ' if rationale.name else ""
    return (
        f'<li><a href="#r{number}"><em>{shown(label)}</em> <b class="chance">{probability}</b> '
        f'<span>{explained}{name}<bdi lang="">{shown(excerpt_of(rationale))}</bdi></span></a></li>'
    )
