"""From text to rows of tokens: units, their tokens, special tokens, segments."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from rationales.errors import InputError, ModelError
from rationales.models.alignment import align, trustworthy
from rationales.models.segments import Window, windows
from rationales.models.units import Extent, UnitKind, sentences, tie, words
from rationales.rationale import Unit

PART_GAP = 1000.0  # between the last position of a text and the first of its pair: no kernel reaches across


@dataclass(frozen=True)
class TextInput:
    """A text, or a text and its pair (premise and hypothesis, question and passage)."""

    text: str
    pair: str | None = None
    name: str | None = None

    @property
    def title(self) -> str:
        """What to call this input in a message."""
        return self.name or repr(self.text if len(self.text) <= 40 else self.text[:37] + "...")


@dataclass(frozen=True)
class TokenRow:
    """One segment: what the model reads, and which unit every token belongs to."""

    ids: list[int]
    types: list[int] | None
    owner: list[int]  # per token the unit within this row, -1 for special tokens
    units: list[int]  # per unit of this row its number in the input
    weight: list[float]
    position: list[float]


@dataclass(frozen=True)
class Encoded:
    """An input ready to be explained."""

    source: TextInput
    units: tuple[Unit, ...]
    rows: tuple[TokenRow, ...]


@dataclass(frozen=True)
class _Part:
    """One of the two texts: its tokens, its units and the unit of each token."""

    ids: list[int]
    units: list[Extent]
    owner: list[int]

    def lengths(self) -> list[int]:
        count = [0] * len(self.units)
        for unit in self.owner:
            count[unit] += 1
        return count


@dataclass(frozen=True)
class _Frame:
    """The special tokens around the parts: `ids` and token types before, between and after them."""

    ids: list[list[int]]
    types: list[list[int]] | None
    part_types: list[int]


def encode(source: TextInput, tokenizer: Any, unit: UnitKind, limit: int, overlap: int) -> Encoded:
    """Cut a text into units and rows of at most `limit` tokens; every unit is in at least one row."""
    texts = [source.text] if source.pair is None else [source.text, source.pair]
    for text in texts:
        if not text.strip():
            raise InputError(f"{source.name or 'the text'} is empty; there is nothing to explain")
    ids = [tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] for text in texts]
    frame = _frame(tokenizer, texts, ids)
    capacity = limit - sum(len(special) for special in frame.ids)
    if capacity < len(texts):
        raise ModelError(f"the model takes {limit} tokens, too few for any text")
    parts = [_part(text, tokens, tokenizer, unit, capacity // (2 * len(texts)) or 1)
             for text, tokens in zip(texts, ids, strict=True)]  # fmt: skip
    if not all(part.units for part in parts):
        raise InputError(f"the tokenizer makes nothing of {source.title}: no token, so nothing to explain")
    units = tuple(
        Unit(text[start:end], start, end, number)
        for number, (text, part) in enumerate(zip(texts, parts, strict=True))
        for start, end in part.units
    )
    cuts = [windows(part.lengths(), room, overlap) for part, room in zip(parts, _rooms(parts, capacity), strict=True)]
    rows = tuple(_row(parts, frame, choice, [len(cut) for cut in cuts]) for choice in product(*cuts))
    return Encoded(source, units, rows)


def _rooms(parts: Sequence[_Part], capacity: int) -> list[int]:
    """How many tokens each part may take in a row: a short part stays whole, long ones are cut."""
    sizes = [len(part.ids) for part in parts]
    if len(parts) == 1:
        return [capacity]
    if sum(sizes) <= capacity:
        return sizes
    half = capacity // 2
    return [min(size, max(half, capacity - other)) for size, other in zip(sizes, reversed(sizes), strict=True)]


def _part(text: str, ids: list[int], tokenizer: Any, unit: UnitKind, longest: int) -> _Part:
    """The units of a text; a unit of more than `longest` tokens becomes several."""
    extents = token_extents(text, ids, tokenizer)
    if not ids:
        return _Part(ids, [], [])
    if unit == "token":
        raw = sorted({extent for extent in extents if extent[0] < extent[1]}) or [(0, len(text))]
        raw = _apart(raw)
    else:
        raw = words(text) if unit == "word" else sentences(text)
        raw = raw or [(0, len(text))]
    units, owner = tie(raw, extents)
    return _Part(ids, *_split(units, owner, extents, longest))


def token_extents(text: str, ids: Sequence[int], tokenizer: Any) -> list[Extent]:
    """Where each token stands in the text: the tokenizer's word where it can be trusted, else found by spelling."""
    pieces = [str(piece) for piece in tokenizer.convert_ids_to_tokens(ids)]
    if getattr(tokenizer, "is_fast", False):
        told = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        extents = [(int(start), int(end)) for start, end in told["offset_mapping"]]
        if len(extents) == len(ids) and trustworthy(text, extents, pieces):
            return extents
    return align(text, [tokenizer.decode([token], clean_up_tokenization_spaces=False) for token in ids])


def _apart(extents: Sequence[Extent]) -> list[Extent]:
    """Extents without those that overlap an earlier one."""
    kept: list[Extent] = []
    for start, end in extents:
        if not kept or start >= kept[-1][1]:
            kept.append((start, end))
    return kept


def _split(
    units: Sequence[Extent], owner: Sequence[int], extents: Sequence[Extent], longest: int
) -> tuple[list[Extent], list[int]]:
    """Units with more than `longest` tokens in several, cut between tokens that end at different characters."""
    members: list[list[int]] = [[] for _ in units]
    for token, unit in enumerate(owner):
        members[unit].append(token)
    pieces: list[Extent] = []
    home = [0] * len(owner)
    for unit, (start, end) in enumerate(units):
        tokens = members[unit]
        begin = start
        for chunk in [tokens[at : at + longest] for at in range(0, len(tokens), longest)]:
            stop = end if chunk[-1] == tokens[-1] else min(max(extents[chunk[-1]][1], begin), end)
            if stop > begin or not pieces:
                pieces.append((begin, stop))
            for token in chunk:
                home[token] = len(pieces) - 1
            begin = stop
    return pieces, home


def _frame(tokenizer: Any, texts: Sequence[str], ids: Sequence[list[int]]) -> _Frame:
    """Which special tokens the tokenizer puts around the texts, read off what it makes of these very texts."""
    told = tokenizer(*texts, verbose=False)
    whole, types = told["input_ids"], told.get("token_type_ids")
    special: list[list[int]] = []
    special_types: list[list[int]] = []
    part_types: list[int] = []
    cursor = 0
    for part in ids:
        start = _find(whole, part, cursor)
        if start is None:
            raise ModelError(
                "the tokenizer changes a text when it adds special tokens; it cannot be explained by words"
            )
        special.append(whole[cursor:start])
        special_types.append(types[cursor:start] if types else [])
        part_types.append(types[start] if types and part else 0)
        cursor = start + len(part)
    special.append(whole[cursor:])
    special_types.append(types[cursor:] if types else [])
    return _Frame(special, special_types if types else None, part_types)


def _find(whole: Sequence[int], part: Sequence[int], begin: int) -> int | None:
    """Where `part` begins in `whole`, not before `begin`; special tokens are few, so the first places are tried."""
    for start in range(begin, len(whole) - len(part) + 1):
        if whole[start : start + len(part)] == part:
            return start
    return None


def _row(parts: Sequence[_Part], frame: _Frame, cut: Sequence[Window], cuts: Sequence[int]) -> TokenRow:
    """The row that shows one window of each part; `cuts` is how many windows each part has."""
    ids, owner, types = list(frame.ids[0]), [-1] * len(frame.ids[0]), list(frame.types[0]) if frame.types else []
    units: list[int] = []
    weight: list[float] = []
    position: list[float] = []
    before = 0
    for number, (part, window) in enumerate(zip(parts, cut, strict=True)):
        shift = len(units) - window.first
        tokens = range(bisect_left(part.owner, window.first), bisect_left(part.owner, window.last))  # owners rise
        others = prod(count for other, count in enumerate(cuts) if other != number)
        units += range(before + window.first, before + window.last)
        weight += [value / others for value in window.weight]
        position += [before + unit + number * PART_GAP for unit in range(window.first, window.last)]
        after = frame.ids[number + 1]
        ids += [part.ids[token] for token in tokens] + after
        owner += [part.owner[token] + shift for token in tokens] + [-1] * len(after)
        if frame.types is not None:
            types += [frame.part_types[number]] * len(tokens) + frame.types[number + 1]
        before += len(part.units)
    return TokenRow(ids, types if frame.types is not None else None, owner, units, weight, position)
