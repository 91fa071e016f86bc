"""Presets `default` and `words`: in a text of any length the words that decide, and nothing around them."""

from __future__ import annotations

import numpy as np
import pytest

import rationales
from methods.keyword import keyword_model

KEYWORDS = ("bridge", "joke")  # no part of theirs is in any other word
FILLER = "and then the long quiet river went on past the field and nobody laughed again that day"
KEYWORD_INDICES = (40, 115)  # of 160 words


@pytest.fixture(scope="module")
def results():
    """The scores of a long text by preset; two of its words are the cause."""
    words = (FILLER.split() * 10)[:160]
    for index, keyword in zip(KEYWORD_INDICES, KEYWORDS, strict=True):
        words[index] = keyword
    model = rationales.load(*keyword_model(*KEYWORDS))
    text = " ".join(words)
    return {name: rationales.explain(model, text, options={"preset": name}) for name in ("default", "words", "clauses")}


@pytest.mark.parametrize("preset", ["default", "words"])
def test_the_words_that_decide_are_the_rationale(results, preset):
    assert tuple(np.flatnonzero(results[preset].selected())) == KEYWORD_INDICES
    assert set(np.argsort(-results[preset].scores)[: len(KEYWORD_INDICES)]) == set(KEYWORD_INDICES)
    assert results[preset].selected_by == "scores"


def test_their_neighbours_have_no_more_than_any_other_word(results):
    """Preset `clauses` gives them more: people mark clauses."""
    around = [index + shift for index in KEYWORD_INDICES for shift in (-2, -1, 1, 2)]
    far = [n for n in range(160) if min(abs(n - index) for index in KEYWORD_INDICES) > 20]
    lead = {name: result.scores[around].mean() - result.scores[far].mean() for name, result in results.items()}
    assert abs(lead["words"]) < 0.02
    assert abs(lead["default"]) < 0.02
    assert lead["clauses"] > 0.2
