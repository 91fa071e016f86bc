"""Accuracy under perturbation, exact matches of fillers and correlations of scores: by hand and by reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from bags import bag_of_words, examples
from families import tiny
from methods.fillers import dropping_filler, known_filler, language_model, tiny_filler, word_tokenizer
from reference import counterfactuals as literal

import rationales
from rationales.data.example import Example
from rationales.errors import InputError, OptionError
from rationales.evaluation.counterfactuals.accuracy_drop import accuracy_drop, lime_keeps
from rationales.evaluation.counterfactuals.filler_predictions import filler_predictions
from rationales.evaluation.counterfactuals.score_correlation import mean_pearson, pearson

MODEL = rationales.load(*bag_of_words())


class TestAccuracyDrop:
    def test_by_hand(self):
        """Without "good" or "bad" both logits are 0, which is class 0: one of n deletions turns a positive text."""
        pair = [Example("a", "a good day", "positive"), Example("b", "the soup was bad", "negative")]
        drop = accuracy_drop(MODEL, pair)
        assert drop.full.tolist() == [1.0, 1.0]
        assert drop.changed.tolist() == [pytest.approx(2 / 3), 1.0]
        assert drop.drop.mean == pytest.approx((1 / 3 + 0) / 2)
        assert drop.forms == 3 + 4

    @pytest.mark.parametrize("seed", range(2))
    def test_equals_the_literal_reference(self, seed):
        module, tokenizer = tiny("bert", num_labels=2, seed=seed)
        texts = [item.text.split()[: 3 + number] for number, item in enumerate(examples(6))]

        def classifier(words):
            ids = tokenizer(" ".join(words), return_tensors="pt")
            with torch.no_grad():
                return int(module(**{name: ids[name] for name in tokenizer.model_input_names}).logits.argmax())

        labels = [number % 2 for number in range(6)]
        labelled = [
            Example(str(number), " ".join(words), f"LABEL_{label}")
            for number, (words, label) in enumerate(zip(texts, labels, strict=True))
        ]
        drop = accuracy_drop(rationales.load(module, tokenizer), labelled)
        expected = literal.drop_when_one_is_deleted(classifier, texts, labels)
        assert drop.drop.mean == pytest.approx(expected)

    def test_a_filler_that_writes_the_word_again_loses_nothing(self):
        same = known_filler({0: {"a": 1.0}, 1: {"good": 1.0}, 2: {"day": 1.0}})
        turned = known_filler({0: {"a": 1.0}, 1: {"bad": 1.0}, 2: {"day": 1.0}})
        text = [Example("a", "a good day", "positive")]
        assert accuracy_drop(MODEL, text, "replace-one", filler=same).drop.mean == 0.0
        assert accuracy_drop(MODEL, text, "replace-one", filler=turned).drop.mean == pytest.approx(1 / 3)

    def test_a_text_that_the_filler_drops_is_deleted(self):
        model, filler = rationales.load(*tiny("roberta", num_labels=2)), dropping_filler("☀", "☂")
        labelled = [Example("a", "☀ ☂", "LABEL_0"), Example("b", "☂", "LABEL_1")]
        replaced = accuracy_drop(model, labelled, "replace-one", filler=filler)
        assert replaced.changed.tolist() == accuracy_drop(model, labelled, "delete-one").changed.tolist()

    def test_lime_deletes_half_of_the_words_on_average(self):
        keeps = lime_keeps(9, 4000, 3)
        assert not keeps.all(1).any()  # at least one word is deleted
        assert keeps.mean() == pytest.approx(1 - (1 + 9) / 2 / 9, abs=0.02)
        counts = np.bincount((~keeps).sum(1), minlength=10)[1:]
        assert counts == pytest.approx([4000 / 9] * 9, rel=0.2)
        assert (lime_keeps(9, 5, 3) == lime_keeps(9, 5, 3)).all()

    def test_lime_loses_more_than_one_deletion(self):
        labelled = examples(20)
        deletion, lime = (accuracy_drop(MODEL, labelled, name, samples=60) for name in ("delete-one", "lime"))
        assert lime.drop.mean > 2 * deletion.drop.mean
        # a positive text keeps its word with probability 1 - 5/9
        positive = np.array([item.label == "positive" for item in labelled])
        assert (1 - lime.changed[positive]).mean() == pytest.approx(5 / 9, abs=0.08)
        assert lime.changed[~positive].tolist() == [1.0] * 10

    def test_one_word_becomes_empty(self):
        drop = accuracy_drop(MODEL, [Example("a", "good", "positive")])
        assert (drop.full[0], drop.changed[0], drop.forms) == (1.0, 0.0, 1)

    def test_mistakes(self):
        labelled = [Example("a", "a good day", "positive")]
        with pytest.raises(InputError, match="b has no label"):
            accuracy_drop(MODEL, [*labelled, Example("b", "a day")])
        with pytest.raises(OptionError, match="perturbed by delete-one, replace-one, lime"):
            accuracy_drop(MODEL, labelled, "delete-two")
        with pytest.raises(OptionError, match="needs a masked language model"):
            accuracy_drop(MODEL, labelled, "replace-one")
        with pytest.raises(OptionError, match="at least one sample"):
            accuracy_drop(MODEL, labelled, "lime", samples=0)


class TestFillerPredictions:
    def test_by_hand(self):
        filler = known_filler({0: {"A": 0, "a": 0.5, "the": 0.3}, 1: {"good": 0.9}, 2: {"soup": 0.6, "day": 0.4}})
        text = Example("a", "A good day", spans=((2, 10),))
        predictions = filler_predictions(MODEL, [text], filler)
        assert predictions.matches.tolist() == [True, True, False]
        assert predictions.likelihood.tolist() == pytest.approx([0.5, 0.9, 0.6])
        assert predictions.match_rate == pytest.approx(2 / 3)
        assert predictions.marked_match_rate == 0.5
        assert predictions.match_likelihood == pytest.approx(0.7)

    def test_equals_the_literal_reference(self):
        filler = tiny_filler(seed=2)
        texts = [item.text.split() for item in examples(5)]
        predictions = filler_predictions(MODEL, examples(5), filler)
        rate, likelihood = literal.exact_matches(language_model(*filler), texts)
        assert predictions.match_rate == pytest.approx(rate)
        assert predictions.match_likelihood == pytest.approx(likelihood, abs=1e-5, nan_ok=True)
        assert predictions.text.tolist() == [number for number in range(5) for _ in range(9)]

    def test_a_word_that_the_filler_drops_is_left_out(self):
        model, texts = rationales.load(*tiny("roberta", num_labels=2)), ["the soup ☀ was cold", "☀"]
        predictions = filler_predictions(model, [Example(text, text) for text in texts], dropping_filler("☀"))
        assert predictions.text.tolist() == [0] * 4
        assert (len(predictions.matches), predictions.left_out) == (4, 2)

    def test_another_tokenizer_and_no_marks(self):
        model = rationales.load(*tiny("roberta", num_labels=2))
        predictions = filler_predictions(model, examples(2), tiny_filler(word_tokenizer()))
        assert len(predictions.matches) + predictions.left_out == 18
        assert math.isnan(predictions.marked_match_rate)
        assert not predictions.has_marks

    def test_mistakes(self):
        with pytest.raises(OptionError, match="masked language model"):
            filler_predictions(MODEL, examples(1), None)
        with pytest.raises(OptionError, match="unit='word'"):
            filler_predictions(rationales.load(*bag_of_words(), unit="token"), examples(1), tiny_filler())


class TestScoreCorrelation:
    def test_by_hand(self):
        # deviations -1 0 1 and -1 1 0: r = 1 / 2
        assert pearson(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])) == pytest.approx(0.5)
        assert math.isnan(pearson(np.array([1.0]), np.array([2.0])))
        assert math.isnan(pearson(np.ones(3), np.arange(3.0)))
        with pytest.raises(InputError, match="cannot be compared"):
            pearson(np.ones(2), np.ones(3))

    def test_the_mean_leaves_out_what_is_undefined(self):
        mean = mean_pearson([np.array([1.0, 2.0, 3.0]), np.ones(2)], [np.array([1.0, 3.0, 2.0]), np.ones(2)])
        assert (mean.mean, mean.n) == (pytest.approx(0.5), 1)
