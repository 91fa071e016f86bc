"""Leave-one-out by deletion, padding and unknown words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from families import tiny
from reference.marginalization import leave_one_out, log2_odds

import rationales
from methods.keyword import keyword_model
from rationales.errors import OptionError
from rationales.methods.support.odds import on_scale

TEXTS = ["I did not like the soup , but the bread was bad", "Dull", "Nobody laughed at the joke again"]


def classifier_of(module, tokenizer, target):
    """The probability of the target, of words joined by spaces."""

    def classifier(words):
        encoding = tokenizer(" ".join(words), return_tensors="pt")
        with torch.no_grad():
            return float(module(**encoding).logits.double().softmax(-1)[0, target])

    return classifier


def test_log_odds_by_hand():
    """3 : 1 is log2(3); half is 0; 0 and 1 are clipped to 1e-6."""
    values = on_scale(torch.tensor([0.75, 0.5, 0.0, 1.0], dtype=torch.float64), "log2-odds")
    assert values.tolist() == pytest.approx([1.5849625, 0.0, -19.931567, 19.931567], abs=1e-5)
    assert on_scale(torch.tensor([0.75]), "probability").tolist() == [0.75]
    assert log2_odds(0.75) == pytest.approx(1.5849625)


def test_deletion_equals_the_slow_reference():
    module, tokenizer = tiny("bert")
    model = rationales.load(module, tokenizer)
    for text, result in zip(TEXTS, rationales.explain(model, TEXTS, method="loo-empty", target=1), strict=True):
        expected = leave_one_out(classifier_of(module, tokenizer, 1), text.split())
        assert np.allclose(result.scores, expected, atol=2e-5)


@pytest.mark.parametrize(("method", "token"), [("loo-pad", "[PAD]"), ("loo-unk", "[UNK]")])
def test_replacement_equals_the_slow_reference(method, token):
    """A word of k tokens becomes k tokens [PAD] or [UNK], so that nothing else moves."""
    module, tokenizer = tiny("bert")
    model = rationales.load(module, tokenizer)
    for text, result in zip(TEXTS, rationales.explain(model, TEXTS, method=method, target=2), strict=True):
        classifier = classifier_of(module, tokenizer, 2)
        expected = []
        for index, word in enumerate(text.split()):
            count = len(tokenizer(word, add_special_tokens=False)["input_ids"])
            expected.append(leave_one_out(classifier, text.split(), " ".join([token] * count))[index])
        assert np.allclose(result.scores, expected, atol=2e-5)


def test_a_score_by_hand():
    """The keyword model's odds are exp(12 (share - 1/2)): with both words 12/2, with one 0. In base 2: 6 / ln 2."""
    model = rationales.load(*keyword_model("a", "i"))
    for method in ("loo-empty", "loo-pad", "loo-unk"):
        result = rationales.explain(model, "a soup i", method=method, target="found")
        assert result.scores.tolist() == pytest.approx([6 / np.log(2), 0.0, 6 / np.log(2)], abs=1e-4)
    result = rationales.explain(
        model, "a soup i", method="loo-empty", target="found", options={"output": "probability"}
    )
    drop = 1 / (1 + np.exp(-6)) - 0.5
    assert result.scores.tolist() == pytest.approx([drop, 0.0, drop], abs=1e-6)


def test_a_text_of_one_word_becomes_its_special_tokens():
    module, tokenizer = tiny("bert")
    result = rationales.explain(rationales.load(module, tokenizer), "Dull", method="loo-empty", target=0)
    classifier = classifier_of(module, tokenizer, 0)
    assert result.scores.tolist() == pytest.approx(
        [log2_odds(classifier(["Dull"])) - log2_odds(classifier([]))], abs=1e-4
    )


def test_a_certain_prediction_has_finite_scores():
    model = rationales.load(*keyword_model("joke", strength=200.0))
    result = rationales.explain(model, "Nobody laughed at the joke", method="loo-empty")
    assert result.scores.max() == pytest.approx(2 * log2_odds(1.0), rel=1e-3)


@pytest.mark.parametrize("method", ["loo-empty", "loo-pad", "loo-unk"])
def test_the_odds_of_a_nearly_certain_prediction_are_not_rounded(method):
    """Odds of exp(13): 1 - p is 2.3e-6, of which single precision leaves 3 %, which is .04 in log2-odds."""
    model = rationales.load(*keyword_model("a", "i", strength=26.0))
    alone = rationales.explain(model, "a soup i", method=method, target="found").scores
    in_a_batch = rationales.explain(model, ["a soup i", "the long soup of a day"], method=method, target="found")
    assert alone.tolist() == pytest.approx([13 / np.log(2), 0.0, 13 / np.log(2)], abs=1e-4)
    assert np.allclose(alone, in_a_batch[0].scores, atol=1e-5)


def test_repeated_words_are_evaluated_once():
    module, tokenizer = tiny("bert")
    model = rationales.load(module, tokenizer)
    text = "very " * 12 + "dull"
    encoded = model.encode([model.read(text, None)])
    counts = []
    module.register_forward_pre_hook(
        lambda _module, _arguments, named: counts.append(len(named["input_ids"])), with_kwargs=True
    )
    with model.frozen():
        rationales.methods.build("loo-empty").scores(model.batch(encoded), torch.tensor([0]))
    assert sum(counts) == 3  # the text, the text with one 'very' less, the text without 'dull'


def test_a_tokenizer_without_the_token_is_named():
    model = rationales.load(*tiny("gpt2"))
    with pytest.raises(OptionError, match=r"loo-pad needs a tokenizer with a pad token.*use loo-empty"):
        rationales.explain(model, "The soup was cold", method="loo-pad")


@pytest.mark.parametrize("unit", ["token", "sentence"])
def test_units_may_be_tokens_or_sentences(unit):
    model = rationales.load(*tiny("bert"), unit=unit)
    text = "The soup was cold. Nobody laughed."
    result = rationales.explain(model, text, method="loo-empty")
    assert result.scores.shape == (len(result.units),)
    assert np.abs(result.scores).min() > 0
