"""From text to rows of tokens: units, their tokens, special tokens, segments."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from math import prod
from typing import Any

from rationales.errors import InputError, ModelError
from rationales.models.alignment import align, trustworthy
from rationales.models.segments import Window, windows
from rationales.models.units import Extent, UnitKind, sentences, tie, trim, words
from rationales.rationale import Unit

_NO_CHARACTER = "\ufffd"  # what bytes that are no character by themselves are decoded to
_TOGETHER = 8  # tokens that may be needed to read one character
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


@dataclass(frozen=True)
class _Told:
    """What the tokenizer says of an input."""

    ids: list[list[int]]  # of each part, without special tokens
    extents: list[list[Extent] | None]  # where it says that these stand, if it does
    whole: Mapping[str, Any]  # all parts together, with special tokens


def tokenized(inputs: Sequence[TextInput], tokenizer: Any) -> list[_Told | None]:
    """What a fast tokenizer says of many inputs, all asked at once; None where it has to be asked one by one."""
    if len(inputs) < 2 or not getattr(tokenizer, "is_fast", False) or any(one.pair is not None for one in inputs):
        return [None] * len(inputs)
    said = tokenizer(
        [one.text for one in inputs],
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        return_attention_mask=False,
        verbose=False,
    )
    names = [name for name in ("input_ids", "token_type_ids", "special_tokens_mask") if name in said]
    found: list[_Told | None] = []
    for number, (ids, extents, added) in enumerate(
        zip(said["input_ids"], said["offset_mapping"], said["special_tokens_mask"], strict=True)
    ):
        own = _between(added)
        whole = {name: said[name][number] for name in names}
        found.append(_Told([ids[own]], [extents[own]], whole) if own is not None else None)
    return found


def _between(added: Sequence[int]) -> slice | None:
    """Where the text's own tokens stand, if these are not parted by special ones."""
    if 0 not in added:
        return None
    first, count = added.index(0), len(added) - sum(added)
    return slice(first, first + count) if not any(added[first : first + count]) else None


def _tell(texts: Sequence[str], tokenizer: Any) -> _Told:
    fast = {"return_offsets_mapping": True} if getattr(tokenizer, "is_fast", False) else {}
    bare = [tokenizer(text, add_special_tokens=False, verbose=False, **fast) for text in texts]
    whole = tokenizer(*texts, return_special_tokens_mask=True, verbose=False)
    return _Told([one["input_ids"] for one in bare], [one.get("offset_mapping") for one in bare], whole)


def encode(
    source: TextInput, tokenizer: Any, unit: UnitKind, limit: int, overlap: int, told: _Told | None = None
) -> Encoded:
    """Cut a text into units and rows of at most `limit` tokens; every unit is in at least one row."""
    texts = [source.text] if source.pair is None else [source.text, source.pair]
    for text in texts:
        if not text.strip():
            raise InputError(f"{source.name or 'the text'} is empty; there is nothing to explain")
    told = told or _tell(texts, tokenizer)
    ids = told.ids
    frame = _frame(told)
    capacity = limit - sum(len(special) for special in frame.ids)
    if capacity < len(texts):
        raise ModelError(f"the model takes {limit} tokens, too few for any text")
    longest = capacity // (2 * len(texts)) or 1
    parts = [_part(text, own, _extents(text, own, tokenizer, extents), unit, longest)
             for text, own, extents in zip(texts, ids, told.extents, strict=True)]  # fmt: skip
    if not all(part.units for part in parts):
        raise InputError(f"the tokenizer makes nothing of {source.title}: no token, so nothing to explain")
    units = tuple(
        Unit(text[start:end], start, end, number)
        for number, (text, part) in enumerate(zip(texts, parts, strict=True))
        for start, end in part.units
    )
    rooms, lengths = _rooms(parts, capacity), [part.lengths() for part in parts]
    if any(max(own) > room for own, room in zip(lengths, rooms, strict=True)):
        raise ModelError(f"segments of {limit} tokens are too short: a character of {source.title} does not fit")
    cuts = [windows(own, room, overlap) for own, room in zip(lengths, rooms, strict=True)]
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


def _part(text: str, ids: list[int], extents: Sequence[Extent], unit: UnitKind, longest: int) -> _Part:
    """The units of a text; a unit of more than `longest` tokens becomes several."""
    if not ids:
        return _Part(ids, [], [])
    if unit == "token":
        raw = _apart(text, extents)
    elif unit == "sentence":
        raw = sentences(text)
    else:
        raw = words(text)
    units, owner = tie(raw or [(0, len(text))], extents)
    return _Part(ids, *_split(text, units, owner, extents, longest))


def token_extents(text: str, ids: Sequence[int], tokenizer: Any) -> list[Extent]:
    """Where each token stands in the text: the tokenizer's word where it can be trusted, else found by spelling."""
    return _extents(text, ids, tokenizer, _tell([text], tokenizer).extents[0])


def _extents(text: str, ids: Sequence[int], tokenizer: Any, said: Sequence[Extent] | None) -> list[Extent]:
    if said is not None and len(said) == len(ids):
        pieces = [str(piece) for piece in tokenizer.convert_ids_to_tokens(ids)]
        if trustworthy(text, said, pieces):
            return list(said)
    spelled = _spelled(ids, tokenizer)
    found = align(text, [piece for piece, _ in spelled])
    return [extent for extent, (_, count) in zip(found, spelled, strict=True) for _ in range(count)]


def _spelled(ids: Sequence[int], tokenizer: Any) -> list[tuple[str, int]]:
    """What tokens read as, and how many it takes: the bytes of one character say nothing by themselves."""
    spelled: list[tuple[str, int]] = []
    at = 0
    while at < len(ids):
        most = min(_TOGETHER, len(ids) - at)
        read = (
            (tokenizer.decode(list(ids[at : at + count]), clean_up_tokenization_spaces=False), count)
            for count in range(1, most + 1)
        )
        spelled.append(next((one for one in read if _NO_CHARACTER not in one[0]), (_NO_CHARACTER, 1)))
        at += spelled[-1][1]
    return spelled


def _apart(text: str, extents: Sequence[Extent]) -> list[Extent]:
    """The tokens' extents without overlaps, and the visible characters that they leave out."""
    kept: list[Extent] = []
    cursor = 0
    for start, end in [*sorted(extents), (len(text), len(text))]:
        missed = trim(text, cursor, start)
        kept += [extent for extent in (missed, (max(start, cursor), end)) if extent[0] < extent[1]]
        cursor = max(cursor, end)
    return kept


def _split(
    text: str, units: Sequence[Extent], owner: Sequence[int], extents: Sequence[Extent], longest: int
) -> tuple[list[Extent], list[int]]:
    """Units with more than `longest` tokens in several, so that any text can be cut into segments."""
    if max(Counter(owner).values(), default=0) <= longest:
        return list(units), list(owner)
    members: list[list[Extent]] = [[] for _ in units]
    for extent, unit in zip(extents, owner, strict=True):
        members[unit].append(extent)
    pieces: list[Extent] = []
    home: list[int] = []
    for number, tokens in enumerate(members):
        made = [(units[number], len(tokens))]
        if len(tokens) > longest:
            before = pieces[-1][1] if pieces else 0
            after = units[number + 1][0] if number + 1 < len(units) else len(text)
            within = [(max(start, before), min(end, after)) for start, end in tokens]
            made = _cut(text, units[number], within, longest)
        for piece, count in made:
            home += [len(pieces)] * count
            pieces.append(piece)
    return pieces, home


def _cut(text: str, unit: Extent, tokens: Sequence[Extent], longest: int) -> list[tuple[Extent, int]]:
    """A unit as pieces of about `longest` tokens, each with its number of tokens.

    Cuts lie where one token ends and the next begins; tokens that stand at the same characters share these evenly. No
    character is ever cut. White space that takes so many tokens that it needs a piece of its own becomes one.
    """
    begin, end = min(unit[0], tokens[0][0]), max(unit[1], *(stop for _, stop in tokens))
    reach = list(accumulate((stop for _, stop in tokens), max))
    free = {
        reach[number - 1]: number
        for number in range(1, len(tokens))
        if begin < reach[number - 1] < end and reach[number - 1] <= tokens[number][0]
    }  # character -> tokens before it
    marks = [(begin, 0)]
    for place, number in [*free.items(), (end, len(tokens))]:
        (from_place, from_number), size, count = marks[-1], place - marks[-1][0], number - marks[-1][1]
        shares = min(-(-count // longest), size)
        marks += [(from_place + size * k // shares, from_number + count * k // shares) for k in range(1, shares + 1)]
    chosen = marks[:1]
    for here, following in pairwise(marks[1:]):
        if following[1] - chosen[-1][1] > longest:
            chosen.append(here)
    pieces: list[tuple[Extent, int]] = []
    for (start, first), (stop, last) in pairwise([*chosen, marks[-1]]):
        extent = trim(text, start, stop)
        pieces.append((extent if extent[0] < extent[1] else (start, stop), last - first))
    return pieces


def _frame(told: _Told) -> _Frame:
    """Which special tokens the tokenizer puts around the texts, read off what it makes of these very texts."""
    said = told.whole
    whole, types, added = said["input_ids"], said.get("token_type_ids"), said.get("special_tokens_mask", [])
    special: list[list[int]] = []
    special_types: list[list[int]] = []
    part_types: list[int] = []
    cursor = 0
    for part in told.ids:
        start = _find(whole, part, cursor, added)
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


def _find(whole: Sequence[int], part: Sequence[int], begin: int, added: Sequence[int]) -> int | None:
    """Where `part` begins in `whole`, not before `begin`: a place without added tokens, for a text may hold "[CLS]"."""
    best: int | None = None
    for start in range(begin, len(whole) - len(part) + 1):  # special tokens are few, so the first places will do
        if whole[start : start + len(part)] == part:
            if not any(added[start : start + len(part)]):
                return start
            best = start if best is None else best
    return best


def _row(parts: Sequence[_Part], frame: _Frame, cut: Sequence[Window], cuts: Sequence[int]) -> TokenRow:
    """The row that shows one window of each part; `cuts` is how many windows each part has."""
    ids, owner, types = list(frame.ids[0]), [-1] * len(frame.ids[0]), list(frame.types[0]) if frame.types else []
    units: list[int] = []
    weight: list[float] = []
    position: list[float] = []
    before = 0
    for number, (part, window) in enumerate(zip(parts, cut, strict=True)):
        shift = len(units) - window.first
        tokens = slice(bisect_left(part.owner, window.first), bisect_left(part.owner, window.last))  # owners rise
        others = prod(count for other, count in enumerate(cuts) if other != number)
        own, after = part.owner[tokens], frame.ids[number + 1]
        units += range(before + window.first, before + window.last)
        weight += [value / others for value in window.weight] if others > 1 else window.weight
        gap = before + number * PART_GAP
        position += [gap + unit for unit in range(window.first, window.last)]
        ids += part.ids[tokens] + after
        owner += ([unit + shift for unit in own] if shift else own) + [-1] * len(after)
        if frame.types is not None:
            types += [frame.part_types[number]] * len(own) + frame.types[number + 1]
        before += len(part.units)
    return TokenRow(ids, types if frame.types is not None else None, owner, units, weight, position)
