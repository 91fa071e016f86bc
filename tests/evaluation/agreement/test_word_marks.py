"""Marks and scores on the same white-space tokens."""

from __future__ import annotations

import numpy as np
import pytest
from families import tiny
from hypothesis import given
from strategies import texts

import rationales
from rationales.data.example import Example, words_of
from rationales.errors import InputError
from rationales.evaluation.agreement.word_marks import (
    annotator_words,
    gold_pixels,
    gold_words,
    marked_words,
    word_scores,
)
from rationales.rationale import Unit


def test_a_token_is_marked_if_a_span_touches_it():
    text = "not  good, at all"
    assert marked_words(text, [(5, 7)]).tolist() == [False, True, False, False]
    assert marked_words(text, [(0, 6)]).tolist() == [True, True, False, False]
    assert marked_words(text, [(3, 5)]).tolist() == [False] * 4  # white space alone
    assert marked_words(text, [(2, 4), (11, 17)]).tolist() == [True, False, True, True]


@pytest.mark.parametrize("span", [(0, 40), (-1, 3), (5, 5), (6, 2)])
def test_a_span_outside_of_the_text_is_an_error(span):
    with pytest.raises(InputError, match=r"review 7: the span .* lies outside of the text, which has 8 characters"):
        marked_words("not good", [span], "review 7")


def test_scores_of_a_token_are_the_mean_of_its_words():
    units = [Unit("wasn't", 0, 6), Unit("bad", 7, 10), Unit(",", 10, 11), Unit("really", 12, 18)]
    assert word_scores("wasn't bad, really", None, units, np.array([1.0, 0.5, 0.1, -2.0])).tolist() == [1.0, 0.3, -2.0]


def test_a_unit_over_several_tokens_counts_in_each_and_a_token_without_any_gets_the_lowest():
    units = [Unit("one two", 0, 7), Unit("two-b", 4, 7), Unit("four", 14, 18)]
    assert word_scores("one two three four", None, units, np.array([1.0, 0.0, 0.4])).tolist() == [1.0, 0.5, 0.0, 0.4]


def test_pairs_are_one_row_of_tokens():
    units = [Unit("a", 0, 1), Unit("b", 2, 3), Unit("c", 0, 1, 1)]
    assert word_scores("a b", "c d", units, np.array([1.0, 2.0, 3.0])).tolist() == [1.0, 2.0, 3.0, 1.0]
    example = Example("x", "a b", "yes", spans=((2, 3),), pair="c d", pair_spans=((0, 1),))
    assert gold_words(example).tolist() == [False, True, True, False]
    assert gold_words(Example("x", "a b", "yes", pair="c d", pair_spans=((2, 3),))).tolist() == [False] * 3 + [True]
    assert gold_words(Example("x", "a b", "yes")) is None
    several = Example("x", "a b", "yes", spans=((0, 1),), annotator_spans=(((2, 3),), ((0, 3),)))
    assert [example.tolist() for example in annotator_words(several)] == [[False, True], [True, True]]
    assert gold_words(Example("x", "a b", "yes", spans=())).tolist() == [False, False]


def test_as_many_scores_as_units():
    with pytest.raises(InputError, match="2 scores for 1 units"):
        word_scores("a", None, [Unit("a", 0, 1)], np.ones(2))


@given(texts)
def test_every_text_has_one_score_per_token(text):
    module, tokenizer = _MODEL
    try:
        encoded = rationales.load(module, tokenizer).encode([rationales.load(module, tokenizer).read(text, None)])[0]
    except rationales.RationalesError:
        return  # nothing to explain
    scores = np.arange(1.0, len(encoded.units) + 1)
    scores_ = word_scores(text, None, encoded.units, scores)
    assert len(scores_) == len(words_of(text)) == len(text.split())
    assert np.isfinite(scores_).all()
    assert scores_.min() >= 1
    assert scores_.max() <= len(encoded.units)


def test_boxes_become_pixels():
    assert gold_pixels([(0, 0, 2, 1), (1, 0, 3, 2)], 2, 4).astype(int).tolist() == [[1, 1, 1, 0], [0, 1, 1, 0]]
    with pytest.raises(InputError, match=r"cat.png: the box \(0, 0, 5, 1\) lies outside of its 4 × 2 pixels"):
        gold_pixels([(0, 0, 5, 1)], 2, 4, "cat.png")


_MODEL = tiny("bert")
