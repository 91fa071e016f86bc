"""All texts as one flat array of words, with each word's pieces under both tokenizers."""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import Tensor

from zoo.text import Text

Array = NDArray[Any]
CHUNK = 5000
UNKNOWN_PIECE = "[UNK]"
MAX_WORDS = 2_000_000  # more than there are: the word list is complete


def read_packed(path: Path, limit: int | None = None) -> list[Text]:
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()[:limit]
    return [Text(text, int(label)) for label, _, text in (line.partition("\t") for line in lines)]


@dataclass(frozen=True)
class Corpus:
    """words: (N,) indices into `vocabulary`; bounds: (D + 1,) where each text starts; labels: (D,)."""

    vocabulary: list[str]
    words: Array
    bounds: Array
    labels: Array


def build_corpus(texts: Sequence[Text]) -> Corpus:
    """Split texts into words exactly as BERT's tokenizers do."""
    splitter = Tokenizer(models.WordLevel(unk_token=UNKNOWN_PIECE))
    splitter.normalizer = normalizers.BertNormalizer(lowercase=True)
    splitter.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    strings = [text.text for text in texts]
    trainer = trainers.WordLevelTrainer(vocab_size=MAX_WORDS, special_tokens=[UNKNOWN_PIECE], show_progress=False)
    splitter.train_from_iterator(strings, trainer)
    ids = []
    for first in range(0, len(strings), CHUNK):
        ids += [np.array(e.ids, np.int32) for e in splitter.encode_batch_fast(strings[first : first + CHUNK])]
    vocabulary = sorted(splitter.get_vocab().items(), key=lambda item: item[1])
    return Corpus(
        vocabulary=[word for word, _ in vocabulary],
        words=np.concatenate(ids),
        bounds=np.concatenate([[0], np.cumsum([len(i) for i in ids])]),
        labels=np.array([text.label for text in texts]),
    )


@dataclass(frozen=True)
class Pieces:
    """The word pieces of every word: word v has ids[first[v] : first[v] + count[v]]."""

    ids: Tensor
    first: Tensor
    count: Tensor
    cls: int
    sep: int
    pad: int

    def to(self, device: torch.device) -> Pieces:
        return Pieces(self.ids.to(device), self.first.to(device), self.count.to(device), self.cls, self.sep, self.pad)


def piece_id(tokenizer: Tokenizer, piece: str) -> int:
    token_id = tokenizer.token_to_id(piece)
    if token_id is None:
        raise ValueError(f"the tokenizer has no piece {piece}")
    return token_id


def word_pieces(tokenizer: Tokenizer, vocabulary: Sequence[str]) -> Pieces:
    tokenizer.no_padding()
    tokenizer.no_truncation()
    unknown = piece_id(tokenizer, UNKNOWN_PIECE)
    encoded = [e.ids or [unknown] for e in tokenizer.encode_batch(list(vocabulary), add_special_tokens=False)]
    count = torch.tensor([len(ids) for ids in encoded])
    special = {name: piece_id(tokenizer, f"[{name.upper()}]") for name in ("cls", "sep", "pad")}
    ids = torch.tensor([i for word in encoded for i in word])
    return Pieces(ids=ids, first=count.cumsum(0) - count, count=count, **special)


def piece_offsets(corpus: Corpus, pieces: Pieces) -> Array:
    """(N + 1,) pieces before each word of the flat corpus."""
    return np.concatenate([[0], np.cumsum(pieces.count.numpy()[corpus.words])])
