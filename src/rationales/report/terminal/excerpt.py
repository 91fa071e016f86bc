"""Excerpts of long texts: the spans of the rationale, some words around them, and how many words are omitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rationales.rationale import Rationale, Span

LIMIT = 400  # units: a text up to this length is shown in full
CONTEXT = 12  # units shown on either side of a span


@dataclass(frozen=True)
class ExcerptPiece:
    """Units first..last (inclusive) of one text (0) or its pair (1), after `skipped` units that are not shown."""

    text_index: int
    first: int
    last: int
    skipped: int


@dataclass(frozen=True)
class Excerpt:
    """The pieces in the order of the text; `tails`: text index -> number of units omitted after its last piece."""

    pieces: tuple[ExcerptPiece, ...]
    tails: dict[int, int]
    left_out: int  # units not shown
    spans_left_out: int


def excerpt(rationale: Rationale, limit: int = LIMIT, context: int = CONTEXT) -> Excerpt:
    """The full text when it has at most `limit` units, else its best spans with context, about `limit` units."""
    ranges = _unit_ranges(rationale)
    if len(rationale.words) <= limit:
        full_pieces = tuple(ExcerptPiece(index, *bounds, 0) for index, bounds in ranges.items())
        return Excerpt(full_pieces, dict.fromkeys(ranges, 0), 0, 0)
    spans = rationale.spans()
    best_spans = list(_best(spans, limit, context))
    ends = [min(span.last, span.first + limit) + context for span in best_spans]
    windows = [(span.text_index, span.first - context, end) for span, end in zip(best_spans, ends, strict=True)]
    if not windows:  # nothing is selected: show the surroundings of the highest score
        best = int(rationale.scores.argmax())
        windows = [(rationale.words[best].text_index, best - context, best + context)]
    pieces: list[ExcerptPiece] = []
    tails: dict[int, int] = {}
    for text_index, (start, end) in ranges.items():
        position = start
        for first, last in _merged([(a, b) for index, a, b in windows if index == text_index], start, end):
            pieces.append(ExcerptPiece(text_index, first, last, first - position))
            position = last + 1
        tails[text_index] = end + 1 - position
    visible = sum(piece.last - piece.first + 1 for piece in pieces)
    return Excerpt(tuple(pieces), tails, len(rationale.words) - visible, len(spans) - len(best_spans))


def _unit_ranges(rationale: Rationale) -> dict[int, tuple[int, int]]:
    """Text index -> (first, last) of its units."""
    ranges: dict[int, tuple[int, int]] = {}
    for number, unit in enumerate(rationale.words):
        ranges[unit.text_index] = (ranges.get(unit.text_index, (number, number))[0], number)
    return ranges


def _best(spans: list[Span], limit: int, context: int) -> Iterator[Span]:
    """Spans by score until their words and context fill the limit; always at least one."""
    remaining = limit
    for span in sorted(spans, key=lambda span: -span.score):
        yield span
        remaining -= span.last - span.first + 1 + 2 * context
        if remaining <= 0:
            return


def _merged(windows: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """The windows within start..end; overlapping or adjacent windows are joined."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted((max(a, start), min(b, end)) for a, b in windows):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined
