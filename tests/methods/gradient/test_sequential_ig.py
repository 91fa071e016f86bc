"""Sequential integrated gradients: the formula written out, and what follows from it."""

from __future__ import annotations

import pytest
import torch
from families import tiny, tokenizer_of
from methods.keyword import WeightedWordsModel
from reference import inside

import rationales
from rationales.errors import OptionError
from rationales.methods import build
from rationales.models.batch.rows import Piece

TEXTS = ["I did not like the soup, but the bread wasn't bad at all!", "Dull.", "Nobody laughed."]


def batch_of(module, tokenizer, texts=TEXTS):
    model = rationales.load(module, tokenizer)
    return model.batch(model.encode([model.read(text, None) for text in texts]))


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_equals_the_formula_written_out(family):
    batch, target = batch_of(*tiny(family)), torch.tensor([1, 0, 2])
    scores = build("sequential-ig", {"steps": 12, "output": "logit"}).scores(batch, target).scores
    for row in (1, 2):
        length, index = batch.lengths[row], torch.tensor([row])
        piece = Piece(index, index, 0, length, full=True)
        full, empty = batch.input_embeddings(index)[0], batch.all_replaced(index)[0]
        owner = batch.owner[row, :length]
        word = torch.where(owner == batch.size[1], -1, owner)

        def score(embeddings, piece=piece, row=row):
            return batch.forward_from(piece, embeddings[None])[0, target[row]]

        expected = inside.sequential_ig(score, full, empty, word, steps=50)
        assert torch.allclose(scores[row, : len(expected)], expected, atol=5e-4)
        assert (scores[row, len(expected) :] == 0).all()
        assert expected.abs().max() > 0.02


def test_a_words_score_is_the_change_of_the_output_when_it_alone_returns():
    batch, target = batch_of(*tiny("bert")), torch.tensor([1, 0, 2])
    scores = build("sequential-ig", {"steps": 30, "output": "logit"}).scores(batch, target).scores
    with torch.no_grad():
        full = batch.logits(batch.ones()).gather(1, target[:, None])[:, 0]
        for unit in range(batch.size[1]):
            keep = batch.ones()
            keep[:, unit] = 0
            drop = full - batch.logits(keep).gather(1, target[:, None])[:, 0]
            assert torch.allclose(scores[:, unit], drop * batch.rows.real[:, unit], atol=2e-4)


def test_words_that_the_model_adds_up_get_exactly_their_weights():
    """Gauss-Legendre quadrature is exact for the square of a share."""
    model = WeightedWordsModel({"soup": (3.0, 0.0), "bread": (0.0, 2.0)}, ("a", "b"))
    result = rationales.explain(
        rationales.load(model, tokenizer_of("bert"), baseline=torch.zeros(len(tokenizer_of("bert")))),
        "My soup and bread",
        target="a",
        method="sequential-ig",
        options={"steps": 2, "output": "logit"},
    )
    assert result.scores == pytest.approx([0.0, 3.0, 0.0, 0.0], abs=1e-5)


@pytest.mark.parametrize("reduce", ["sum", "norm"])
def test_the_budget_changes_nothing(reduce):
    batch, target = batch_of(*tiny("bert")), torch.tensor([1, 0, 2])
    method = build("sequential-ig", {"steps": 5, "reduce": reduce})
    expected = method.scores(batch, target).scores
    batch.budget = 1
    assert torch.allclose(method.scores(batch, target).scores, expected, atol=1e-6)


def test_no_steps_are_refused():
    with pytest.raises(OptionError, match="at least 1 step, not 0"):
        build("sequential-ig", {"steps": 0})
