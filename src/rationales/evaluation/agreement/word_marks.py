"""Scores and marks on white-space tokens, which is what people marked, whatever the units of a model are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rationales.data.example import Extent, words_of
from rationales.errors import InputError
from rationales.models.text.units import trim
from rationales.rationale import Unit


def gold_words(example: Any) -> np.ndarray | None:
    """(words,) bool: what people marked of the text, then of its pair; None without any annotation."""
    spans, pair_spans = example.spans, getattr(example, "pair_spans", None)
    if spans is None and pair_spans is None:
        return None
    marks = [marked_words(example.text, spans or (), example.name)]
    if example.pair is not None:
        marks.append(marked_words(example.pair, pair_spans or (), example.name))
    return np.concatenate(marks)


def annotator_words(example: Any) -> list[np.ndarray]:
    """(words,) bool each: what every further person marked of an example's text, for the human ceiling."""
    return [marked_words(example.text, spans, example.name) for spans in example.annotator_spans]


def marked_words(text: str, spans: Sequence[Extent], name: str = "the text") -> np.ndarray:
    """(words,) bool: the white-space tokens that share a visible character with one of the spans."""
    extents = words_of(text)
    begins, ends = (np.array([extent[side] for extent in extents], dtype=np.int64) for side in (0, 1))
    edges = np.zeros(len(extents) + 1, dtype=np.int64)
    for start, end in spans:
        if not 0 <= start < end <= len(text):
            length = len(text)
            raise InputError(f"{name}: the span {start}..{end} lies outside of the text, which has {length} characters")
        first, last = np.searchsorted(ends, start, side="right"), np.searchsorted(begins, end, side="left")
        if first < last:
            edges[first] += 1
            edges[last] -= 1
    inside: np.ndarray = np.cumsum(edges[:-1]) > 0
    return inside


def word_scores(text: str, pair: str | None, units: Sequence[Unit], scores: np.ndarray) -> np.ndarray:
    """(words,): the mean score of the units in each white-space token of the text, then of its pair.

    A unit that spans several tokens (a sentence) counts in each. A token that holds no unit, since the model sees
    nothing of it, gets the input's lowest score.
    """
    if len(units) != len(scores):
        raise InputError(f"{len(scores)} scores for {len(units)} units")
    scores_of_texts = []
    lowest = float(np.min(scores)) if len(scores) else 0.0
    for text_index, content in enumerate([text] if pair is None else [text, pair]):
        extents = words_of(content)
        unit_indices = [number for number, unit in enumerate(units) if unit.text_index == text_index]
        begins, ends = (np.array([extent[side] for extent in extents], dtype=np.int64) for side in (0, 1))
        visible = [trim(content, units[number].start, units[number].end) for number in unit_indices]
        first = np.searchsorted(ends, [start for start, _ in visible], side="right")
        last = np.maximum(np.searchsorted(begins, [end for _, end in visible], side="left"), first)
        word_counts = last - first
        offset = np.arange(word_counts.sum()) - np.repeat(np.cumsum(word_counts) - word_counts, word_counts)
        word_index = np.repeat(first, word_counts) + offset
        unit_scores = np.asarray(scores, dtype=np.float64)[unit_indices]
        total = np.bincount(word_index, np.repeat(unit_scores, word_counts), minlength=len(extents))
        count = np.bincount(word_index, minlength=len(extents))
        scores_of_texts.append(np.where(count > 0, total / np.maximum(count, 1), lowest))
    return np.concatenate(scores_of_texts)


def gold_pixels(boxes: Sequence[tuple[int, int, int, int]], height: int, width: int, name: str = "") -> np.ndarray:
    """(height, width) bool: inside one of the boxes (left, top, right, bottom)."""
    inside = np.zeros((height, width), dtype=bool)
    for left, top, right, bottom in boxes:
        if not (0 <= left < right <= width and 0 <= top < bottom <= height):
            box = (left, top, right, bottom)
            raise InputError(f"{name or 'the image'}: the box {box} lies outside of its {width} × {height} pixels")
        inside[top:bottom, left:right] = True
    return inside
