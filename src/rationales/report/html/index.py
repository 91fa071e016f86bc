"""The index of a page with several rationales: prediction and input of each, and a filter box."""

from __future__ import annotations

from collections.abc import Sequence

from rationales.rationale import Rationale
from rationales.report.html.marked_text import display_text, escape
from rationales.report.wording import input_size, percent, predicted_label

EXCERPT = 90  # characters of a text in the index


def index(rationales: Sequence[Rationale], title: str) -> str:
    """One line with a link for each rationale; the script filters lines and articles by the text of the lines."""
    box = (
        '<p class="find"><input type="search" class="filter" aria-label="Filter by label, name or words" '
        'placeholder="Filter by label, name or words"><output class="matches"></output></p>'
        if len(rationales) > 1
        else ""
    )
    items = "".join(_line(number, rationale) for number, rationale in enumerate(rationales, 1))
    return f'<nav aria-label="Index"><h1>{escape(title)}</h1>{box}<ol>{items}</ol></nav>'


def excerpt_of(rationale: Rationale) -> str:
    """The first words of a text; the size of an image or a sound."""
    words = " ".join((input_size(rationale) or rationale.text[: 4 * EXCERPT]).split())
    return words if len(words) <= EXCERPT else words[:EXCERPT].rsplit(" ", 1)[0] + " …"


def _line(number: int, rationale: Rationale) -> str:
    full, label = rationale.probabilities.get("full", {}), predicted_label(rationale) or rationale.target
    probability = escape(percent(full[label])) if label in full else ""
    explained = "" if label == rationale.target else f"<small>explained: {display_text(rationale.target)}</small> "
    name = f'<b class="name">{display_text(rationale.name)}</b> ' if rationale.name else ""
    return (
        f'<li><a href="#r{number}"><em>{display_text(label)}</em> <b class="chance">{probability}</b> '
        f'<span>{explained}{name}<bdi lang="">{display_text(excerpt_of(rationale))}</bdi></span></a></li>'
    )
