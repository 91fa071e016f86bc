"""Agreement on units: "boring," and "boring ," are judged alike, and ERASER is judged on its tokens as before."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from methods.keyword import keyword_model
from reference import metrics as literal
from reviews import movies

import rationales
from rationales.data import Example, read_data
from rationales.errors import DataError, OptionError
from rationales.evaluation import collecting
from rationales.evaluation.agreement import overlap
from rationales.evaluation.agreement.unit_marks import compared_units, gold_units, judged_on_units, unit_extents
from rationales.evaluation.metrics import METRICS
from rationales.evaluation.protocols import PRESETS, Protocol
from rationales.evaluation.scores.attribution import RawScores
from rationales.evaluation.tables.table import Table
from rationales.models.text.units import words
from rationales.rationale import Unit

SHARP = [{"name": "occlusion", "options": {"window": 1}, "title": "sharp"}]
TIGHT = ["we had bread, soup and tea.", "the bread! it was good, said he.", "(bread) is what she had..."]
SPACED = [re.sub(r"([,.!()]+)", r" \1 ", text).strip() for text in TIGHT]
AGREEMENT = [name for name, metric in METRICS.items() if metric.needs == ("marks",)]


def examples(texts, **fields):
    return [
        Example(str(number), text, "found", ((text.index("bread"), text.index("bread") + 5),), **fields)
        for number, text in enumerate(texts)
    ]


def keyword():
    return rationales.load(*keyword_model("bread"))


def as_units(text):
    return [Unit(text[start:end], start, end) for start, end in words(text)]


SCORES = {"bread": 1.0, "had": 0.7, "was": 0.6, "she": 0.9}  # of units; all others, punctuation too, have 0


def known_scores(model, encoded, method, targets, *, seed=0, progress=None):
    """What a method would say that gives these units these scores."""
    return [
        RawScores(np.array([SCORES.get(unit.text, 0.0) for unit in unit.units], np.float32), 0.0) for unit in encoded
    ]


class TestBothFormsOfATextAgree:
    @pytest.mark.parametrize("protocol", ["marc", "aml", "im", "ferret", "sequential-ig"])
    def test_a_comma_does_not_halve_its_word(self, protocol, monkeypatch):
        """On the white-space token "bread," the word's score of 1 was halved, and "had" with 0.7 came before it."""
        monkeypatch.setattr(collecting, "score_rows", known_scores)
        recipe = replace(PRESETS[protocol], ties="left")
        tight, spaced = (
            rationales.evaluate(keyword(), examples(texts), ["occlusion"], recipe, AGREEMENT, selection="gold-length")
            for texts in (TIGHT, SPACED)
        )
        for name in AGREEMENT:
            values = tight["occlusion"].cells[name].values
            assert values == spaced["occlusion"].cells[name].values, name
            assert name in ("top-k-f1", "best-threshold-iou", "highlight-coverage") or values == (1.0, 1.0, 1.0), name
        tokens = replace(recipe, agreement_on="whitespace-tokens")
        halved = rationales.evaluate(keyword(), examples(TIGHT), ["occlusion"], tokens, ["average-precision"])
        # bread, .5 after had .7; bread! .5 after was .6; (bread) 1/3 after she .9 and had... .35
        assert halved["occlusion"].cells["average-precision"].values == pytest.approx((1 / 2, 1 / 2, 1 / 3))

    @pytest.mark.parametrize("protocol", ["marc", "aml", "im", "ferret", "sequential-ig"])
    def test_in_every_agreement_metric(self, protocol):
        recipe = replace(PRESETS[protocol], ties="left")  # noise is drawn from the text itself, which is another one
        tables = [
            rationales.evaluate(keyword(), examples(texts), SHARP, recipe, AGREEMENT, selection="gold-length")
            for texts in (TIGHT, SPACED)
        ]
        for name in AGREEMENT:
            tight, spaced = (table["sharp"].cells[name].values for table in tables)
            assert tight == spaced, name
            assert name == "highlight-coverage" or tight == (1.0, 1.0, 1.0), (
                name
            )  # the one marked word is the one that decides

    def test_on_white_space_tokens_they_do_not(self):
        recipe = replace(PRESETS["marc"], agreement_on="whitespace-tokens")
        tight, spaced = (
            rationales.evaluate(keyword(), examples(texts), ["random"], recipe, ["selected-share@top=1"])
            for texts in (TIGHT, SPACED)
        )
        assert tight["random"].cells["selected-share@top=1"].values == pytest.approx((1 / 6, 1 / 7, 1 / 5))
        assert spaced["random"].cells["selected-share@top=1"].values == pytest.approx((1 / 8, 1 / 10, 1 / 8))


class TestWorkedByHand:
    text = "Dull, slow; but kind."
    #        units: Dull  ,    slow  ;    but  kind  .
    scores = np.array([0.6, -0.6, 0.2, 0.9, 0.5, 0.1, 0.95])

    def judged(self, spans, measure):
        example = Example("x", self.text, None, spans)
        extents = unit_extents(example, as_units(self.text))
        gold = gold_units(example, extents)
        compared = compared_units(gold, extents)
        return measure(gold[compared], self.scores[compared])

    def test_unmarked_punctuation_costs_nothing(self):
        # compared: Dull .6 (gold), slow .2 (gold), but .5, kind .1; in order: hit, miss, hit, miss
        marks = ((0, 4), (6, 10))
        assert self.judged(marks, overlap.average_precision) == pytest.approx((1 / 1 + 2 / 3) / 2)
        assert self.judged(marks, overlap.f1_at_gold_length) == 1 / 2
        assert self.judged(marks, overlap.precision_at) == 1.0

    def test_a_mark_over_several_words_holds_its_punctuation(self):
        # "Dull, slow" is marked: Dull .6, the comma -.6 and slow .2 are gold; but .5 and kind .1 are not
        # in order: Dull (1/1), but, slow (2/3), kind, comma (3/5)
        marks = ((0, 10),)
        assert self.judged(marks, overlap.average_precision) == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
        assert self.judged(marks, overlap.f1_at_gold_length) == pytest.approx(2 / 3)

    def test_half_a_word_marks_the_word_and_white_space_marks_nothing(self):
        example = Example("x", self.text, None, ((1, 2), (5, 6)))
        assert gold_units(example, unit_extents(example, as_units(self.text))).tolist() == [True] + [False] * 6

    def test_pairs(self):
        example = Example("x", "Kind, so", None, ((0, 4),), pair="so, Kind", pair_spans=((2, 8),))
        units = [
            *as_units("Kind, so"),
            *(Unit(unit.text, unit.start, unit.end, 1) for unit in as_units("so, Kind")),
        ]
        extents = unit_extents(example, units)
        gold = gold_units(example, extents)
        assert gold.tolist() == [True, False, False, False, True, True]
        assert compared_units(gold, extents).tolist() == [True, False, True, True, True, True]

    def test_nobody_asked_is_not_nothing_marked(self):
        unmarked, empty = Example("x", "Kind, so", None), Example("x", "Kind, so", None, ())
        extents = unit_extents(unmarked, as_units("Kind, so"))
        assert gold_units(unmarked, extents) is None
        assert compared_units(None, extents).tolist() == [True, False, True]
        assert gold_units(empty, extents).tolist() == [False] * 3

    def test_a_text_of_punctuation_alone_is_compared_whole_and_emoji_are_words(self):
        dots = Example("x", "... !", None, ())
        extents = unit_extents(dots, as_units("... !"))
        assert compared_units(gold_units(dots, extents), extents).tolist() == [True, True]
        smile = Example("x", "so 😀 = $", None, ())
        assert unit_extents(smile, as_units(smile.text)).punctuation.tolist() == [False, False, True, True]


@given(st.text("ab ,.'", min_size=1, max_size=30), st.data())
def test_equals_the_literal_definition(text, data):
    extents = words(text)
    if not extents:
        return
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    spans = tuple(zip(cuts[::2], cuts[1::2], strict=False))
    numbers, expected_gold = literal.compared_on_units(text, extents, spans)
    example = Example("x", text, None, spans)
    layout = unit_extents(example, as_units(text))
    gold = gold_units(example, layout)
    compared = compared_units(gold, layout)
    if numbers:
        assert np.flatnonzero(compared).tolist() == numbers
        assert gold[compared].tolist() == expected_gold


class TestWhatPapersMeasureStays:
    def test_sets_that_were_marked_in_tokens_say_so_and_are_judged_on_them(self, tmp_path):
        reviews = read_data("eraser-movies", folder=movies(tmp_path))
        assert {example.marked_in for example in reviews} == {"whitespace-tokens"}
        assert not any(judged_on_units(recipe, example) for recipe in PRESETS.values() for example in reviews)

    def test_the_same_text_marked_in_tokens_has_the_figures_of_tokens(self):
        """Tokens "bread," hold the mean of the word and its comma, as they always did."""
        named = rationales.evaluate(keyword(), examples(TIGHT, marked_in="whitespace-tokens"), SHARP, "marc", AGREEMENT)
        explicit = replace(PRESETS["marc"], agreement_on="whitespace-tokens")
        row = rationales.evaluate(keyword(), examples(TIGHT), SHARP, explicit, AGREEMENT)
        assert named["sharp"].cells == row["sharp"].cells

    def test_a_protocol_can_ask_for_either(self):
        tokens, characters = examples(TIGHT[:1], marked_in="whitespace-tokens")[0], examples(TIGHT[:1])[0]
        units, as_marked = Protocol(levels=(0.5,), agreement_on="units"), Protocol(levels=(0.5,))
        assert [judged_on_units(units, example) for example in (tokens, characters)] == [True, True]
        assert [judged_on_units(as_marked, example) for example in (tokens, characters)] == [False, True]
        assert not judged_on_units(PRESETS["eraser-code"], characters)

    def test_tables_that_were_saved_before_say_that_they_are_of_tokens(self):
        table = rationales.evaluate(keyword(), examples(TIGHT), ["random"], metrics=["average-precision"])
        data = table.to_dict()
        assert Table.from_dict(data).protocol.agreement_on == "as-marked"
        del data["protocol"]["agreement_on"]
        assert Table.from_dict(data).protocol.agreement_on == "whitespace-tokens"

    def test_what_is_neither_is_refused(self):
        with pytest.raises(OptionError, match="agreement_on is one of as-marked, units, whitespace-tokens, not 'word'"):
            Protocol(levels=(0.5,), agreement_on="word")
        with pytest.raises(DataError, match="marked_in is characters or whitespace-tokens, not 'words'"):
            Example("x", "a", marked_in="words")
