"""What to show of a text too long to show: the spans, some words around them, and how many words lie between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rationales.rationale import Rationale, Span

LIMIT = 400  # units: a text up to this long is shown whole
CONTEXT = 12  # units shown on either side of a span


@dataclass(frozen=True)
class Piece:
    """Units first..last (inclusive) of one part, after `skipped` units of that part that are not shown."""

    part: int
    first: int
    last: int
    skipped: int


@dataclass(frozen=True)
class Excerpt:
    """The pieces in the order of the text; `tails` counts the units left out behind the last piece of each part."""

    pieces: tuple[Piece, ...]
    tails: dict[int, int]
    left_out: int  # units not shown
    spans_left_out: int


def excerpt(rationale: Rationale, limit: int = LIMIT, context: int = CONTEXT) -> Excerpt:
    """The whole text when it has at most `limit` units, else its best spans with context, about `limit` units."""
    ranges = _part_ranges(rationale)
    if len(rationale.words) <= limit:
        return Excerpt(
            tuple(Piece(part, *bounds, 0) for part, bounds in ranges.items()), dict.fromkeys(ranges, 0), 0, 0
        )
    spans = rationale.spans()
    shown = list(_best(spans, limit, context))
    windows = [(span.part, span.first - context, min(span.last, span.first + limit) + context) for span in shown]
    if not windows:  # nothing is selected: show the place that came nearest to it
        best = int(rationale.scores.argmax())
        windows = [(rationale.words[best].part, best - context, best + context)]
    pieces: list[Piece] = []
    tails: dict[int, int] = {}
    for part, (start, end) in ranges.items():
        position = start
        for first, last in _merged([(a, b) for p, a, b in windows if p == part], start, end):
            pieces.append(Piece(part, first, last, first - position))
            position = last + 1
        tails[part] = end + 1 - position
    visible = sum(piece.last - piece.first + 1 for piece in pieces)
    return Excerpt(tuple(pieces), tails, len(rationale.words) - visible, len(spans) - len(shown))


def _part_ranges(rationale: Rationale) -> dict[int, tuple[int, int]]:
    """part -> (first, last) of its units."""
    ranges: dict[int, tuple[int, int]] = {}
    for index, unit in enumerate(rationale.words):
        ranges[unit.part] = (ranges.get(unit.part, (index, index))[0], index)
    return ranges


def _best(spans: list[Span], limit: int, context: int) -> Iterator[Span]:
    """Spans by score until their words and context fill the limit; always at least one."""
    room = limit
    for span in sorted(spans, key=lambda span: -span.score):
        yield span
        room -= span.last - span.first + 1 + 2 * context
        if room <= 0:
            return


def _merged(windows: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """The windows within start..end, those that touch joined."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted((max(a, start), min(b, end)) for a, b in windows):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined
