"""Tokens and words of many texts, chunk by chunk: each chunk between white space is tokenized once and remembered.

Tokenizers as BERT has them never look beyond white space: a chunk has the same tokens wherever it stands. Corpora
repeat their chunks, so that most of a text is looked up and put together by array operations. What does not fit (other
tokenizers, texts that are not ASCII, tokens that cross words) is read text by text (tokens.py), with the same results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from rationales.models.text.tokens import EncodedText, SpecialTokens, TextInput, TextPart, assemble, special_tokens
from rationales.models.text.units import Extent, plain_piece, split_words

MAX_CHUNKS = 2**17  # known at once; then all are forgotten
_LONGEST = 64  # characters of a chunk that is remembered
_WHITE = np.zeros(128, dtype=bool)
_WHITE[[9, 10, 13, 32]] = True  # what the tokenizer takes for white space
_CONTROL = np.zeros(128, dtype=bool)
_CONTROL[[*range(32), 127]] = True  # other control characters are removed, which joins their neighbours
_CONTROL &= ~_WHITE
_NO_CHUNK = -1  # chunks that need their text


@dataclass
class _FlatLists:
    """Lists of numbers in one array that grows: list k has `counts[k]` items, from `begins[k]` on."""

    columns: int
    values: np.ndarray = field(init=False)  # (capacity, columns)
    begins: np.ndarray = field(init=False)
    counts: np.ndarray = field(init=False)
    size: int = 0
    lists: int = 0

    def __post_init__(self) -> None:
        self.values = np.zeros((0, self.columns), np.int64)
        self.begins = self.counts = np.zeros(0, np.int64)

    def extend(self, lists: Sequence[Sequence[Sequence[int]]]) -> None:
        """Add lists; each of their items has `columns` numbers."""
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
        items = np.array([item for listed in lists for item in listed], np.int64).reshape(-1, self.columns)
        self.values = _with_room(self.values, self.size + len(items))
        self.begins, self.counts = (_with_room(old, self.lists + len(lists)) for old in (self.begins, self.counts))
        self.values[self.size : self.size + len(items)] = items
        self.begins[self.lists : self.lists + len(lists)] = self.size + np.cumsum(counts) - counts
        self.counts[self.lists : self.lists + len(lists)] = counts
        self.size, self.lists = self.size + len(items), self.lists + len(lists)

    def gather(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(items, columns) of these lists, one after the other; and for each item the place of its list."""
        counts = self.counts[numbers]
        list_number = np.repeat(np.arange(len(numbers)), counts)
        shift = self.begins[numbers] + counts - np.cumsum(counts)
        return self.values[np.arange(len(list_number)) + shift[list_number]], list_number


def _with_room(values: np.ndarray, size: int) -> np.ndarray:
    """The same values in an array of at least `size` rows, half as large again where it must grow."""
    if size <= len(values):
        return values
    return np.concatenate([values, np.zeros((size + size // 2 - len(values), *values.shape[1:]), values.dtype)])


@dataclass
class ChunkTable:
    """The chunks that a tokenizer has read."""

    key: tuple[Any, ...]  # settings of the tokenizer when the table was begun
    frame: SpecialTokens
    added: tuple[str, ...]  # tokens that are found inside words
    numbers: dict[str, int] = field(default_factory=dict)  # chunk -> its lists, or _NO_CHUNK
    tokens: _FlatLists = field(default_factory=lambda: _FlatLists(1))  # ids
    words: _FlatLists = field(default_factory=lambda: _FlatLists(3))  # start, end, number of tokens

    def encode(self, inputs: Sequence[TextInput], tokenizer: Any, limit: int, overlap: int) -> list[EncodedText | None]:
        """The units and rows of each text; None for those that must be read as a whole."""
        chunks = [_chunks(source) for source in inputs]
        self._learn({chunk for listed in chunks if listed is not None for chunk in listed[0]}, tokenizer)
        longest = (limit - sum(map(len, self.frame.ids))) // 2
        return [
            None if listed is None else self._encode(source, *listed, longest, limit, overlap)
            for source, listed in zip(inputs, chunks, strict=True)
        ]

    def _encode(
        self, source: TextInput, chunks: Sequence[str], begins: np.ndarray, longest: int, limit: int, overlap: int
    ) -> EncodedText | None:
        numbers = np.fromiter(map(self.numbers.__getitem__, chunks), np.int64, len(chunks))
        if numbers.min() == _NO_CHUNK:
            return None
        ids, _ = self.tokens.gather(numbers)
        table, chunk_number = self.words.gather(numbers)
        starts, ends, counts = table[:, 0] + begins[chunk_number], table[:, 1] + begins[chunk_number], table[:, 2]
        if counts.max() > longest:
            return None
        owner = np.repeat(np.arange(len(counts)), counts)
        extents = list(zip(starts.tolist(), ends.tolist(), strict=True))
        text_part = TextPart(ids[:, 0].tolist(), extents, owner.tolist())
        return assemble(source, [text_part], self.frame, limit, overlap)

    def _learn(self, chunks: set[str], tokenizer: Any) -> None:
        """Tokenize the chunks that are not known yet, all in one call."""
        if len(self.numbers) > MAX_CHUNKS:
            self.numbers, self.tokens, self.words = {}, _FlatLists(1), _FlatLists(3)
        unknown = sorted(chunks - self.numbers.keys())
        if not unknown:
            return
        encodings = tokenizer(
            unknown,
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            verbose=False,
        )
        words_of_chunks = [
            self._words(chunk, extents, tokenizer.convert_ids_to_tokens(ids))
            for chunk, ids, extents in zip(unknown, encodings["input_ids"], encodings["offset_mapping"], strict=True)
        ]
        regular = [number for number, listed in enumerate(words_of_chunks) if listed]
        self.numbers.update(dict.fromkeys(unknown, _NO_CHUNK))
        self.numbers.update(zip([unknown[number] for number in regular], count(self.tokens.lists), strict=False))
        self.tokens.extend([[(token,) for token in encodings["input_ids"][number]] for number in regular])
        self.words.extend([words_of_chunks[number] for number in regular])

    def _words(self, chunk: str, extents: Sequence[Extent], pieces: Sequence[str]) -> list[tuple[int, int, int]]:
        """(start, end, number of tokens) of each word; none where tokens or words may depend on the neighbours.

        The tokens must divide the chunk without a gap, be spelled as the text, and none may belong to two words.
        """
        if len(chunk) > _LONGEST or any(token in chunk.casefold() for token in self.added):
            return []
        cuts = [0, *(end for _, end in extents)]
        if [start for start, _ in extents] != cuts[:-1] or cuts[-1] != len(chunk) or len(set(cuts)) < len(cuts):
            return []
        spelled = map(plain_piece, map(str, pieces))
        texts = (chunk[start:end].casefold() for start, end in extents)
        if any(piece is not None and piece != text for piece, text in zip(spelled, texts, strict=True)):
            return []
        token_at = {cut: number for number, cut in enumerate(cuts)}
        extents_of_words = split_words(chunk)
        if any(cut not in token_at for extent in extents_of_words for cut in extent):
            return []
        return [(start, end, token_at[end] - token_at[start]) for start, end in extents_of_words]


def chunk_table(tokenizer: Any, table: ChunkTable | None) -> ChunkTable | None:
    """The table, or a new one if the tokenizer has changed; None if it is not one that reads chunk by chunk."""
    key = _settings(tokenizer)
    if key is None or (table is not None and table.key == key):
        return None if key is None else table
    added = tuple(token.casefold() for token in key[-1])
    return ChunkTable(key, special_tokens("a", tokenizer), added)


def _settings(tokenizer: Any) -> tuple[Any, ...] | None:
    """What decides the tokens of a chunk; None if chunks of this tokenizer may depend on their neighbours."""
    own_class = type(tokenizer).__module__.startswith(("transformers.", "rationales."))
    backend = getattr(tokenizer, "backend_tokenizer", None) if own_class else None
    if backend is None or backend.truncation is not None or backend.padding is not None:
        return None
    components = (backend.normalizer, backend.pre_tokenizer, backend.model)
    if tuple(type(component).__name__ for component in components) != (
        "BertNormalizer",
        "BertPreTokenizer",
        "WordPiece",
    ):
        return None
    added = backend.get_added_tokens_decoder().values()
    if any(token.lstrip or token.rstrip or token.single_word or not token.content.split() for token in added):
        return None
    contents = tuple(token.content for token in added)
    if any(len(content.split()) > 1 for content in contents):
        return None
    states = tuple(component.__getstate__() for component in components[:2])
    return id(backend), backend.get_vocab_size(), *states, contents


def _chunks(source: TextInput) -> tuple[list[str], np.ndarray] | None:
    """The chunks between white space, and where each begins; None for texts that are not read chunk by chunk."""
    text = source.text
    if source.pair is not None or not text.isascii():
        return None
    codes = np.frombuffer(text.encode(), np.uint8)
    if _CONTROL[codes].any():
        return None
    white = _WHITE[codes]
    begins = np.flatnonzero(~white & np.concatenate([[True], white[:-1]])) if len(codes) else codes
    return (text.split(), begins) if len(begins) else None
