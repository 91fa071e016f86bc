"""A rationale of one connected span, where neither single words nor scattered spans suffice."""

from __future__ import annotations

import pytest
import torch
from families import tokenizer_of
from hypothesis import given
from hypothesis import strategies as st
from masks.test_words_and_spans import FILLER, LONG_TEXT, batch_of_texts
from methods.keyword import KeywordModel, keyword_model
from reference import spans as reference

import rationales
from rationales.masks import postprocess
from rationales.masks.postprocess import words_and_spans
from rationales.masks.settings import DEFAULT
from rationales.masks.windows import growth_order, single_rows, window_order

WORDS = FILLER.split()
KEYWORD = WORDS.index("past")
NEIGHBOURS = 2  # on either side of the keyword


class PhraseModel(KeywordModel):
    """The keyword counts only as far as the two tokens on either side of it are those of the text."""

    def forward(self, input_ids, attention_mask):
        words = self.embeddings(input_ids) * attention_mask[..., None]
        present = words.square().sum(-1)  # (R, T): 1 for a token of the text, 0 for a replaced one
        keyword = words[..., self.wanted].square().mean(-1)
        padded = torch.nn.functional.pad(present, (NEIGHBOURS, NEIGHBOURS))
        around = padded.unfold(1, 2 * NEIGHBOURS + 1, 1).prod(-1)
        logit = self.strength * ((keyword * around).sum(1) - 0.5)
        return torch.stack([-logit, logit], -1) / 2


@pytest.fixture(scope="module")
def phrase_model():
    return rationales.load(PhraseModel(["past"]), tokenizer_of("bert"), baseline="zero")


def field_of_keyword(batch):
    """A field that finds the keyword and misses that its neighbours are needed."""
    z = torch.linspace(1.0, 1.4, batch.size[1])[None].repeat(batch.masks, 1)
    z[:, KEYWORD - NEIGHBOURS : KEYWORD + NEIGHBOURS + 1] = -3.0
    z[:, KEYWORD] = 4.0
    return z


def rationale_of(model, *texts, z=None):
    batch = batch_of_texts(model, *texts)
    with model.frozen():
        target = batch.predict().argmax(-1)
        z = field_of_keyword(batch) if z is None else z
        scores, spans = words_and_spans(z, torch.zeros_like(z), batch, target, DEFAULT)
    return scores, (spans > 0.5) & batch.rows.real[: batch.masks]


class TestGrowthOrder:
    def test_grows_from_the_highest_unit_to_the_higher_side(self):
        """From 5 at the second unit: the left side has 3, the right 2, then only the right side is left."""
        values = torch.tensor([[3.0, 5.0, 2.0, 4.0]])
        assert growth_order(values, values, torch.zeros(1, 4).long()).tolist() == [[3, 4, 2, 1]]

    def test_equal_sides_grow_alike(self):
        values, sides = torch.tensor([[0.0, 0.0, 0.0, 1.0, 0.0, 0.0]]), torch.ones(1, 6)
        assert growth_order(values, sides, torch.zeros(1, 6).long()).tolist() == [[1, 2, 4, 6, 5, 3]]

    def test_sides_may_have_other_values_than_units(self):
        values, sides = torch.tensor([[3.0, 5.0, 2.0, 4.0]]), torch.tensor([[0.0, 0.0, 2.0, 1.0]])
        assert growth_order(values, sides, torch.zeros(1, 4).long()).tolist() == [[1, 4, 3, 2]]

    @given(st.lists(st.lists(st.floats(0, 5, width=32), min_size=1, max_size=9), min_size=1, max_size=4))
    def test_every_beginning_is_connected_and_padding_never_joins(self, rows):
        width = max(map(len, rows))
        stretch = torch.tensor([[0] * len(row) + [-1] * (width - len(row)) for row in rows])
        values = torch.tensor([row + [9.0] * (width - len(row)) for row in rows])
        order = growth_order(values, values, stretch)
        for line, row in enumerate(rows):
            ranked = order[line].argsort(descending=True)[: len(row)].tolist()
            assert order[line, len(row) :].tolist() == [0.0] * (width - len(row))
            assert values[line, ranked[0]] == max(row)
            for size in range(1, len(row) + 1):
                assert max(ranked[:size]) - min(ranked[:size]) == size - 1

    def test_a_span_stays_in_its_text_and_the_other_text_has_a_span_of_its_own(self):
        """The second text begins at the fourth unit: 5 grows over the first text, then 4 over the second."""
        values = torch.tensor([[2.0, 1.0, 5.0, 3.0, 2.0, 4.0]])
        order = growth_order(values, values, torch.tensor([[0, 0, 0, 1, 1, 1]]))
        assert order.tolist() == [[4, 5, 6, 1, 2, 3]]

    @given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=9), st.integers(0, 9))
    def test_equals_the_literal_version(self, units, border):
        values, sides = ([float(number) for number in column] for column in zip(*units, strict=True))
        actual = growth_order(
            torch.tensor([values], dtype=torch.float64),
            torch.tensor([sides], dtype=torch.float64),
            (torch.arange(len(values)) >= border).long()[None],
        )
        assert actual[0].tolist() == reference.growth_order(values, sides, border)

    def test_alone_equals_in_a_batch(self, phrase_model):
        batch = batch_of_texts(phrase_model, FILLER, "nobody laughed past the bridge")
        values = torch.rand(2, batch.size[1], generator=torch.Generator().manual_seed(0))
        together = window_order(values, batch)
        alone = window_order(values[1:, :5], batch.take([1]))
        assert together[1, :5].argsort().tolist() == alone[0].argsort().tolist()


class TestConnectedSpan:
    def test_is_the_rationale_where_scattered_words_do_not_suffice(self, phrase_model):
        scores, selected = rationale_of(phrase_model, FILLER)
        chosen = torch.nonzero(selected[0]).flatten().tolist()
        needed = range(KEYWORD - NEIGHBOURS, KEYWORD + NEIGHBOURS + 1)
        assert set(needed) <= set(chosen)
        assert max(chosen) - min(chosen) == len(chosen) - 1  # one span
        assert len(chosen) <= 12  # not the whole text
        assert int(scores[0].argmax()) == KEYWORD

    def test_the_same_in_a_batch(self, phrase_model):
        _, alone = rationale_of(phrase_model, FILLER)
        _, together = rationale_of(phrase_model, FILLER, FILLER)
        assert torch.equal(together[0], alone[0])
        assert torch.equal(together[1], alone[0])

    def test_asked_in_turn_it_is_the_same(self, phrase_model, monkeypatch):
        expected = rationale_of(phrase_model, FILLER)[1]
        monkeypatch.setattr(postprocess, "asks_in_turn", lambda _: True)
        assert torch.equal(rationale_of(phrase_model, FILLER)[1], expected)

    def test_nothing_is_asked_where_words_suffice(self, monkeypatch):
        model = rationales.load(*keyword_model("past"))
        monkeypatch.setattr(postprocess, "_connected_span", lambda *_: pytest.fail("asked"))
        _, selected = rationale_of(model, FILLER)
        assert bool(selected[0, KEYWORD])

    def test_texts_of_several_segments_are_left_out(self):
        model = rationales.load(*keyword_model("past"), segment=100, overlap=10)
        assert single_rows(batch_of_texts(model, FILLER, LONG_TEXT)).tolist() == [True, False]
