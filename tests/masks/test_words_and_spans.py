"""Scores word by word, and a rationale of single words or of spans, whichever has the lower loss."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from families import tokenizer_of
from hypothesis import given, settings
from hypothesis import strategies as st
from masks.test_levels import TEXTS, batch_of
from methods.keyword import KeywordModel, keyword_model
from reference import spans as reference
from reference.levels import at_level

import rationales
from rationales.masks.objective import scaled
from rationales.masks.postprocess import (
    SPAN_PENALTY,
    clause_scores,
    span_count,
    span_order,
    unit_order,
    word_scores,
    words_and_spans,
)
from rationales.masks.settings import DEFAULT, WORDS
from rationales.masks.sizes import CUT_SOFTNESS, best_size
from rationales.masks.windows import window_order
from rationales.models.text.tokens import TextInput

FILLER = "and then the long quiet river went on past the field and nobody laughed again that day"
SHORT_TEXT, LONG_TEXT = " ".join(FILLER.split()[:9]), " ".join((FILLER.split() * 9)[:150])
MIDDLE_TEXT = " ".join((FILLER.split() * 9)[:80])
SHAPING = {name: getattr(DEFAULT, name) for name in ("halo", "halo_sigma", "shrink", "closing")}
SPANS = {name: getattr(DEFAULT, name) for name in ("span_sigma", "anchor", "anchor_sigma")}


@pytest.fixture(scope="module")
def model():
    return rationales.load(*keyword_model("bridge"))


def batch_of_texts(model, *texts):
    return model.batch(model.encode([TextInput(text) for text in texts]))


def pair_batch(model, text, pair):
    return model.batch(model.encode([TextInput(text, pair)]))


def random_values(batch, seed=0):
    return torch.randn((batch.masks, batch.size[1]), generator=torch.Generator().manual_seed(seed))


class TestWordScores:
    def test_are_positive_values_relative_to_the_highest_squared(self, model):
        """softplus(x) = log(1 + e^3x) / 3: of 2 it is 2.0008, of 1 it is 1.0162, of 0 log(2) / 3 = 0.2310."""
        batch = batch_of_texts(model, "river went past")
        scores = word_scores(torch.tensor([[2.0, 1.0, 0.0]]), batch)[0].tolist()
        assert scores == pytest.approx([1.0, (1.0162 / 2.0008) ** 2, (0.2310 / 2.0008) ** 2], abs=2e-4)

    @settings(max_examples=20)
    @given(st.lists(st.floats(-8, 8, width=32), min_size=9, max_size=9))
    def test_equal_the_literal_formula(self, values):
        batch = batch_of_texts(rationales.load(*keyword_model("bridge")), SHORT_TEXT)
        actual = word_scores(torch.tensor([values], dtype=torch.float64), batch)[0].tolist()
        assert actual == pytest.approx(reference.word_scores(values), rel=1e-9)

    def test_keep_the_order_of_the_values_also_of_negative_ones(self, model):
        batch = batch_of_texts(model, LONG_TEXT)
        values = scaled(random_values(batch), batch)
        assert torch.equal(word_scores(values, batch).argsort(), values.argsort())

    def test_the_highest_of_each_input_is_1_alone_or_in_a_batch(self, model):
        batch = batch_of_texts(model, SHORT_TEXT, LONG_TEXT)
        values = random_values(batch)
        values[0, 9:] = 99.0  # padding
        scores = word_scores(values, batch)
        for number, units in enumerate((9, 150)):
            alone = word_scores(values[number : number + 1, :units], batch.take([number]))
            assert torch.allclose(scores[number : number + 1, :units], alone, rtol=1e-5)
            assert float(alone.max()) == 1.0


class TestSpanOrder:
    def test_of_a_short_text_depends_on_the_field_alone(self, model):
        """And little on neighbours: a field of one word is highest there, and next beside it."""
        batch = batch_of_texts(model, SHORT_TEXT)
        z, gradient = random_values(batch), random_values(batch, 1)
        assert torch.equal(span_order(z, gradient, batch, DEFAULT), span_order(z, -gradient, batch, DEFAULT))
        single = torch.zeros_like(z)
        single[:, 4] = 1
        order = span_order(single, gradient, batch, DEFAULT)[0]
        assert order.argsort(descending=True)[:3].sort().values.tolist() == [3, 4, 5]
        assert order[4] - order[0] > 4 * (order[5] - order[0])

    @pytest.mark.parametrize("text", [SHORT_TEXT, MIDDLE_TEXT, LONG_TEXT], ids=["short", "between", "long"])
    def test_equals_the_literal_formula(self, model, text):
        batch = batch_of_texts(model, text)
        z, gradient = random_values(batch).double(), random_values(batch, 1).double()
        expected = reference.span_order(z[0].tolist(), gradient[0].tolist(), **SPANS, **SHAPING)
        assert span_order(z, gradient, batch, DEFAULT)[0].tolist() == pytest.approx(expected, abs=1e-6)

    def test_alone_equals_in_a_batch(self, model):
        batch = batch_of_texts(model, SHORT_TEXT, LONG_TEXT, MIDDLE_TEXT)
        z, gradient = random_values(batch), random_values(batch, 1)
        together = span_order(z, gradient, batch, DEFAULT)
        for number, units in enumerate((9, 150, 80)):
            rows = slice(number, number + 1)
            alone = span_order(z[rows, :units], gradient[rows, :units], batch.take([number]), DEFAULT)
            assert torch.allclose(together[rows, :units], alone, atol=1e-5)


class TestSpanCount:
    def test_counts_connected_runs(self, model):
        batch = batch_of_texts(model, "river went past field again day", "river went past")
        selected = torch.tensor([[1, 1, 0, 1, 0, 1], [0, 1, 1, 1, 1, 1]]).bool()  # the second has three words
        assert span_count(selected, batch).tolist() == [3.0, 1.0]
        assert span_count(torch.zeros_like(selected), batch).tolist() == [0.0, 0.0]

    def test_a_span_in_overlapping_segments_counts_once(self):
        """The third text has three segments; what each selects is read off one selection of the text's words."""
        _, batch = batch_of(TEXTS)
        assert batch.rows.input.tolist() == [0, 1, 2, 2, 2]
        segments = batch.rows.unit[2:].masked_fill(~batch.rows.real[2:], -1)
        starts = [int(row[row >= 0].min()) for row in segments]
        overlap = set(segments[0].tolist()) & set(segments[1].tolist()) - {-1}
        assert len(overlap) > 1
        units = int(segments.max()) + 1
        across = range(starts[1] - 2, starts[1] + 3)  # begins before the second segment, and ends in it
        inside = [max(overlap)]
        for runs in ([across], [inside], [across, inside, [0], [units - 1]]):
            chosen = torch.zeros(units)
            chosen[[unit for run in runs for unit in run]] = 1.0
            texts = [torch.zeros(int(batch.rows.unit[number].max()) + 1) for number in range(2)]
            selected = batch.spread([*texts, chosen]) > 0
            assert span_count(selected, batch).tolist() == [0.0, 0.0, len(runs)]
            assert reference.span_count(chosen.bool().tolist()) == len(runs)

    @settings(max_examples=20)
    @given(st.lists(st.booleans(), min_size=9, max_size=9))
    def test_equals_the_literal_count(self, selected):
        batch = batch_of_texts(rationales.load(*keyword_model("bridge")), SHORT_TEXT)
        assert span_count(torch.tensor([selected]), batch).tolist() == [reference.span_count(selected)]


class TestPairs:
    """Nothing is joined across the border between a text and its pair."""

    def test_a_span_of_either_text_counts(self, model):
        batch = pair_batch(model, "river went past", "field again day")
        selected = torch.tensor([[0, 1, 1, 1, 1, 0]]).bool()
        assert span_count(selected, batch).tolist() == [2.0]
        assert span_count(torch.ones_like(selected), batch).tolist() == [2.0]

    @settings(max_examples=20)
    @given(st.lists(st.booleans(), min_size=9, max_size=9), st.integers(1, 8))
    def test_count_equals_the_literal_one(self, selected, border):
        words = SHORT_TEXT.split()
        model = rationales.load(*keyword_model("bridge"))
        batch = pair_batch(model, " ".join(words[:border]), " ".join(words[border:]))
        assert span_count(torch.tensor([selected]), batch).tolist() == [reference.span_count(selected, border)]

    def test_a_pair_in_several_segments_has_one_border(self):
        """Each segment of the first text is beside each of the second; only one border lies between two next units."""
        model = rationales.load(*keyword_model("past"), segment=60, overlap=10)
        batch = pair_batch(model, MIDDLE_TEXT, MIDDLE_TEXT)
        assert batch.masks > 2
        everything = batch.rows.real
        assert span_count(everything, batch).tolist() == [2.0]
        assert span_count(everything & (batch.rows.unit != 20), batch).tolist() == [3.0]
        assert span_count(everything & (batch.rows.unit >= 80), batch).tolist() == [1.0]

    @pytest.mark.parametrize("border", [30, 75, 147])
    def test_clauses_are_shaped_in_each_text(self, model, border):
        words = LONG_TEXT.split()
        batch = pair_batch(model, " ".join(words[:border]), " ".join(words[border:]))
        scores = random_values(batch).double()
        scores[:, border - 2 : border + 3] = torch.tensor([4.0, -3.0, -3.0, 5.0, 5.0])  # a gap around the border
        expected = reference.clause_order(scores[0].tolist(), **SHAPING, border=border)
        assert clause_scores(scores, batch)[0].tolist() == pytest.approx(expected, abs=1e-5)
        assert clause_scores(scores, batch)[0].tolist() != pytest.approx(
            reference.clause_order(scores[0].tolist(), **SHAPING), abs=1e-2
        )

    def test_a_connected_span_lies_in_one_text(self, model):
        words = FILLER.split()
        batch = pair_batch(model, " ".join(words[:6]), " ".join(words[6:]))
        values = torch.rand(1, len(words), generator=torch.Generator().manual_seed(0))
        values[0, 5] = 2.0  # the last word of the first text
        ranked = window_order(values, batch)[0].argsort(descending=True).tolist()
        assert sorted(ranked[:6]) == [0, 1, 2, 3, 4, 5]


class SpreadModel(KeywordModel):
    """Logit of `found` = the number of words of a list that are there, beyond half of them: no single one decides."""

    def forward(self, input_ids, attention_mask):
        words = self.embeddings(input_ids) * attention_mask[..., None]
        logit = self.strength * (words[..., self.wanted].sum((1, 2)) / len(self.wanted) - 0.5)
        return torch.stack([-logit, logit], -1) / 2


CLAUSE = "the old bridge is what she laughed about with us today"
EVIDENCE = ("old", "bridge", "what", "she", "laughed", "about", "us", "today")


class TestChoice:
    @pytest.mark.parametrize(("units", "index"), [(100, 50), (150, 3), (400, 222), (30, 29)])
    def test_one_word_that_decides_is_the_rationale_at_any_length(self, model, units, index):
        words = (FILLER.split() * 30)[:units]
        words[index] = "bridge"
        result = rationales.explain(model, " ".join(words))
        assert np.flatnonzero(result.selected()).tolist() == [index]
        assert result.scores.argmax() == index
        assert result.scores[index] > 0.8 * result.scores.sum()
        assert result.selected_by == "scores"

    def test_evidence_of_many_words_of_a_clause_is_shown_as_a_span(self):
        """Eight words of a clause count; its first word does not, and is in the span with a score of nearly 0."""
        model = rationales.load(SpreadModel(list(EVIDENCE), strength=6.0), tokenizer_of("bert"))
        words = ["and"] * 160
        words[70:81] = CLAUSE.split()
        result = rationales.explain(model, " ".join(words))
        (span,) = result.spans()
        assert set(range(70, 81)) <= set(range(span.first, span.last + 1)) <= set(range(66, 87))
        assert result.selected_by == "spans"
        assert result.scores[70] < 0.01
        by_word = rationales.explain(model, " ".join(words), options={"preset": "words"})
        assert len(by_word.spans()) > 1

    def test_is_the_lower_loss_with_a_penalty_for_each_span(self):
        """Literally, for fields over two texts: both rationales, their losses, and which the span scores select."""
        model = rationales.load(SpreadModel(list(EVIDENCE)), tokenizer_of("bert"))
        in_a_clause, scattered = ((FILLER.split() * 9)[:150] for _ in range(2))
        in_a_clause[70:81] = CLAUSE.split()
        scattered[10 : 10 + 15 * len(EVIDENCE) : 15] = EVIDENCE
        target = torch.tensor([model.labels.index("found")])
        by_word = replace(DEFAULT, halo=0.0, shrink=0.0, closing=0, anchor=0.0)
        decisions = set()
        for seed, (words, strength) in enumerate(product((in_a_clause, scattered), (0.5, 2.0, 8.0))):
            batch = batch_of_texts(model, " ".join(words))
            z, gradient = random_values(batch, seed), random_values(batch, seed + 10)
            for values in (z, gradient):
                values[0, [index for index, word in enumerate(words) if word in EVIDENCE]] += strength
            scores, spans = words_and_spans(z, gradient, batch, target, DEFAULT)
            assert torch.equal(scores, word_scores(scaled(z, batch), batch))
            selections, losses = [], []
            positive = torch.log1p(torch.exp(3 * scaled(z, batch))) / 3  # as in word scores
            orders = (scaled(positive, batch), by_word), (span_order(z, gradient, batch, DEFAULT), DEFAULT)
            for order, options in orders:
                size = float(best_size(order, batch, target, options).size[0])
                keeps = at_level(order[0].tolist(), size, CUT_SOFTNESS)
                selected = torch.tensor([[keep > 0.5 for keep in keeps]])
                kept, complement = (float(batch.predict(keep.float())[0, target]) for keep in (selected, ~selected))
                loss = -math.log(kept) - math.log(1 - complement) + size**2
                losses.append(loss + SPAN_PENALTY * reference.span_count(selected[0].tolist()))
                selections.append(selected)
            decisions.add(losses[0] < losses[1])
            chosen = selections[0] if losses[0] < losses[1] else selections[1]
            assert torch.equal(spans > 0.5, chosen)
        assert decisions == {True, False}

    def test_without_shaping_the_rationale_is_of_words_at_any_length(self, model):
        batch = batch_of_texts(model, LONG_TEXT, SHORT_TEXT)
        z, target = random_values(batch), torch.ones(2, dtype=torch.long)
        scores, spans = words_and_spans(z, random_values(batch, 1), batch, target, WORDS)
        real = batch.rows.real
        for row in range(2):
            assert torch.equal(scores[row][real[row]].argsort(), spans[row][real[row]].argsort())

    def test_alone_equals_in_a_batch(self, model):
        batch = batch_of_texts(model, LONG_TEXT, SHORT_TEXT)
        z, gradient, target = random_values(batch), random_values(batch, 1), torch.ones(2, dtype=torch.long)
        together = words_and_spans(z, gradient, batch, target, DEFAULT)
        for number, units in enumerate((150, 9)):
            rows = slice(number, number + 1)
            alone = words_and_spans(
                z[rows, :units], gradient[rows, :units], batch.take([number]), target[rows], DEFAULT
            )
            for values, lone_values in zip(together, alone, strict=True):
                assert torch.allclose(values[rows, :units], lone_values, atol=1e-5)


class TestClauseScores:
    def test_equal_the_shaping_of_a_field(self, model):
        batch = batch_of_texts(model, LONG_TEXT, SHORT_TEXT)
        scores = random_values(batch)
        assert torch.equal(clause_scores(scores, batch), unit_order(scores, batch, DEFAULT))

    def test_equal_the_literal_formula_whatever_the_scale_of_the_scores(self, model):
        batch = batch_of_texts(model, LONG_TEXT)
        scores = random_values(batch).double()
        expected = reference.clause_order(scores[0].tolist(), **SHAPING)
        for factor in (1e-3, 1.0, 1e4):
            assert clause_scores(factor * scores, batch)[0].tolist() == pytest.approx(expected, abs=1e-5)

    def test_the_mean_of_several_views_is_shaped(self, model):
        batch = batch_of_texts(replace(model, networks=[*model.networks, *model.networks]), LONG_TEXT)
        assert (batch.views, batch.masks) == (2, 1)
        scores = torch.randn((2, 150), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        expected = reference.clause_order(scores.mean(0).tolist(), **SHAPING)
        for row in clause_scores(scores, batch).tolist():
            assert row == pytest.approx(expected, abs=1e-5)

    def test_of_a_short_text_have_the_order_of_its_scores(self, model):
        batch = batch_of_texts(model, SHORT_TEXT)
        scores = random_values(batch)
        assert torch.equal(clause_scores(scores, batch).argsort(), scores.argsort())
