"""Preset `words`: in a text of any length the words that decide, and nothing around them."""

from __future__ import annotations

import numpy as np
import pytest

import rationales
from methods.keyword import keyword_model

KEYWORDS = ("bridge", "joke")  # no part of theirs is in any other word
FILLER = "and then the long quiet river went on past the field and nobody laughed again that day"
PLACES = (40, 115)  # of 160 words


@pytest.fixture(scope="module")
def found():
    """The scores of a long text by preset; two of its words are the cause."""
    words = (FILLER.split() * 10)[:160]
    for place, keyword in zip(PLACES, KEYWORDS, strict=True):
        words[place] = keyword
    model = rationales.load(*keyword_model(*KEYWORDS))
    text = " ".join(words)
    return {name: rationales.explain(model, text, options={"preset": name}) for name in ("default", "words")}


def test_the_words_that_decide_are_the_rationale(found):
    assert tuple(np.flatnonzero(found["words"].selected())) == PLACES
    assert set(np.argsort(-found["words"].scores)[: len(PLACES)]) == set(PLACES)


def test_their_neighbours_have_no_more_than_any_other_word(found):
    """The default gives them more: people mark clauses."""
    around = [place + shift for place in PLACES for shift in (-2, -1, 1, 2)]
    far = [n for n in range(160) if min(abs(n - place) for place in PLACES) > 20]
    lead = {name: one.scores[around].mean() - one.scores[far].mean() for name, one in found.items()}
    assert abs(lead["words"]) < 0.02
    assert lead["default"] > 0.2
