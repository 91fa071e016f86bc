"""Makes Unicode bidirectional control characters visible, so that they cannot reorder the text around them."""

from __future__ import annotations

import re

# Invisible characters that change the order in which other characters are displayed, and their abbreviations.
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
    """`text` with each control character replaced by its code point, such as '<U+202E>', for plain-text output."""
    return _CONTROL.sub(lambda match: f"<U+{ord(match.group()):04X}>", text)


def isolated(markup: str) -> str:
    """`markup` with each control character in an element of its own, which limits its effect and shows its name.

    The characters are kept, so offsets and copied text stay the same; article.css displays the names.
    """
    if markup.isascii():
        return markup
    return _CONTROL.sub(lambda match: f'<bdi class="c {NAMES[match.group()].lower()}">{match.group()}</bdi>', markup)
