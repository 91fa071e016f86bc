"""The units of a text: words, sentences or tokens, each with its character offsets."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np
import regex

UnitKind = Literal["word", "token", "sentence"]
Extent = tuple[int, int]  # start and end in characters

# Word boundaries of Unicode's annex 29: "wasn't" and "3.14" are one word, Chinese is split by character.
_BOUNDARY = regex.compile(r"(?V1w)\b")
_KNOWN, _LONG = 2**15, 64  # cached chunks, and the length from which chunks are not cached
_SPACE, _PLAIN, _MARK = range(3)
_ASCII = np.array(
    [_SPACE if chr(code) in " \t\n\v\f\r" else _PLAIN if chr(code).isalnum() else _MARK for code in range(128)]
)
_VISIBLE = regex.compile(r"[^\s\p{Cc}\p{Zs}\p{Zl}\p{Zp}]")
_PUNCTUATION = regex.compile(r"^\p{P}$|^\p{S}$")
# The lookahead comes first, so that the lookbehind over a long run of quotes is tried only once.
_SENTENCE_END = regex.compile(r"(?=\s)(?<=[.!?…。！？]['\"”’)\]]*)\s+|\n\s*|(?<=[。！？])")


def words(text: str) -> list[Extent]:
    """The words and marks of a text, in order; all characters outside them are white space or controls."""
    if not text.isascii():
        return _words(text)
    kinds = _ASCII[np.frombuffer(text.encode(), np.uint8)]
    cuts = np.flatnonzero(np.diff(kinds == _SPACE, prepend=True, append=True))
    begins, ends = cuts[::2], cuts[1::2]
    chunks = list(zip(begins.tolist(), ends.tolist(), strict=True))  # no ASCII word contains a space
    marks = np.cumsum(kinds == _MARK)
    mixed = np.flatnonzero((marks[ends - 1] > marks[begins]) | (kinds[begins] == _MARK)).tolist()
    extents: list[Extent] = []
    done = 0
    for chunk_index in mixed:
        begin, end = chunks[chunk_index]
        chunk = text[begin:end]
        chunk_words = _chunk(chunk) if len(chunk) < _LONG else _words(chunk)  # cached: texts repeat words
        extents += chunks[done:chunk_index]
        extents += [(begin + start, begin + stop) for start, stop in chunk_words]
        done = chunk_index + 1
    return extents + chunks[done:]


def _words(text: str) -> list[Extent]:
    cuts = [0, *(match.start() for match in _BOUNDARY.finditer(text)), len(text)]
    extents: list[Extent] = []
    for start, end in itertools.pairwise(cuts):
        piece = text[start:end]
        if piece.isalnum():  # the usual case: nothing to trim
            extents.append((start, end))
            continue
        if piece == " ":
            continue
        start, end = trim(text, start, end)
        if start == end:
            continue
        piece = text[start:end]
        if extents and extents[-1][1] == start and _PUNCTUATION.match(piece) and text[extents[-1][1] - 1] == piece:
            extents[-1] = (extents[-1][0], end)  # "..." and "!!!" are one unit
        else:
            extents.append((start, end))
    return extents


@functools.lru_cache(_KNOWN)
def _chunk(chunk: str) -> tuple[Extent, ...]:
    return tuple(_words(chunk))


def sentences(text: str) -> list[Extent]:
    """The sentences of a text: cut after closing marks before white space, and at line ends."""
    cuts = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    extents = (trim(text, start, end) for start, end in itertools.pairwise(cuts))
    return [(start, end) for start, end in extents if start < end]


def trim(text: str, start: int, end: int) -> Extent:
    """The extent without white space and controls at its ends; may be empty."""
    while start < end and not _VISIBLE.match(text, start):
        start += 1
    while end > start and not _VISIBLE.match(text, end - 1):
        end -= 1
    return start, end


def assign_tokens(units: Sequence[Extent], tokens: Sequence[Extent]) -> tuple[list[Extent], list[int]]:
    """The extents of units, merged so that every token belongs to exactly one, and the unit of each token.

    Units that share a token are merged. A token without a character of any unit (white space) goes with the following
    unit, or the last. Units without a token (dropped by the tokenizer) are merged with their neighbour, so that each
    unit can be kept or replaced.
    """
    if not tokens:
        return _merged_units(units, [], [])
    reached, touched = _covered_units(units, tokens)
    first = np.maximum.accumulate(reached)  # empty tokens never go back
    last = np.maximum(first, touched)
    owners = 1 + np.count_nonzero(np.diff(first))
    if owners == len(units) and np.array_equal(first, last):  # each unit has tokens, and none is shared
        return list(units), first.tolist()
    return _merged_units(units, first.tolist(), last.tolist())


def _merged_units(units: Sequence[Extent], first: Sequence[int], last: Sequence[int]) -> tuple[list[Extent], list[int]]:
    """As `assign_tokens`; `first`, `last`: the units that each token covers, `first` in rising order."""
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
    if len(groups) > 1 and not owned.intersection(groups[0]):  # units without tokens at the very beginning
        groups[0:2] = [groups[0] + groups[1]]
    group_of = {unit: number for number, group in enumerate(groups) for unit in group}
    extents = [(units[group[0]][0], units[group[-1]][1]) for group in groups]
    return extents, [group_of[unit] for unit in first]


def _covered_units(units: Sequence[Extent], tokens: Sequence[Extent]) -> tuple[np.ndarray, np.ndarray]:
    """Per token two units: the first that ends after its start, and the last that begins before its end.

    For an empty token the first may also end at it. Without such a unit, the first is the last unit of all and the last
    is -1.
    """
    begins, ends = starts_and_ends(units)
    starts, stops = starts_and_ends(tokens)
    after = np.searchsorted(ends, starts, side="right")
    first = np.where(starts == stops, np.searchsorted(ends, starts, side="left"), after)
    return np.minimum(first, len(units) - 1), np.searchsorted(begins, stops, side="left") - 1


def starts_and_ends(extents: Sequence[Extent]) -> np.ndarray:
    """(2, n): the starts and the ends."""
    flat = np.fromiter(itertools.chain.from_iterable(extents), np.int64, 2 * len(extents))
    return flat.reshape(-1, 2).T
