"""Occlusion's window adapts to the length of a text."""

from __future__ import annotations

import numpy as np
import pytest

import rationales
from methods.keyword import keyword_model
from rationales.errors import OptionError
from rationales.methods import build
from rationales.models.text.tokens import TextInput

FILLER = ["Every", "morning", "the", "baker", "carried", "twelve", "loaves", "up", "the", "hill"]


def text_of(words):
    return " ".join((FILLER * (words // len(FILLER) + 1))[:words])


def test_in_a_short_text_the_word_that_decides_stands_alone():
    """A window of five over six words covers nearly all of them, whichever it is."""
    model = rationales.load(*keyword_model("joke"))
    result = rationales.explain(model, "Nobody laughed at the joke again", method="occlusion")
    words = [unit.text for unit in result.units]
    other_scores = np.delete(result.scores, words.index("joke"))
    assert result.scores[words.index("joke")] > 10 * np.abs(other_scores).max()


@pytest.mark.parametrize(("words", "window"), [(6, 1), (24, 1), (25, 2), (50, 3), (75, 4), (99, 4), (100, 5), (160, 5)])
def test_one_word_more_for_every_25_words_up_to_five(words, window):
    model = rationales.load(*keyword_model("joke"))
    text = text_of(words)
    adapted = rationales.explain(model, text, method="occlusion")
    fixed = rationales.explain(model, text, method="occlusion", options={"window": window})
    assert len(adapted.units) == words
    assert np.array_equal(adapted.scores, fixed.scores)


def test_every_text_of_a_batch_has_its_own():
    model = rationales.load(*keyword_model("joke"))
    texts = ["Nobody laughed at the joke again", text_of(60) + " joke", text_of(120) + " joke"]
    for text, mine in zip(texts, rationales.explain(model, texts, method="occlusion"), strict=True):
        assert np.allclose(mine.scores, rationales.explain(model, text, method="occlusion").scores, atol=1e-6)


def test_the_segments_of_a_text_have_the_window_of_the_text():
    module, tokenizer = keyword_model("joke")
    model = rationales.load(module, tokenizer, segment=40, overlap=8)
    with model.frozen():
        batch = model.batch(model.encode([TextInput(text_of(120))]))
        adapted, fixed = (
            build("occlusion", options).scores(batch, batch.predict().argmax(-1)).scores
            for options in ({}, {"window": 5})
        )
    assert len(adapted) > 1
    assert np.array_equal(adapted.numpy(), fixed.numpy())


def test_the_papers_window_is_five():
    assert build("occlusion", {"preset": "paper"}).window == 5


def test_pictures_have_windows_of_a_side_of_their_own():
    assert build("occlusion", kind="image").window == 32
    with pytest.raises(OptionError, match="stride"):
        build("occlusion", {"stride": 2})
