"""Lines of words for a figure: where every piece of a text stands, by the width that a font gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rationales.rationale import Rationale
from rationales.report.html.marked_text import right_to_left
from rationales.report.scale import scale_of

Width = Callable[[str], float]  # of a text on one line


@dataclass(frozen=True)
class TextPiece:
    """A unit, or what stands between units."""

    text: str
    strength: float = 0.0  # of its colour, in [-1, 1]
    selected: bool = False
    opens: bool = False  # the first unit of a span
    closes: bool = False  # the last unit of a span

    @property
    def is_space(self) -> bool:
        """Whether a line can break here."""
        return not self.text.strip()


@dataclass(frozen=True)
class PlacedPiece:
    """A piece and where it stands; x is from the left edge, also in a text that is written from right to left."""

    piece: TextPiece
    line: int
    x: float
    width: float


def text_pieces(rationale: Rationale, text_index: int = 0) -> list[TextPiece]:
    """The text character for character, as units and what stands between them."""
    text, position = rationale.text_at(text_index), 0
    strengths, selected = scale_of(rationale).strength(rationale.scores), rationale.selected()
    spans = rationale.spans()
    opening, closing = {span.first for span in spans}, {span.last for span in spans}
    pieces: list[TextPiece] = []
    for number, unit in enumerate(rationale.words):
        if unit.text_index != text_index:
            continue
        inside = bool(selected[number]) and number not in opening
        pieces += _gap(text[position : unit.start], inside)
        pieces.append(
            TextPiece(
                text[max(unit.start, position) : unit.end],
                float(strengths[number]),
                bool(selected[number]),
                number in opening,
                number in closing,
            )
        )
        position = max(position, unit.end)
    return [piece for piece in [*pieces, *_gap(text[position:], False)] if piece.text]


def _gap(text: str, inside_span: bool) -> Iterator[TextPiece]:
    """White space and other characters between units, apart."""
    start = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or text[end].isspace() != text[start].isspace():
            yield TextPiece(text[start:end], selected=inside_span)
            start = end


def lay_out(pieces: Sequence[TextPiece], width: Width, line_width: float) -> list[PlacedPiece]:
    """The pieces on lines of at most `line_width`; lines break at white space, words that are too wide anywhere."""
    space = width("n n") - width("nn")
    placed: list[PlacedPiece] = []
    line, x = 0, 0.0
    for cluster in _clusters(pieces):
        first = cluster[0]
        if first.is_space:
            breaks = first.text.count("\n")
            if breaks:
                line, x = line + breaks, 0.0
            elif x:
                placed.append(PlacedPiece(replace(first, text=" "), line, x, space))
                x += space
            continue
        sizes = [width(piece.text) for piece in cluster]
        if x and x + sum(sizes) > line_width:
            if placed and placed[-1].piece.is_space:
                placed.pop()
            line, x = line + 1, 0.0
        for piece, size in zip(cluster, sizes, strict=True):
            for fragment, fragment_size in _fragments(piece, size, width, line_width):
                if x and x + fragment_size > line_width:
                    line, x = line + 1, 0.0
                placed.append(PlacedPiece(fragment, line, x, fragment_size))
                x += fragment_size
    if right_to_left("".join(piece.text for piece in pieces)):
        return [replace(piece, x=line_width - piece.x - piece.width) for piece in placed]
    return placed


def _clusters(pieces: Sequence[TextPiece]) -> Iterator[list[TextPiece]]:
    """Runs of pieces without white space between them, and every white space by itself."""
    cluster: list[TextPiece] = []
    for piece in pieces:
        if piece.is_space:
            if cluster:
                yield cluster
            yield [piece]
            cluster = []
        else:
            cluster.append(piece)
    if cluster:
        yield cluster


def _fragments(piece: TextPiece, size: float, width: Width, line_width: float) -> list[tuple[TextPiece, float]]:
    """A piece, cut where it is wider than a line."""
    if size <= line_width:
        return [(piece, size)]
    count = int(np.ceil(1.2 * size / line_width))
    step = max(1, -(-len(piece.text) // count))
    fragments = [piece.text[start : start + step] for start in range(0, len(piece.text), step)]
    last = len(fragments) - 1
    return [
        (
            replace(piece, text=fragment, opens=piece.opens and number == 0, closes=piece.closes and number == last),
            width(fragment),
        )
        for number, fragment in enumerate(fragments)
    ]
