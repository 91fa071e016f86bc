"""Controls of the writing direction, made visible and harmless: none of them can reorder what stands beside it."""

from __future__ import annotations

import re

# U+202E and its like: characters that no one sees and that change the order in which the others are shown.
NAMES = {
    "\u061c": "ALM",
    "\u200e": "LRM",
    "\u200f": "RLM",
    "\u202a": "LRE",
    "\u202b": "RLE",
    "\u202c": "PDF",
    "\u202d": "LRO",
    "\u202e": "RLO",
    "\u2066": "LRI",
    "\u2067": "RLI",
    "\u2068": "FSI",
    "\u2069": "PDI",
}
_CONTROL = re.compile(f"[{''.join(NAMES)}]")


def visible(text: str) -> str:
    """`text` with each control as the name of its code point, for places that hold characters only."""
    return _CONTROL.sub(lambda match: f"<U+{ord(match.group()):04X}>", text)


def isolated(markup: str) -> str:
    """Escaped text with each control in an element of its own, which ends its effect and shows its name.

    The characters stay what they are, and so do offsets and copied text; the names stand in article.css.
    """
    if markup.isascii():
        return markup
    return _CONTROL.sub(lambda match: f'<bdi class="c {NAMES[match.group()].lower()}">{match.group()}</bdi>', markup)
