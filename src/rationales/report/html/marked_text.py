"""The text as HTML, character for character: every unit is coloured by its score, every span outlined."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import numpy as np

from rationales.rationale import Rationale
from rationales.report.bidirectional import isolated
from rationales.report.scale import Scale

LEVELS = 20  # steps of colour; article.css has one class for each

_INVALID = re.compile("[\x00\ud800-\udfff]")  # characters that HTML does not allow


def escape(value: str) -> str:
    """`value` as text or attribute value, such that a browser reads back exactly the same characters.

    A bare CR would be read as LF, so it is written as a reference; NUL and lone surrogates become U+FFFD.
    """
    return html.escape(_INVALID.sub("\ufffd", value), quote=True).replace("\r", "&#13;")


def display_text(value: str) -> str:
    """`value` escaped, with each bidirectional control character isolated from the text around it."""
    return isolated(escape(value))


def embedded_json(value: Any) -> str:
    """JSON for the inside of a script element: it cannot end the element or a line of the script."""
    content = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return content.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def marked(rationale: Rationale, scale: Scale, text_index: int, *, live: bool, several: bool) -> str:
    """The text (0) or its pair (1) with the rationale marked; `live`: a script will update it."""
    name = ("Text", "Pair")[text_index]
    label = f'<p class="part">{name}</p>' if several else ""
    walk = f' tabindex="0" role="group" aria-label="{name}; arrow keys walk through it"' if live else ""
    direction = "rtl" if right_to_left(rationale.text_at(text_index)) else "ltr"
    content = "".join(_pieces(rationale, scale, text_index, titles=not live))
    return f'{label}<div class="text" dir="{direction}" lang=""{walk}>{content}</div>'


def _pieces(rationale: Rationale, scale: Scale, text_index: int, *, titles: bool) -> Iterator[str]:
    """The text, character for character: a span or mark element for each unit, an i element for each gap.

    The selection is expressed by classes alone (in, first, last), so that the script can change it without moving
    elements, which takes ten seconds on a text of 20,000 words. Class t: the next unit follows without a gap, so
    that space is needed for the line that closes a span.
    """
    text, position, before = rationale.text_at(text_index), 0, None
    levels = np.rint(scale.strength(rationale.scores) * LEVELS).astype(int).tolist()
    spans = rationale.spans()
    opening, closing = {span.first for span in spans}, {span.last for span in spans}
    selected = rationale.selected().tolist()
    units = [(index, unit) for index, unit in enumerate(rationale.words) if unit.text_index == text_index]
    following = [unit.start for _, unit in units[1:]] + [len(text) + 1]
    for (index, unit), next_start in zip(units, following, strict=False):  # a text may have no units
        start = max(unit.start, position)
        end = max(unit.end, start)
        gap, content = text[position:start], text[start:end]
        if before is None:
            yield f"<i>{display_text(gap)}</i>" if gap else ""
        elif gap:
            inside = selected[before] and selected[index]
            look = unit_class(min(levels[before], levels[index], key=abs), "in" if inside else "")
            yield f"<i{look}>{display_text(gap)}</i>"
        tight = end == next_start < len(text) and bool(content) and not (content[-1].isalnum() and text[end].isalnum())
        flags = (
            "in" if selected[index] else "",
            "first" if index in opening else "",
            "last" if index in closing else "",
            "t" if tight else "",
        )
        tag = "mark" if selected[index] else "span"
        title = f' title="{scale.number(float(rationale.scores[index]))}"' if titles else ""
        look = unit_class(levels[index], "r" if right_to_left(content) else "", *flags)
        yield f"<{tag}{look}{title}>{display_text(content)}</{tag}>"
        position, before = end, index
    ending = text[position:]
    yield f"<i>{display_text(ending)}</i>" if ending else ""


def unit_class(level: int, *flags: str) -> str:
    """The class attribute: the strength (f for the target, a against it) comes first."""
    names = [f"{'f' if level > 0 else 'a'}{abs(level)}" if level else "", *flags]
    joined = " ".join(name for name in names if name)
    return f' class="{joined}"' if joined else ""


def right_to_left(text: str) -> bool:
    """Whether the first character with a direction is written from right to left.

    The browser's dir="auto" applies the same rule, but to every element, which takes seconds on a long text.
    """
    if text.isascii():
        return False
    return next((kind != "L" for kind in map(unicodedata.bidirectional, text) if kind in ("L", "R", "AL")), False)
