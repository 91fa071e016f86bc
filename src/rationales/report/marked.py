"""The text itself as HTML: character for character, every unit coloured by its score, every span one shape."""

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

LEVELS = 20  # steps of colour; article.css holds one class for each

_UNSHOWABLE = re.compile("[\x00\ud800-\udfff]")  # what an HTML file cannot hold


def escape(value: str) -> str:
    """`value` as text or attribute value, such that a browser reads back exactly the same characters.

    A bare CR would be read as LF, so it is written as a reference; NUL and lone surrogates become U+FFFD.
    """
    return html.escape(_UNSHOWABLE.sub("\ufffd", value), quote=True).replace("\r", "&#13;")


def shown(value: str) -> str:
    """`value` as text: as `escape` writes it, each control of the writing direction shut in where it stands."""
    return isolated(escape(value))


def embedded_json(value: Any) -> str:
    """JSON that can stand inside a script element: nothing in it can end the element or a line of script."""
    content = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return content.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def marked(rationale: Rationale, scale: Scale, part: int, *, live: bool, several: bool) -> str:
    """One part of the text with its rationale marked; `live` when a script will look after it."""
    name = ("Text", "Pair")[part]
    label = f'<p class="part">{name}</p>' if several else ""
    walk = f' tabindex="0" role="group" aria-label="{name}; arrow keys walk through it"' if live else ""
    direction = "rtl" if right_to_left(rationale.part(part)) else "ltr"
    content = "".join(_pieces(rationale, scale, part, titles=not live))
    return f'{label}<div class="text" dir="{direction}" lang=""{walk}>{content}</div>'


def _pieces(rationale: Rationale, scale: Scale, part: int, *, titles: bool) -> Iterator[str]:
    """The part's text, character for character: a span or mark for each unit, an i for what stands between two.

    Selection is a matter of classes alone (in, first, last), so the script can change it without moving elements:
    on a text of 20,000 words that is the difference between a blink and ten seconds. Class t says that the next unit
    follows at once, and is a mark or follows one: there is then room for the line that closes a span.
    """
    text, position, before = rationale.part(part), 0, None
    levels = np.rint(scale.strength(rationale.scores) * LEVELS).astype(int).tolist()
    spans = rationale.spans()
    opening, closing = {span.first for span in spans}, {span.last for span in spans}
    selected = rationale.selected().tolist()
    units = [(index, unit) for index, unit in enumerate(rationale.words) if unit.part == part]
    following = [unit.start for _, unit in units[1:]] + [len(text) + 1]
    for (index, unit), next_start in zip(units, following, strict=False):  # a part may have no units
        start = max(unit.start, position)
        end = max(unit.end, start)
        gap, content = text[position:start], text[start:end]
        if before is None:
            yield f"<i>{shown(gap)}</i>" if gap else ""
        elif gap:
            inside = selected[before] and selected[index]
            look = unit_class(min(levels[before], levels[index], key=abs), "in" if inside else "")
            yield f"<i{look}>{shown(gap)}</i>"
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
        yield f"<{tag}{look}{title}>{shown(content)}</{tag}>"
        position, before = end, index
    ending = text[position:]
    yield f"<i>{shown(ending)}</i>" if ending else ""


def unit_class(level: int, *flags: str) -> str:
    """The class attribute: the strength (f for the target, a against it) comes first."""
    names = [f"{'f' if level > 0 else 'a'}{abs(level)}" if level else "", *flags]
    joined = " ".join(name for name in names if name)
    return f' class="{joined}"' if joined else ""


def right_to_left(text: str) -> bool:
    """Whether the first character with a direction is written from right to left.

    The browser's own dir="auto" decides the same way, but does so again for every element it reads: seconds on a
    long text.
    """
    if text.isascii():
        return False
    return next((kind != "L" for kind in map(unicodedata.bidirectional, text) if kind in ("L", "R", "AL")), False)
