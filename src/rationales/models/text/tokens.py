"""From text to rows of tokens: units, their tokens, special tokens, segments."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, pairwise, product, repeat
from math import prod
from typing import Any

import numpy as np

from rationales.errors import InputError, ModelError
from rationales.models.batch.rows import Window, windows
from rationales.models.text.units import Extent, UnitKind, align, assign_tokens, sentences, trim, trustworthy, words
from rationales.rationale import Unit

_NO_CHARACTER = "\ufffd"  # decoded from bytes that are no complete character
_TOGETHER = 8  # most tokens that form one character
_NEW_UNIT = partial(tuple.__new__, Unit)  # as Unit._make, without a Python call for each word
PART_GAP = 1000.0  # between the positions of a text and its pair, further than any smoothing kernel reaches


@dataclass(frozen=True)
class TextInput:
    """A text, or a text and its pair (premise and hypothesis, question and passage)."""

    text: str
    pair: str | None = None
    name: str | None = None

    @property
    def title(self) -> str:
        """The name of this input in messages."""
        return self.name or repr(self.text if len(self.text) <= 40 else self.text[:37] + "...")


def read_text_input(raw_input: Any, name: str | None) -> TextInput:
    """A checked input made from a text or a tuple of two texts."""
    if isinstance(raw_input, str):
        source = TextInput(raw_input, None, name)
    elif isinstance(raw_input, tuple) and len(raw_input) == 2 and all(isinstance(text, str) for text in raw_input):
        source = TextInput(raw_input[0], raw_input[1], name)
    else:
        raise InputError(
            f"an input is a text or a tuple of two texts, or a list of these, not {type(raw_input).__name__}"
        )
    if source.pair is not None and not source.pair.strip():
        raise InputError(f"the second text of {name or 'the pair'} is empty; a model of pairs needs both")
    for text in (source.text, source.pair or ""):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"{name or 'the text'} holds half a character (a lone surrogate)") from None
    return source


@dataclass(frozen=True)
class TokenRow:
    """One segment: its token ids and the unit of each token."""

    ids: list[int]
    types: list[int] | None
    owner: list[int]  # per token the unit within this row, -1 for special tokens
    units: list[int]  # per unit of this row its index in the input
    weight: list[float]
    position: list[float]


@dataclass(frozen=True)
class EncodedText:
    """A text divided into units and rows."""

    source: TextInput
    units: tuple[Unit, ...]
    rows: tuple[TokenRow, ...]


@dataclass(frozen=True)
class TextPart:
    """One of the two texts: its tokens, its units and the unit of each token."""

    ids: list[int]
    units: list[Extent]
    owner: list[int]

    def lengths(self) -> list[int]:
        lengths: list[int] = np.bincount(self.owner, minlength=len(self.units)).tolist()
        return lengths


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens around the parts: `ids` and token types before, between and after them."""

    ids: list[list[int]]
    types: list[list[int]] | None
    part_types: list[int]


@dataclass(frozen=True)
class _Tokenization:
    """The tokenizer's output for an input."""

    ids: list[list[int]]  # of each part, without special tokens
    extents: list[list[Extent] | None]  # their character offsets, if the tokenizer reports them
    combined: Mapping[str, Any]  # of all parts together, with special tokens


def tokenize(inputs: Sequence[TextInput], tokenizer: Any) -> list[_Tokenization | None]:
    """Tokenize many inputs in one call of a fast tokenizer; None for inputs that need calls of their own."""
    pairs = any(text_input.pair is not None for text_input in inputs)
    if len(inputs) < 2 or not getattr(tokenizer, "is_fast", False) or pairs:
        return [None] * len(inputs)
    encodings = tokenizer(
        [text_input.text for text_input in inputs],
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        return_attention_mask=False,
        verbose=False,
    )
    names = [name for name in ("input_ids", "token_type_ids", "special_tokens_mask") if name in encodings]
    tokenizations: list[_Tokenization | None] = []
    for number, (ids, extents, added) in enumerate(
        zip(encodings["input_ids"], encodings["offset_mapping"], encodings["special_tokens_mask"], strict=True)
    ):
        text_tokens = _between(added)
        combined = {name: encodings[name][number] for name in names}
        separable = text_tokens is not None
        tokenizations.append(_Tokenization([ids[text_tokens]], [extents[text_tokens]], combined) if separable else None)
    return tokenizations


def _between(added: Sequence[int]) -> slice | None:
    """The range of the text's tokens, if there are no special tokens (`added` is 1) between them."""
    if 0 not in added:
        return None
    first, count = added.index(0), len(added) - sum(added)
    return slice(first, first + count) if not any(added[first : first + count]) else None


def _tokenize_each(texts: Sequence[str], tokenizer: Any) -> _Tokenization:
    fast = {"return_offsets_mapping": True} if getattr(tokenizer, "is_fast", False) else {}
    without_special = [tokenizer(text, add_special_tokens=False, verbose=False, **fast) for text in texts]
    combined = tokenizer(*texts, return_special_tokens_mask=True, verbose=False)
    return _Tokenization(
        [encoding["input_ids"] for encoding in without_special],
        [encoding.get("offset_mapping") for encoding in without_special],
        combined,
    )


def encode(
    source: TextInput,
    tokenizer: Any,
    unit: UnitKind,
    limit: int,
    overlap: int,
    tokenization: _Tokenization | None = None,
    *,
    allow_empty: bool = False,
) -> EncodedText:
    """Divide a text into units and rows of at most `limit` tokens; every unit is in at least one row.

    `allow_empty`: a text, or one of two, for which the tokenizer returns no tokens has no units; else it is an error.
    """
    texts = [source.text] if source.pair is None else [source.text, source.pair]
    for text in texts:
        if not (allow_empty or text.strip()):
            raise InputError(f"{source.name or 'the text'} is empty; there is nothing to explain")
    tokenization = tokenization or _tokenize_each(texts, tokenizer)
    ids = tokenization.ids
    frame = _frame(tokenization)
    capacity = limit - sum(len(special) for special in frame.ids)
    if capacity < len(texts):
        raise ModelError(f"the model takes {limit} tokens, too few for any text")
    parts = [
        text_part(
            text,
            part_ids,
            verified_extents(text, part_ids, tokenizer, extents),
            unit,
            longest_unit(capacity, len(texts)),
        )
        for text, part_ids, extents in zip(texts, ids, tokenization.extents, strict=True)
    ]
    return assemble(source, parts, frame, limit, overlap, allow_empty=allow_empty)


def longest_unit(capacity: int, parts: int = 1) -> int:
    """Most tokens of a unit in rows with room for `capacity` tokens of so many texts; longer units are cut."""
    return capacity // (2 * parts) or 1


def assemble(
    source: TextInput,
    parts: Sequence[TextPart],
    frame: SpecialTokens,
    limit: int,
    overlap: int,
    *,
    allow_empty: bool = False,
) -> EncodedText:
    """The units and rows of a text whose parts and fixed tokens are known; rows have at most `limit` tokens."""
    texts = [source.text] if source.pair is None else [source.text, source.pair]
    capacity = limit - sum(len(special) for special in frame.ids)
    if not (allow_empty or all(part.units for part in parts)):
        raise InputError(f"the tokenizer returns no tokens for {source.title}; there is nothing to explain")
    units_of_parts = (
        _units(text, part.units, number) for number, (text, part) in enumerate(zip(texts, parts, strict=True))
    )
    units = tuple(chain.from_iterable(units_of_parts))
    capacities, lengths = _part_capacities(parts, capacity), [part.lengths() for part in parts]
    if any(max(tokens, default=0) > capacity for tokens, capacity in zip(lengths, capacities, strict=True)):
        raise ModelError(f"segments of {limit} tokens are too short: a character of {source.title} does not fit")
    cuts = [windows(tokens, capacity, overlap) for tokens, capacity in zip(lengths, capacities, strict=True)]
    rows = tuple(_row(parts, frame, choice, [len(cut) for cut in cuts]) for choice in product(*cuts))
    return EncodedText(source, units, rows)


def special_tokens(text: str, tokenizer: Any) -> SpecialTokens:
    """The special tokens around this text."""
    return _frame(_tokenize_each([text], tokenizer))


def _units(text: str, extents: Sequence[Extent], text_index: int) -> Iterator[Unit]:
    """The units at these extents of a text."""
    starts, ends = zip(*extents, strict=True) if extents else ((), ())
    columns = ([text[start:end] for start, end in extents], starts, ends, repeat(text_index))
    return map(_NEW_UNIT, zip(*columns))  # noqa: B905  # the last has no end


def _part_capacities(parts: Sequence[TextPart], capacity: int) -> list[int]:
    """Number of tokens of each part in a row: short parts are not cut, long ones are."""
    sizes = [len(part.ids) for part in parts]
    if len(parts) == 1:
        return [capacity]
    if sum(sizes) <= capacity:
        return sizes
    half = capacity // 2
    return [min(size, max(half, capacity - partner)) for size, partner in zip(sizes, reversed(sizes), strict=True)]


def text_part(text: str, ids: list[int], extents: Sequence[Extent], unit: UnitKind, longest: int) -> TextPart:
    """The units of a text; a unit of more than `longest` tokens becomes several."""
    if not ids:
        return TextPart(ids, [], [])
    if unit == "token":
        raw = _without_overlaps(text, extents)
    else:
        raw = sentences(text) if unit == "sentence" else words(text)
    units, owner = assign_tokens(raw or [(0, len(text))], extents)
    return TextPart(ids, *_split(text, units, owner, extents, longest))


def token_extents(text: str, ids: Sequence[int], tokenizer: Any) -> list[Extent]:
    """Character offsets of each token: those of the tokenizer if they are correct, else found by spelling."""
    return verified_extents(text, ids, tokenizer, _tokenize_each([text], tokenizer).extents[0])


def verified_extents(text: str, ids: Sequence[int], tokenizer: Any, reported: Sequence[Extent] | None) -> list[Extent]:
    """The `reported` offsets of the tokens if they are correct, else offsets found by spelling."""
    if reported is not None and len(reported) == len(ids):
        pieces = [str(piece) for piece in tokenizer.convert_ids_to_tokens(ids)]
        if trustworthy(text, reported, pieces):
            return list(reported)
    spelled = _spelled(ids, tokenizer)
    aligned = align(text, [piece for piece, _ in spelled])
    return [extent for extent, (_, count) in zip(aligned, spelled, strict=True) for _ in range(count)]


def _spelled(ids: Sequence[int], tokenizer: Any) -> list[tuple[str, int]]:
    """The spelling of tokens, and the number of tokens it takes: several if each is only some bytes of a character."""
    spelled: list[tuple[str, int]] = []
    position = 0
    while position < len(ids):
        max_count = min(_TOGETHER, len(ids) - position)
        read = (
            (tokenizer.decode(list(ids[position : position + count]), clean_up_tokenization_spaces=False), count)
            for count in range(1, max_count + 1)
        )
        spelled.append(next((reading for reading in read if _NO_CHARACTER not in reading[0]), (_NO_CHARACTER, 1)))
        position += spelled[-1][1]
    return spelled


def _without_overlaps(text: str, extents: Sequence[Extent]) -> list[Extent]:
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
    """Units, those of more than `longest` tokens split, so that any text can be divided into segments."""
    if max(Counter(owner).values(), default=0) <= longest:
        return list(units), list(owner)
    members: list[list[Extent]] = [[] for _ in units]
    for extent, unit in zip(extents, owner, strict=True):
        members[unit].append(extent)
    pieces: list[Extent] = []
    home: list[int] = []
    for number, tokens in enumerate(members):
        pieces_of_unit = [(units[number], len(tokens))]
        if len(tokens) > longest:
            before = pieces[-1][1] if pieces else 0
            after = units[number + 1][0] if number + 1 < len(units) else len(text)
            within = [(max(start, before), min(end, after)) for start, end in tokens]
            pieces_of_unit = _cut(text, units[number], within, longest)
        for piece, count in pieces_of_unit:
            home += [len(pieces)] * count
            pieces.append(piece)
    return pieces, home


def _cut(text: str, unit: Extent, tokens: Sequence[Extent], longest: int) -> list[tuple[Extent, int]]:
    """A unit as pieces of about `longest` tokens, each with its number of tokens.

    Cuts lie between tokens; tokens with the same characters share these evenly. No character is ever cut. White space
    that needs more than `longest` tokens becomes a piece of its own.
    """
    begin, end = min(unit[0], tokens[0][0]), max(unit[1], *(stop for _, stop in tokens))
    reach = list(accumulate((stop for _, stop in tokens), max))
    free = {
        reach[number - 1]: number
        for number in range(1, len(tokens))
        if begin < reach[number - 1] < end and reach[number - 1] <= tokens[number][0]
    }  # character -> tokens before it
    marks = [(begin, 0)]
    for character, number in [*free.items(), (end, len(tokens))]:
        (from_character, from_number), size, count = marks[-1], character - marks[-1][0], number - marks[-1][1]
        shares = min(-(-count // longest), size)
        marks += [
            (from_character + size * k // shares, from_number + count * k // shares) for k in range(1, shares + 1)
        ]
    chosen = marks[:1]
    for here, following in pairwise(marks[1:]):
        if following[1] - chosen[-1][1] > longest:
            chosen.append(here)
    pieces: list[tuple[Extent, int]] = []
    for (start, first), (stop, last) in pairwise([*chosen, marks[-1]]):
        extent = trim(text, start, stop)
        pieces.append((extent if extent[0] < extent[1] else (start, stop), last - first))
    return pieces


def _frame(tokenization: _Tokenization) -> SpecialTokens:
    """The special tokens around the texts, read off the tokenizer's output for these very texts."""
    combined = tokenization.combined
    combined_ids, types = combined["input_ids"], combined.get("token_type_ids")
    added = combined.get("special_tokens_mask", [])
    special: list[list[int]] = []
    special_types: list[list[int]] = []
    part_types: list[int] = []
    cursor = 0
    for part_ids in tokenization.ids:
        start = _find(combined_ids, part_ids, cursor, added)
        if start is None:
            raise ModelError(
                "the tokenizer changes a text when it adds special tokens; it cannot be explained by words"
            )
        special.append(combined_ids[cursor:start])
        special_types.append(types[cursor:start] if types else [])
        part_types.append(types[start] if types and part_ids else 0)
        cursor = start + len(part_ids)
    special.append(combined_ids[cursor:])
    special_types.append(types[cursor:] if types else [])
    return SpecialTokens(special, special_types if types else None, part_types)


def _find(combined_ids: Sequence[int], part_ids: Sequence[int], begin: int, added: Sequence[int]) -> int | None:
    """The index in `combined_ids`, from `begin` on, at which `part_ids` begins.

    If possible without special tokens in it, for a text may hold "[CLS]".
    """
    first_match: int | None = None
    # special tokens are few, so the first places will do
    for start in range(begin, len(combined_ids) - len(part_ids) + 1):
        if combined_ids[start : start + len(part_ids)] == part_ids:
            if not any(added[start : start + len(part_ids)]):
                return start
            first_match = start if first_match is None else first_match
    return first_match


def _row(parts: Sequence[TextPart], frame: SpecialTokens, cut: Sequence[Window], cuts: Sequence[int]) -> TokenRow:
    """The row of one window of each part; `cuts` is the number of windows of each part."""
    ids, owner, types = list(frame.ids[0]), [-1] * len(frame.ids[0]), list(frame.types[0]) if frame.types else []
    units: list[int] = []
    weight: list[float] = []
    position: list[float] = []
    before = 0
    for number, (part, window) in enumerate(zip(parts, cut, strict=True)):
        shift = len(units) - window.first
        tokens = slice(*(bisect_left(part.owner, unit) for unit in (window.first, window.last)))  # owners rise
        repetitions = prod(count for other_part, count in enumerate(cuts) if other_part != number)
        owners, after = part.owner[tokens], frame.ids[number + 1]
        units += range(before + window.first, before + window.last)
        weight += [value / repetitions for value in window.weight] if repetitions > 1 else window.weight
        gap = before + number * PART_GAP
        position += [gap + unit for unit in range(window.first, window.last)]
        ids += part.ids[tokens] + after
        owner += ([unit + shift for unit in owners] if shift else owners) + [-1] * len(after)
        if frame.types is not None:
            types += [frame.part_types[number]] * len(owners) + frame.types[number + 1]
        before += len(part.units)
    return TokenRow(ids, types if frame.types is not None else None, owner, units, weight, position)
