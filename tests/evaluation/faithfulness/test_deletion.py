"""Deletion and Deletion-BERT: golden values, the literal reference, and what happens at the edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from families import tiny
from methods.fillers import dropping_filler, known_filler, language_model, tiny_filler, word_tokenizer
from methods.keyword import keyword_model
from reference import deletion as literal

import rationales
from rationales.data.example import Example
from rationales.evaluation.faithfulness.filling_in_turn import fill_in_turn
from rationales.evaluation.faithfulness.measure import measure_faithfulness
from rationales.evaluation.protocols import PRESETS
from rationales.models.text.filling.filler import Filler
from rationales.models.text.tokens import TextInput

TEXT = "the old boat was at the cold bridge and i laughed at the dull joke again"  # 16 words: three steps
WORDS = TEXT.split()


def classifier(module, tokenizer):
    """p(class 1) of a list of words, one text at a time."""

    def probability(words):
        ids = tokenizer(" ".join(words), return_tensors="pt")
        with torch.no_grad():
            output = module(input_ids=ids["input_ids"], attention_mask=ids["attention_mask"])
        return float(getattr(output, "logits", output).double().softmax(-1)[0, 1])

    return probability


def measured(model, text, scores, protocol, **options):
    recipe = replace(PRESETS[protocol], label="explained", only_correct=False)
    return measure_faithfulness(model, [text], [np.array(scores, dtype=float)], [1], recipe, **options).deletion()[0]


@pytest.mark.parametrize("seed", range(3))
def test_both_equal_the_literal_reference(seed):
    module, tokenizer = tiny("bert", seed=seed)
    filler = tiny_filler(seed=seed)
    scores = np.random.default_rng(seed).normal(size=len(WORDS)).tolist()
    model = rationales.load(module, tokenizer)
    read = classifier(module, tokenizer)
    assert measured(model, TEXT, scores, "im") == pytest.approx(literal.deletion(read, WORDS, scores), abs=1e-5)
    expected = literal.deletion_bert(read, language_model(*filler), WORDS, scores)
    assert measured(model, TEXT, scores, "im-bert", filler=filler) == pytest.approx(expected, abs=1e-5)


def test_golden_values():
    """A model that looks for "bread", ten words, two steps: bread at once or at the second step."""
    model = rationales.load(*keyword_model("bread"))
    text = "the old boat was at the cold bread and bridge"
    full, without = (classifier(*keyword_model("bread"))(words.split()) for words in (text, text.replace("bread", "")))
    first = [0, 0, 0, 0, 0, 0, 0, 9, 0, 0]  # then "the", from the left
    assert measured(model, text, first, "im") == pytest.approx((full + 2 * without + without) / 4, abs=1e-6)
    second = [9, 0, 0, 0, 0, 0, 0, 8, 0, 0]
    assert measured(model, text, second, "im") == pytest.approx((full + 2 * full + without) / 4, abs=1e-6)


def test_a_filler_that_writes_the_word_again_takes_nothing_away():
    """The paper's bias: a sure filler leaves the probability where it was, deletion does not."""
    model = rationales.load(*keyword_model("bread"))
    text = "the old boat was at the cold bread"
    scores = [0, 0, 0, 0, 0, 0, 0, 1]
    sure = known_filler({7: {"bread": 0.9, "soup": 0.1}})
    unsure = known_filler({7: {"bread": 0.1, "soup": 0.9}})
    full = classifier(*keyword_model("bread"))(text.split())
    assert measured(model, text, scores, "im-bert", filler=sure) == pytest.approx(full, abs=1e-6)
    assert measured(model, text, scores, "im-bert", filler=unsure) < full / 2 + 0.01


class TestInTurn:
    def test_the_next_word_is_predicted_given_the_words_before(self):
        class Recorder:
            def __init__(self):
                self.texts = []

            def fill(self, inputs, kept):
                self.texts.append([item.source.text for item in inputs])
                filled = []
                for item, marks in zip(inputs, kept, strict=True):
                    (unit,) = [unit for unit, keep in zip(item.units, marks, strict=True) if not keep]
                    text = item.source.text
                    filled.append(TextInput(text[: unit.start] + "longer!"[: unit.end] + text[unit.end :]))
                return filled

        model = rationales.load(*keyword_model("bread"))
        encoded = model.encode([model.read("  a good day ", None), model.read("soup", None)])
        recorder = Recorder()
        forms = fill_in_turn(recorder, encoded, [[1, 0, 2], []])
        assert [form.text for form in forms[0]] == [
            "a good day", "a longer day", "l longer day", "l longer longer!",
        ]  # fmt: skip
        assert [form.text for form in forms[1]] == ["soup"]
        assert recorder.texts == [["a good day"], ["a longer day"], ["l longer day"]]

    def test_a_filler_of_longer_words_keeps_the_other_words_where_they_are(self):
        model = rationales.load(*tiny("bert"))
        filler = Filler(*known_filler({0: {"soup": 1.0}, 1: {"cold": 1.0}, 2: {"day": 1.0}}), "known")
        (encoded,) = model.encode([model.read("the warm bread", None)])
        (forms,) = fill_in_turn(filler, [encoded], [[2, 0, 1]])
        assert [form.text for form in forms] == ["the warm bread", "the warm day", "soup warm day", "soup cold day"]

    def test_pairs(self):
        model = rationales.load(*tiny("bert"))
        filler = Filler(*tiny_filler(word_tokenizer()), "tiny")
        (encoded,) = model.encode([model.read(("the warm bread", "was good"), None)])
        (forms,) = fill_in_turn(filler, [encoded], [[4, 0]])
        assert [form.pair.split()[0] for form in forms] == ["was"] * 3
        assert forms[1].text == "the warm bread"
        assert forms[2].text.endswith("warm bread")


class TestEdges:
    model = rationales.load(*keyword_model("bread"))

    def test_one_word_is_deleted_although_20_percent_round_to_nothing(self):
        empty = classifier(*keyword_model("bread"))([])
        full = classifier(*keyword_model("bread"))(["bread"])
        assert measured(self.model, "bread", [1.0], "im") == pytest.approx((full + empty) / 2, abs=1e-6)

    def test_one_word_is_filled_in(self):
        value = measured(self.model, "bread", [1.0], "im-bert", filler=known_filler({0: {"soup": 1.0}}))
        assert value == pytest.approx(measured(self.model, "bread", [1.0], "im"), abs=1e-6)

    def test_a_text_that_the_filler_drops_is_deleted(self):
        model, scores = rationales.load(*tiny("roberta")), [2.0, 1.0]
        deleted = measured(model, "☀ ☂", scores, "im")
        assert measured(model, "☀ ☂", scores, "im-bert", filler=dropping_filler("☀", "☂")) == pytest.approx(deleted)

    @pytest.mark.parametrize("protocol", ["im", "im-bert"])
    def test_a_class_without_a_correct_prediction_has_no_value(self, protocol):
        examples = [Example(str(number), "the soup was cold", "found") for number in range(2)]
        filler = tiny_filler() if protocol == "im-bert" else None
        table = rationales.evaluate(self.model, examples, ["random"], protocol, ["deletion"], filler=filler)
        assert table["random"].cells["deletion"].estimate.n == 0
        assert "undefined (n = 0)" in str(table)

    def test_data_without_labels_are_an_error(self):
        with pytest.raises(rationales.RationalesError, match="has no label, and protocol im needs it"):
            rationales.evaluate(self.model, [Example("a", "the bread")], ["random"], "im", ["deletion"])

    def test_the_table_names_the_filler_that_was_used(self):
        examples = [Example("a", "the bread", "found")]
        table = rationales.evaluate(self.model, examples, ["random"], "im-bert", ["deletion"], filler=tiny_filler())
        assert "filled in one after the other by BertForMaskedLM" in str(table)
