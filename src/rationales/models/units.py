"""What a text is made of: words, sentences or tokens, each with the characters it stands at."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np
import regex

UnitKind = Literal["word", "token", "sentence"]
Extent = tuple[int, int]  # start and end in characters

# Word boundaries of Unicode's annex 29: keeps "wasn't" and "3.14" whole, splits Chinese by character, knows emoji.
_BOUNDARY = regex.compile(r"(?V1w)\b")
_KNOWN, _LONG = 2**15, 64  # chunks that are remembered, if they are shorter than this
_SPACE, _PLAIN, _MARK = range(3)
_ASCII = np.array(
    [_SPACE if chr(code) in " \t\n\v\f\r" else _PLAIN if chr(code).isalnum() else _MARK for code in range(128)]
)
_VISIBLE = regex.compile(r"[^\s\p{Cc}\p{Zs}\p{Zl}\p{Zp}]")
_PUNCTUATION = regex.compile(r"^\p{P}$|^\p{S}$")
# The look ahead comes first: a long run of quotes is then looked back over once, not once for each of them.
_SENTENCE_END = regex.compile(r"(?=\s)(?<=[.!?…。！？]['\"”’)\]]*)\s+|\n\s*|(?<=[。！？])")


def words(text: str) -> list[Extent]:
    """The words and marks of a text, in order; all characters outside them are white space or controls."""
    if not text.isascii():
        return _words(text)
    kinds = _ASCII[np.frombuffer(text.encode(), np.uint8)]
    cuts = np.flatnonzero(np.diff(kinds == _SPACE, prepend=True, append=True))
    begins, ends = cuts[::2], cuts[1::2]
    chunks = list(zip(begins.tolist(), ends.tolist(), strict=True))  # no word of ASCII goes beyond a space
    marks = np.cumsum(kinds == _MARK)
    mixed = np.flatnonzero((marks[ends - 1] > marks[begins]) | (kinds[begins] == _MARK)).tolist()
    found: list[Extent] = []
    done = 0
    for place in mixed:
        begin, end = chunks[place]
        chunk = text[begin:end]
        parts = _chunk(chunk) if len(chunk) < _LONG else _words(chunk)  # texts repeat what stands between spaces
        found += chunks[done:place]
        found += [(begin + start, begin + stop) for start, stop in parts]
        done = place + 1
    return found + chunks[done:]


def _words(text: str) -> list[Extent]:
    cuts = [0, *(match.start() for match in _BOUNDARY.finditer(text)), len(text)]
    found: list[Extent] = []
    for start, end in itertools.pairwise(cuts):
        mark = text[start:end]
        if mark.isalnum():  # most are; nothing to cut off, and no mark
            found.append((start, end))
            continue
        if mark == " ":
            continue
        start, end = trim(text, start, end)
        if start == end:
            continue
        mark = text[start:end]
        if found and found[-1][1] == start and _PUNCTUATION.match(mark) and text[found[-1][1] - 1] == mark:
            found[-1] = (found[-1][0], end)  # "..." and "!!!" are one mark
        else:
            found.append((start, end))
    return found


@functools.lru_cache(_KNOWN)
def _chunk(chunk: str) -> tuple[Extent, ...]:
    return tuple(_words(chunk))


def sentences(text: str) -> list[Extent]:
    """The sentences of a text: cut after closing marks followed by space, and at line ends."""
    cuts = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    extents = (trim(text, start, end) for start, end in itertools.pairwise(cuts))
    return [(start, end) for start, end in extents if start < end]


def trim(text: str, start: int, end: int) -> Extent:
    """The extent without white space and controls at its ends; empty when there is nothing else."""
    while start < end and not _VISIBLE.match(text, start):
        start += 1
    while end > start and not _VISIBLE.match(text, end - 1):
        end -= 1
    return start, end


def tie(units: Sequence[Extent], tokens: Sequence[Extent]) -> tuple[list[Extent], list[int]]:
    """Make every token belong to exactly one unit.

    Units that share a token become one. A token that covers no unit's character (white space of its own) goes with the
    unit that follows it, or the last one. Units without any token (dropped by the tokenizer) join their neighbour, so
    that each unit can be kept or replaced. Returns the extents of the units and, for each token, its unit.
    """
    if not tokens:
        return _grouped(units, [], [])
    reached, touched = _met(units, tokens)
    first = np.maximum.accumulate(reached)  # an empty token never goes back
    last = np.maximum(first, touched)
    owners = 1 + np.count_nonzero(np.diff(first))
    if owners == len(units) and np.array_equal(first, last):  # each unit has tokens of its own, and none is shared
        return list(units), first.tolist()
    return _grouped(units, first.tolist(), last.tolist())


def _grouped(units: Sequence[Extent], first: Sequence[int], last: Sequence[int]) -> tuple[list[Extent], list[int]]:
    """`first`, `last`: of each token the units that it covers; the first ones rise."""
    reach = list(range(len(units)))  # reach[u]: the last unit that u is tied to
    for low, high in zip(first, last, strict=True):
        reach[low] = max(reach[low], high)
    owned = set(first)
    groups: list[list[int]] = []
    until = -1
    for unit in range(len(units)):
        orphan = unit not in owned and unit > until
        if groups and (unit <= until or orphan):
            groups[-1].append(unit)
        else:
            groups.append([unit])
        until = max(until, reach[unit])
    if len(groups) > 1 and not owned.intersection(groups[0]):  # orphans at the very beginning go with what follows
        groups[0:2] = [groups[0] + groups[1]]
    group_of = {unit: number for number, group in enumerate(groups) for unit in group}
    extents = [(units[group[0]][0], units[group[-1]][1]) for group in groups]
    return extents, [group_of[unit] for unit in first]


def _met(units: Sequence[Extent], tokens: Sequence[Extent]) -> tuple[np.ndarray, np.ndarray]:
    """Per token two units: the first that ends after its start, the last that begins before its end.

    For an empty token the first is one that ends at or after it. The last of all where none is the first; -1 where none
    is the last.
    """
    begins, ends = columns(units)
    starts, stops = columns(tokens)
    after = np.searchsorted(ends, starts, side="right")
    first = np.where(starts == stops, np.searchsorted(ends, starts, side="left"), after)
    return np.minimum(first, len(units) - 1), np.searchsorted(begins, stops, side="left") - 1


def columns(extents: Sequence[Extent]) -> np.ndarray:
    """(2, n): where they begin, and where they end."""
    flat = np.fromiter(itertools.chain.from_iterable(extents), np.int64, 2 * len(extents))
    return flat.reshape(-1, 2).T
