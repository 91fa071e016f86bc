"""Where the tokens of a text stand in it, checked: some tokenizers say nothing about that, and some say it wrongly."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

import numpy as np

from rationales.models.units import Extent, columns, trim

_MARKS = ("##", "▁", "Ġ", "</w>", "@@")  # how tokenizers write "goes on" or "a space was here"
_DROPPED = {"Mn", "Me", "Cc", "Cf", "Cn", "Co", "Cs", "Zs", "Zl", "Zp"}  # categories a normaliser may swallow
_REACH = 64  # characters a token may lie ahead of where it was expected
_KNOWN = 2**15  # distinct pieces and characters that are remembered: texts repeat their words


def trustworthy(text: str, extents: Sequence[Extent], pieces: Sequence[str]) -> bool:
    """Whether extents really say where the tokens stand.

    They run from left to right, leave no visible character out, and plain pieces are spelled as the text is there.
    """
    starts, ends = columns(extents)
    if (starts < 0).any() or (starts > ends).any() or (ends > len(text)).any() or (np.diff(starts) < 0).any():
        return False
    until = np.maximum.accumulate(np.concatenate([[0], ends]))  # in order: what lies before has been looked at
    following = np.concatenate([starts, [len(text)]])
    gaps = np.flatnonzero(following > until)
    missing = "".join(
        text[begin:end] for begin, end in zip(until[gaps].tolist(), following[gaps].tolist(), strict=True)
    )
    if not (missing.isspace() or all(map(_swallowed, missing))):
        return False
    plain = [_plain(piece) for piece in pieces]
    wanted = 0.9 * (len(plain) - plain.count(None))
    there = [text[start:end] for start, end in extents]
    if sum(own == seen.casefold() for own, seen in zip(plain, there, strict=True)) >= wanted:
        return True
    both = [(own, seen) for own, seen in zip(plain, there, strict=True) if own is not None]
    return sum(_spelling(own) == _spelling(seen) for own, seen in both) >= wanted


def align(text: str, pieces: Sequence[str]) -> list[Extent]:
    """Find the tokens in the text by their spelling, from left to right.

    A token that cannot be found (unknown, a part of a character's bytes) gets the stretch between its neighbours.
    """
    letters: list[str] = []
    place: list[int] = []  # place[k]: the character that letter k comes from
    for index, mark in enumerate(text):
        for letter in _letters(mark):
            letters.append(letter)
            place.append(index)
    plain = "".join(letters)
    found: list[Extent | None] = []
    cursor = 0
    for piece in pieces:
        wanted = _spelling(piece)
        at = plain.find(wanted, cursor, cursor + len(wanted) + _REACH) if wanted and "\ufffd" not in wanted else -1
        if at < 0:
            found.append(None)
            continue
        cursor = at + len(wanted)
        found.append((place[at], place[cursor - 1] + 1))
    return _fill(text, found)


def _fill(text: str, found: Sequence[Extent | None]) -> list[Extent]:
    """Give every token that was not found what lies between those that were."""
    following: list[int] = []
    start = len(text)
    for extent in reversed(found):
        start = extent[0] if extent else start
        following.append(start)
    following.reverse()
    extents: list[Extent] = []
    end = 0
    for extent, limit in zip(found, following, strict=True):
        if extent is None:
            extents.append(trim(text, min(end, limit), limit))
        else:
            extents.append(extent)
            end = extent[1]
    return extents


def _bare(piece: str) -> str:
    """The piece without the tokenizer's own marks."""
    for mark in _MARKS:
        piece = piece.replace(mark, "") if piece != mark else piece
    return piece


@functools.lru_cache(_KNOWN)
def _plain(piece: str) -> str | None:
    """A piece of plain letters and figures without marks and case; None for any other."""
    bare = _bare(piece)
    return bare.casefold() if bare.isascii() and bare.isalnum() else None


@functools.lru_cache(_KNOWN)
def _spelling(piece: str) -> str:
    return "".join(letter for mark in _bare(piece) for letter in _letters(mark))


@functools.lru_cache(_KNOWN)
def _swallowed(mark: str) -> bool:
    """Whether a normaliser may leave this character out."""
    return unicodedata.category(mark) in _DROPPED


@functools.lru_cache(_KNOWN)
def _letters(mark: str) -> str:
    """One character as tokenizers compare it: without case, accents and space."""
    decomposed = unicodedata.normalize("NFKD", mark.casefold())
    return "".join(letter for letter in decomposed if not letter.isspace() and not _swallowed(letter))
