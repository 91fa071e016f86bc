"""Which stretches of the corpus are shown: windows of reviews, sentences, groups of sentences, whole phrases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zoo.data import Array, Corpus
from zoo.text import UNKNOWN

MAX_PIECES = 510  # plus [CLS] and [SEP]
WINDOW_WORDS = 380  # about MAX_PIECES pieces: a window that starts this far from the end reaches it
SENTENCE_WORDS = (3, 60)


@dataclass(frozen=True)
class Spans:
    """start, end: (S,) word positions; label: (S,); fixed: (S,) bool, never masked."""

    start: Array
    end: Array
    label: Array
    fixed: Array

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Array) -> Spans:
        return Spans(self.start[index], self.end[index], self.label[index], self.fixed[index])


def join(parts: list[Spans]) -> Spans:
    fields = ("start", "end", "label", "fixed")
    return Spans(*(np.concatenate([getattr(spans, name) for spans in parts]) for name in fields))


def cut(start: Array, end: Array, offsets: list[Array]) -> Array:
    """Ends moved forward so that no span has more than MAX_PIECES pieces under any tokenizer."""
    for before in offsets:
        end = np.minimum(end, np.searchsorted(before, before[start] + MAX_PIECES, side="right") - 1)
    return end


def whole_texts(corpus: Corpus, texts: Array, offsets: list[Array], fixed: bool = False) -> Spans:
    start, end = corpus.bounds[texts], corpus.bounds[texts + 1]
    return Spans(start, cut(start, end, offsets), corpus.labels[texts], np.full(len(texts), fixed))


def review_windows(corpus: Corpus, texts: Array, offsets: list[Array], rng: np.random.Generator) -> Spans:
    """One window a review: 40 % its opening, 40 % a random full window, 20 % a random shorter one."""
    first, last = corpus.bounds[texts], corpus.bounds[texts + 1]
    kind = rng.random(len(texts))
    slack = np.maximum(0, last - first - WINDOW_WORDS)
    length = rng.integers(40, 300, len(texts))
    short_slack = np.maximum(0, last - first - length)
    position = rng.random(len(texts))
    start = first + np.select([kind < 0.4, kind < 0.8], [0 * slack, (position * (slack + 1)).astype(np.int64)],
                              (position * (short_slack + 1)).astype(np.int64))  # fmt: skip
    end = np.where(kind < 0.8, last, np.minimum(last, start + length))
    return Spans(start, cut(start, end, offsets), corpus.labels[texts], np.zeros(len(texts), bool))


def sentence_spans(corpus: Corpus, texts: Array) -> tuple[Spans, Array]:
    """All sentences of the texts, unlabelled, and the text each comes from."""
    position = {word: i for i, word in enumerate(corpus.vocabulary)}
    stops = [position[mark] for mark in ".!?" if mark in position]
    closing = stops + [position[mark] for mark in "\"')" if mark in position]
    after = np.append(corpus.words[1:], -1)
    stop = np.isin(corpus.words, stops) & ~np.isin(after, closing)
    ends = np.union1d(np.flatnonzero(stop) + 1, corpus.bounds[1:])
    starts = np.concatenate([[0], ends[:-1]])
    owner = np.searchsorted(corpus.bounds, starts, side="right") - 1
    words = ends - starts
    good = np.isin(owner, texts) & (words >= SENTENCE_WORDS[0]) & (words <= SENTENCE_WORDS[1])
    count = int(good.sum())
    return Spans(starts[good], ends[good], np.full(count, UNKNOWN), np.zeros(count, bool)), owner[good]


def sentence_groups(sentences: Spans, owner: Array, offsets: list[Array], rng: np.random.Generator) -> Spans:
    """Two to six neighbouring sentences of one text, from every third sentence on."""
    first = np.arange(0, len(sentences) - 6, 3)
    last = first + rng.integers(1, 6, len(first))
    same = owner[first] == owner[last]
    first, last = first[same], last[same]
    start = sentences.start[first]
    end = cut(start, sentences.end[last], offsets)
    return Spans(start, end, np.full(len(first), UNKNOWN), np.zeros(len(first), bool))


def batched(spans: Spans, offsets: list[Array], rows: int, tokens: int, rng: np.random.Generator) -> Iterator[Spans]:
    """Batches of like length in random order: at most `rows` spans and about `tokens` padded tokens each."""
    length = np.max([before[spans.end] - before[spans.start] for before in offsets], axis=0) + 2
    order = np.argsort(length * rng.uniform(0.9, 1.1, len(spans)), kind="stable")
    batches, first = [], 0
    while first < len(order):
        count = min(rows, max(1, tokens // int(length[order[min(first + rows, len(order)) - 1]])))
        batches.append(order[first : first + count])
        first += count
    for index in rng.permutation(len(batches)):
        yield spans.take(batches[index])
