"""The rationale of a text and an image as HTML: the words and three panels of the image, without a script."""

from __future__ import annotations

from collections.abc import Iterator

from rationales.rationale import Rationale
from rationales.report.html import image_view
from rationales.report.html.marked_text import escape, marked
from rationales.report.scale import scale_of
from rationales.report.wording import rule_text, selection_size


def content(rationale: Rationale, word_legend: str) -> Iterator[str]:
    """The text with its words marked, and the image, its scores and its cut-out side by side."""
    words, picture = rationale.text_part, rationale.image_part
    yield marked(words, scale_of(words), 0, live=False, several=False)
    yield word_legend
    yield image_view.side_by_side(picture)
    yield image_view.legend(picture, scale_of(picture))
    yield f'<p class="caption">{escape(selection_size(rationale))} · {escape(rule_text(rationale))}</p>'
