"""Character offsets of tokens: a check of those that a tokenizer reports, and a search by spelling without them."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

import numpy as np

from rationales.models.text.units import Extent, starts_and_ends, trim

_MARKS = ("##", "▁", "Ġ", "</w>", "@@")  # of tokenizers: continuation of a word, or a space before it
_DROPPED = {"Mn", "Me", "Cc", "Cf", "Cn", "Co", "Cs", "Zs", "Zl", "Zp"}  # categories that a normaliser may remove
_REACH = 64  # characters that a token may lie ahead of its expected position
_KNOWN = 2**15  # size of the caches of pieces and characters


def trustworthy(text: str, extents: Sequence[Extent], pieces: Sequence[str]) -> bool:
    """Whether these extents of tokens are correct.

    They must run from left to right, leave no visible character out, and plain pieces must match the text there.
    """
    starts, ends = starts_and_ends(extents)
    if (starts < 0).any() or (starts > ends).any() or (ends > len(text)).any() or (np.diff(starts) < 0).any():
        return False
    previous_end = np.maximum.accumulate(np.concatenate([[0], ends]))  # of all extents before
    following = np.concatenate([starts, [len(text)]])
    gaps = np.flatnonzero(following > previous_end)
    missing = "".join(
        text[begin:end] for begin, end in zip(previous_end[gaps].tolist(), following[gaps].tolist(), strict=True)
    )
    if not (missing.isspace() or all(map(_swallowed, missing))):
        return False
    plain_pieces = [_plain(piece) for piece in pieces]
    required_matches = 0.9 * (len(plain_pieces) - plain_pieces.count(None))
    text_pieces = [text[start:end] for start, end in extents]
    pairs = list(zip(plain_pieces, text_pieces, strict=True))
    if sum(piece == text_piece.casefold() for piece, text_piece in pairs) >= required_matches:
        return True
    comparable = [(piece, text_piece) for piece, text_piece in pairs if piece is not None]
    return sum(_spelling(piece) == _spelling(text_piece) for piece, text_piece in comparable) >= required_matches


def align(text: str, pieces: Sequence[str]) -> list[Extent]:
    """The extents of tokens, found in the text by their spelling, from left to right.

    A token that is not found (unknown, or some bytes of a character) gets the characters between its neighbours.
    """
    letters = [_letters(character) for character in text]
    source_index = [index for index, spelled in enumerate(letters) for _ in spelled]  # of each letter's character
    plain_text = "".join(letters)
    extents: list[Extent | None] = []
    cursor = 0
    for piece in pieces:
        spelling = _spelling(piece)
        position = plain_text.find(spelling, cursor, cursor + len(spelling) + _REACH)
        if not spelling or "\ufffd" in spelling or position < 0:
            extents.append(None)
            continue
        cursor = position + len(spelling)
        extents.append((source_index[position], source_index[cursor - 1] + 1))
    return _fill(text, extents)


def _fill(text: str, extents_or_none: Sequence[Extent | None]) -> list[Extent]:
    """Extents in which every token that was not found gets the characters between those that were."""
    following: list[int] = []
    start = len(text)
    for extent in reversed(extents_or_none):
        start = extent[0] if extent else start
        following.append(start)
    following.reverse()
    filled: list[Extent] = []
    end = 0
    for extent, limit in zip(extents_or_none, following, strict=True):
        if extent is None:
            filled.append(trim(text, min(end, limit), limit))
        else:
            filled.append(extent)
            end = extent[1]
    return filled


def _bare(piece: str) -> str:
    """The piece without the tokenizer's prefixes and suffixes."""
    for prefix in _MARKS:
        piece = piece.replace(prefix, "") if piece != prefix else piece
    return piece


@functools.lru_cache(_KNOWN)
def _plain(piece: str) -> str | None:
    """A piece of ASCII letters and digits in lower case; None for any other piece."""
    bare = _bare(piece)
    return bare.casefold() if bare.isascii() and bare.isalnum() else None


@functools.lru_cache(_KNOWN)
def _spelling(piece: str) -> str:
    return "".join(letter for character in _bare(piece) for letter in _letters(character))


@functools.lru_cache(_KNOWN)
def _swallowed(character: str) -> bool:
    """Whether a normaliser may remove this character."""
    return unicodedata.category(character) in _DROPPED


@functools.lru_cache(_KNOWN)
def _letters(character: str) -> str:
    """A character without case, accents and space, as normalisers change it."""
    decomposed = unicodedata.normalize("NFKD", character.casefold())
    return "".join(letter for letter in decomposed if not letter.isspace() and not _swallowed(letter))
