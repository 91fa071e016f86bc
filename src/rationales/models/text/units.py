"""The units of a text: words, sentences or tokens with their character offsets, and where a span would cut a phrase.

A tokenizer's offsets are checked against the text, and searched by spelling where it reports none. Phrases are found
without a parser, by closed lists of English function words, and by marks between letters without a space, in any
language. These are proposals; the model decides whether a span is moved (masks/snapping.py). In texts of other
languages few of the words occur, and little is proposed.
"""

from __future__ import annotations

import enum
import functools
import itertools
import operator
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import regex

from rationales.rationale_parts import Unit

UnitKind = Literal["word", "token", "sentence"]
Extent = tuple[int, int]  # start and end in characters

# Word boundaries of Unicode's annex 29: "wasn't" and "3.14" are one word, Chinese is split by character.
_BOUNDARY = regex.compile(r"(?V1w)\b")
_KNOWN, _LONG = 2**15, 64  # cached chunks, and the length from which chunks are not cached
_SPACE, _PLAIN, _MARK = range(3)
_ASCII = np.array(
    [_SPACE if chr(code) in " \t\n\v\f\r" else _PLAIN if chr(code).isalnum() else _MARK for code in range(128)],
    dtype=np.uint8,
)
_VISIBLE = regex.compile(r"[^\s\p{Cc}\p{Zs}\p{Zl}\p{Zp}]")
_PUNCTUATION = regex.compile(r"^\p{P}$|^\p{S}$")
# The lookahead comes first, so that the lookbehind over a long run of quotes is tried only once.
_SENTENCE_END = regex.compile(r"(?=\s)(?<=[.!?…。！？]['\"”’)\]]*)\s+|\n\s*|(?<=[。！？])")


def words(text: str) -> list[Extent]:
    """The words and marks of a text, in order; all characters outside them are white space or controls."""
    if not text.isascii():
        return split_words(text)
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
        chunk_words = _chunk(chunk) if len(chunk) < _LONG else split_words(chunk)  # cached: texts repeat words
        extents += chunks[done:chunk_index]
        extents += [(begin + start, begin + stop) for start, stop in chunk_words]
        done = chunk_index + 1
    return extents + chunks[done:]


def split_words(text: str) -> list[Extent]:
    """The same for any characters, by Unicode's word boundaries."""
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
    return tuple(split_words(chunk))


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
        [text[begin:end] for begin, end in zip(previous_end[gaps].tolist(), following[gaps].tolist(), strict=True)]
    )
    if not (missing.isspace() or all(map(_swallowed, missing))):
        return False
    plain_pieces = [plain_piece(piece) for piece in pieces]
    required_matches = 0.9 * (len(plain_pieces) - plain_pieces.count(None))
    text_pieces = [text[start:end] for start, end in extents]
    if sum(map(operator.eq, plain_pieces, map(str.casefold, text_pieces))) >= required_matches:
        return True
    pairs = zip(plain_pieces, text_pieces, strict=True)
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
def plain_piece(piece: str) -> str | None:
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


def _vocabulary(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


JOINTS = frozenset("-‐‑/'’&_@")  # between letters, without a space: parts of one word
DETERMINERS = _vocabulary("a an the this these those my your his its our their every each some any no another such")
PREPOSITIONS = _vocabulary(
    "of in on at by for with from into onto to than as about without within between against during per through toward",
    "towards upon among",
)
CONJUNCTIONS = _vocabulary("and or but nor because although though while if when that which who whose where")
AUXILIARIES = _vocabulary(
    "is are was were be been being am has have had do does did will would can could should may might must shall"
)
NEGATIONS = _vocabulary("not never hardly barely scarcely cannot")
DEGREES = _vocabulary("very too so quite rather really extremely utterly almost nearly far")
PARTICLES = _vocabulary("apart together away back aside ahead forth enough")
PARTICLES_AT_AN_END = _vocabulary("up down out off over on in around along through by")  # elsewhere prepositions
PAIRS = frozenset(
    {("any", "more"), ("any", "longer"), ("no", "more"), ("no", "longer"), ("at", "all"), ("at", "least")}
    | {("at", "best"), ("of", "course"), ("a", "lot"), ("a", "bit"), ("kind", "of"), ("sort", "of"), ("lot", "of")}
    | {("bit", "of"), ("each", "other"), ("one", "another"), ("as", "well"), ("even", "though"), ("let", "alone")}
)
_OPENING = DETERMINERS | PREPOSITIONS | CONJUNCTIONS | AUXILIARIES | NEGATIONS | DEGREES


@dataclass(frozen=True, eq=False)
class Cuts:
    """For every unit of a text, whether a span that begins or ends there cuts a phrase."""

    begins: np.ndarray  # (n,) bool: a span that begins here leaves its phrase's beginning outside
    ends: np.ndarray  # (n,) bool: a span that ends here leaves its phrase's end outside
    joints: np.ndarray  # (n,) bool: a hyphen or another mark inside a word
    clause: np.ndarray  # (n,) which clause a unit stands in; punctuation between clauses is -1


def cuts(units: Sequence[Unit]) -> Cuts:
    """Where spans of these words (of both texts of a pair) would cut a phrase."""
    texts = list(
        map(operator.itemgetter(0), units)
    )  # no transposition by zip: an iterator for each word wakes the collector
    starts, stops, text_index = (
        np.fromiter(map(operator.itemgetter(field), units), np.int64, len(units)) for field in (1, 2, 3)
    )
    traits = np.fromiter(map(_traits, texts), np.int64, len(texts))
    text_starts = np.diff(text_index, prepend=text_index[:1]) != 0  # the first word of the second text
    joints = _joints(traits, starts, stops, text_starts)
    marks = _has(traits, _Trait.MARK) & ~joints
    new = marks | text_starts
    new[:1] = False
    clause = np.where(marks, -1, np.cumsum(new))
    begins, ends = np.zeros(len(texts), dtype=bool), np.zeros(len(texts), dtype=bool)
    before, word = traits[:-1], traits[1:]
    inside = (clause[1:] >= 0) & (clause[1:] == clause[:-1])  # (n - 1,) a word and the one before, in one clause
    followed = np.append(inside[1:], False)
    following = np.append(word[1:], 0)
    at_end = ~followed[: len(word)] | _has(following[: len(word)], _Trait.LINK)
    particles = _has(word, _Trait.PARTICLE) | (_has(word, _Trait.PARTICLE_AT_AN_END) & at_end)
    tied = joints[1:] | joints[:-1] | particles
    for index in np.flatnonzero(_has(before, _Trait.PAIR) & _has(word, _Trait.PAIR)).tolist():
        tied[index] |= (_folded(texts[index]), _folded(texts[index + 1])) in PAIRS
    negated = _has(before, _Trait.NEGATION)
    ends[:-1] = inside & (tied | negated | _has(before, _Trait.OPENING))
    begins[1:] = inside & (tied | negated | _has(before, _Trait.DEGREE))
    return Cuts(begins, ends, joints, clause)


class _Trait(enum.IntFlag):
    """What is known of a word by its spelling."""

    MARK = enum.auto()  # no letter and no digit
    JOINT = enum.auto()
    ENDS_IN_LETTER = enum.auto()  # or in a digit
    NEGATION = enum.auto()
    OPENING = enum.auto()
    DEGREE = enum.auto()
    PARTICLE = enum.auto()
    PARTICLE_AT_AN_END = enum.auto()
    LINK = enum.auto()  # a conjunction or a preposition
    PAIR = enum.auto()  # a word of some pair


def _has(traits: np.ndarray, trait: _Trait) -> np.ndarray:
    """Whether each word has this trait."""
    present: np.ndarray = (traits & int(trait)) != 0
    return present


def _folded(text: str) -> str:
    return text.casefold().replace("’", "'")


_PAIRED = frozenset(itertools.chain.from_iterable(PAIRS))


@functools.lru_cache(_KNOWN)
def _traits(text: str) -> int:
    """The traits of a word, as one number."""
    word = _folded(text)
    traits = {
        _Trait.MARK: not any(map(str.isalnum, word)),
        _Trait.JOINT: text in JOINTS,
        _Trait.ENDS_IN_LETTER: text[-1:].isalnum(),
        _Trait.NEGATION: word in NEGATIONS or word.endswith("n't"),
        _Trait.OPENING: word in _OPENING,
        _Trait.DEGREE: word in DEGREES,
        _Trait.PARTICLE: word in PARTICLES,
        _Trait.PARTICLE_AT_AN_END: word in PARTICLES_AT_AN_END,
        _Trait.LINK: word in CONJUNCTIONS or word in PREPOSITIONS,
        _Trait.PAIR: word in _PAIRED,
    }
    return sum(int(trait) for trait, present in traits.items() if present)


def _joints(traits: np.ndarray, starts: np.ndarray, stops: np.ndarray, text_starts: np.ndarray) -> np.ndarray:
    """(n,) whether a unit is a mark inside a word, without a space on either side."""
    joints = np.zeros(len(traits), dtype=bool)
    touching = (stops[:-1] == starts[1:]) & ~text_starts[1:]  # (n - 1,) a unit and the next
    marks = _has(traits[1:-1], _Trait.JOINT) & _has(traits[:-2], _Trait.ENDS_IN_LETTER)
    joints[1:-1] = marks & touching[:-1] & touching[1:]
    return joints
