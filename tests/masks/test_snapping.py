"""Spans do not cut phrases where the model does not mind; where it does, they stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from families import tokenizer_of
from hypothesis import given
from hypothesis import strategies as st
from methods.keyword import WeightedWordsModel
from reference import phrases

import rationales
from rationales.masks.objective import complement_term, squeeze, sufficiency_term
from rationales.masks.sizes import LOSS_SLACK
from rationales.masks.snapping import MAX_CHANGES, EdgeChange, _largest_prefixes, _LossQuery, edge_changes
from rationales.models.batch.execution import counted_passes
from rationales.models.text.units import cuts, words
from rationales.rationale import Rationale
from rationales.rationale_parts import Unit

CUT = {  # what the embedded model's rationale cuts, and the phrase
    "The second half simply falls apart.": "falls apart",
    "I could not care any more.": "care any more",
    "By the end I did not care any more about the detective.": "care any more",
    "The acting is not very good, but the music is well-made and the ending pays off.": "well-made",
}


PHRASE_WORDS = (
    *("the", "not", "Never", "wasn't", "isn’t", "very", "any", "more", "at", "all", "kind", "of", "each", "other"),
    *("up", "in", "apart", "and", "which", "film", "good", "7", "-", "'", "/", ",", "...", "é", "Let", "alone"),
)


def units_of(text):
    return [Unit(text[start:end], start, end) for start, end in words(text)]


def marked(text, selected):
    """The text with the spans of `selected` in brackets."""
    units, bracketed, position = units_of(text), "", 0
    for index, unit in enumerate(units):
        opens = bool(selected[index]) and not (index and selected[index - 1])
        closes = bool(selected[index]) and not (index + 1 < len(units) and selected[index + 1])
        bracketed += text[position : unit.start] + "[" * opens + unit.text + "]" * closes
        position = unit.end
    return bracketed + text[position:]


def selection_of(brackets):
    """A text and what its [brackets] select."""
    text, inside, depth = "", [], False
    for character in brackets:
        if character in "[]":
            depth = character == "["
        else:
            text += character
            inside.append(depth)
    return text, np.array([inside[unit.start] for unit in units_of(text)])


def alternatives(brackets, best=None):
    """All ways in which the spans of a text with [brackets] may be moved; `best` is the word with the highest score."""
    text, selected = selection_of(brackets)
    units = units_of(text)
    scores = np.array([float(unit.text == best) for unit in units])
    return [
        [marked(text, change.apply(selected)) for change in ways]
        for ways in edge_changes(cuts(units), scores, selected)
    ]


class TestWhereAPhraseIsCut:
    @pytest.mark.parametrize(
        ("brackets", "ways"),
        [
            ("Everything [falls] apart.", [["Everything [falls apart]."]]),
            ("They [care any] more.", [["They [care any more].", "They [care] any more."]]),
            ("It was [not] good.", [["It was [not good]."]]),
            ("It wasn't [good].", [["It [wasn't good]."]]),
            ("A [well]-made chair.", [["A [well-made] chair."]]),
            ("She [gave] up on it.", [["She [gave up] on it."]]),
            ("She [walked] up the hill.", []),  # a preposition, which goes with what follows
            ("A [dull] film.", []),
            ("The [joke of] the day.", [["The [joke of the day].", "The [joke] of the day."]]),
        ],
    )
    def test_it_is_taken_in_or_left_out(self, brackets, ways):
        """One list for every edge that cuts a phrase; the wider span comes first."""
        assert alternatives(brackets) == ways

    def test_the_best_word_of_a_span_is_never_left_out(self):
        assert alternatives("They [care any] more.", best="any") == [["They [care any more]."]]

    def test_punctuation_is_not_crossed(self):
        assert alternatives("It was [not], good.") == []

    def test_two_words_at_most(self):
        assert alternatives("It [is] not very very good.", best="is") == []

    def test_two_spans_may_become_one(self):
        assert alternatives("[Not] a [good] film.", best="Not")[0] == ["[Not a good] film."]

    def test_a_pair_of_texts_is_not_joined(self):
        units = [Unit("not", 0, 3, 0), Unit("good", 0, 4, 1)]
        assert not cuts(units).ends.any()

    def test_words_of_another_language_are_left_alone(self):
        text = "Das Ende war leider vorhersehbar, und niemand lachte."
        assert not cuts(units_of(text)).begins.any()


@pytest.fixture(scope="module")
def model():
    return rationales.load()


@pytest.fixture(scope="module")
def results(model):
    """With the preset `clauses`, whose rationale in these texts cuts a phrase."""
    clauses = {"preset": "clauses"}
    return tuple(rationales.explain(model, list(CUT), options=clauses, snap=snap) for snap in (True, False))


class TestReference:
    @given(
        pieces=st.lists(
            st.tuples(st.sampled_from(PHRASE_WORDS), st.sampled_from(["", " ", " ", "\n"]), st.booleans()), max_size=25
        )
    )
    def test_cuts_are_those_of_the_rules_one_word_at_a_time(self, pieces):
        units, position, text_index = [], 0, 0
        for text, space, ends_text in pieces:
            units.append(Unit(text, position, position + len(text), text_index))
            position += len(text) + len(space)
            if ends_text and text_index == 0 and len(units) % 7 == 0:  # the pair's text begins
                position, text_index = 0, 1
        actual, expected = cuts(units), phrases.cuts(units)
        for name, values in expected.items():
            assert getattr(actual, name).tolist() == values, name


class TestEmbeddedModel:
    def test_no_phrase_is_cut(self, results):
        for phrase, mine, unmoved in zip(CUT.values(), *results, strict=True):
            assert any(phrase in span.text for span in mine.spans())
            assert not any(phrase in span.text for span in unmoved.spans())

    def test_scores_and_rule_stay_as_they_are(self, results):
        for mine, unmoved in zip(*results, strict=True):
            assert np.array_equal(mine.scores, unmoved.scores)
            assert mine.rule == unmoved.rule
            assert np.array_equal(mine.rule.select(mine.scores), unmoved.selected())

    def test_the_rationale_still_suffices_and_its_probabilities_are_those_of_what_is_shown(self, model, results):
        for mine, unmoved in zip(*results, strict=True):
            alone = mine.probabilities["rationale"][mine.target]
            assert alone >= min(
                unmoved.probabilities["rationale"][mine.target], 0.9 * mine.probabilities["full"][mine.target]
            )
            encoded = model.encode([model.read(mine.text, None)])
            with model.frozen():
                batch = model.batch(encoded)
                probabilities = batch.predict(batch.spread([torch.from_numpy(mine.selected())]))[0]
            assert float(probabilities[mine.labels.index(mine.target)]) == pytest.approx(alone, abs=1e-5)

    def test_alone_as_in_a_batch(self, model, results):
        for mine in results[0]:
            alone = rationales.explain(model, mine.text, options={"preset": "clauses"})
            assert np.array_equal(alone.selected(), mine.selected())

    def test_a_rule_that_is_asked_for_wins(self, results):
        mine, unmoved = results[0][1], results[1][1]
        threshold = mine.rule.threshold
        assert not np.array_equal(mine.selected(), unmoved.selected())
        assert np.array_equal(mine.selected(threshold=threshold), unmoved.selected())
        assert mine.selected(top=2).sum() == 2

    def test_it_is_saved_and_shown(self, results, tmp_path):
        mine = results[0][1]
        again = Rationale.load(mine.save(tmp_path / "why.json"))
        assert np.array_equal(again.selected(), mine.selected())
        assert "[[could not care any more]]" in str(again)
        assert "then whole word groups" in again.to_html()

    def test_an_option_that_is_off_is_recorded(self, results):
        assert results[1][0].options["snap"] is False
        assert "snap" not in results[0][0].options

    @pytest.mark.parametrize("method", ["occlusion", "integrated-gradients"])
    def test_rivals_have_the_same_chance(self, model, method):
        text = "By the end I did not care any more about the detective."
        assert any("care any more" in span.text for span in rationales.explain(model, text, method=method).spans())

    @pytest.mark.slow
    def test_it_costs_less_than_a_tenth_of_the_optimisation(self, model):
        """Rows that the model runs, two more for each that is run for a gradient (Griewank and Walther 2008)."""

        def cost(snap):
            with counted_passes() as passes:
                rationales.explain(model, list(CUT) + LONG, snap=snap)
            return passes.forward + 2 * passes.backward

        unmoved = cost(snap=False)
        assert unmoved < cost(snap=True) <= 1.1 * unmoved


class TestLosses:
    """Losses of changed selections, as they are when every segment is run for each of them."""

    TEXT = "It was not very good, and the second half simply falls apart. " * 20  # several segments

    @pytest.fixture
    def batch(self):
        small = rationales.load(segment=60, overlap=10)
        encoded = small.encode([small.read(text, None) for text in (self.TEXT, "A dull film.", self.TEXT[:300])])
        with small.frozen(), torch.no_grad():
            yield small.batch(encoded)

    def test_equal_those_of_whole_inputs(self, batch):
        rng = np.random.default_rng(0)
        units = [len(values) for values in batch.gather(batch.zeros())]
        unchanged = [rng.random(count) < 0.4 for count in units]
        selections = [
            [
                first,
                *(EdgeChange(at, at + 1, bool(at % 2)).apply(first) for at in range(0, len(first), len(first) // k)),
            ]
            for first, k in zip(unchanged, (7, 2, 4), strict=True)
        ]
        target, full = torch.tensor([0, 1, 0]), batch.predict()
        with counted_passes() as passes:
            losses = _LossQuery.of(batch, target, full, unchanged).losses(selections)
        for number, tried in enumerate(selections):
            expected = [self.literal_loss(batch, target, full, number, selected, tried[0]) for selected in tried]
            np.testing.assert_allclose(losses[number], expected, rtol=1e-4)
        whole_inputs = 2 * sum(
            len(tried) * int((batch.rows.input == number).sum()) for number, tried in enumerate(selections)
        )
        assert passes.forward < whole_inputs / 2, "segments that a change leaves as they are run once"

    def test_known_outputs_of_the_unchanged_are_not_computed_again(self, batch):
        unchanged = [np.arange(len(values)) % 3 == 0 for values in batch.gather(batch.zeros())]
        target, full = torch.tensor([0, 1, 0]), batch.predict()
        changed = [[selected, EdgeChange(1, 1, True).apply(selected)] for selected in unchanged]
        query = _LossQuery.of(batch, target, full, unchanged)
        losses = query.losses(changed)
        with counted_passes() as passes:
            again = _LossQuery.of(batch, target, full, unchanged, query.unchanged_outputs).losses(changed)
        assert passes.forward == 2 * len(unchanged), "both sides of the first segment of each text"
        np.testing.assert_allclose(again, losses, rtol=1e-5)

    def test_as_many_changes_together_as_the_loss_allows(self):
        """Against all prefixes tried together, on losses that a table gives."""
        rng = np.random.default_rng(1)
        initial = [np.zeros(40, dtype=bool) for _ in range(30)]
        changes = [[EdgeChange(4 * k, 4 * k + 1, True) for k in range(rng.integers(0, 9))] for _ in initial]
        rises = rng.uniform(0, 2 * LOSS_SLACK, 41)  # by the number of selected units

        class Table:
            calls = 0

            def losses(self, selections):
                Table.calls += sum(len(tried) - 1 for tried in selections)
                return [
                    np.array([rises[selected.sum()] * bool(selected.any()) for selected in tried])
                    if len(tried) > 1
                    else np.zeros(len(tried))
                    for tried in selections
                ]

        results = _largest_prefixes(Table(), initial, changes)
        eager = 0
        for listed, result in zip(changes, results, strict=True):
            sizes = [len(listed) >> halvings for halvings in range(len(listed).bit_length())]
            eager += len(sizes) if len(sizes) > 1 else 0
            fitting = [size for size in sizes if size == 1 or rises[2 * size] <= LOSS_SLACK]
            assert result.sum() == 2 * (fitting[0] if fitting else 0)
        assert Table.calls < eager

    @staticmethod
    def literal_loss(batch, target, full, number, selected, unchanged):
        """Eq. 2 and 4 of one selection of one input, by the model's probabilities for all inputs."""

        def probability(units):
            everywhere = [torch.zeros(len(values)) for values in batch.gather(batch.zeros())]
            everywhere[number] = torch.from_numpy(units).float()
            return batch.predict(batch.spread(everywhere))[number, target[number]]

        kept, left = probability(selected), probability(~selected)
        of_full = full[number, target[number]]
        if kept < torch.minimum(0.9 * of_full, probability(unchanged)) - 1e-6:
            return np.inf
        floored = torch.maximum(squeeze(left), 0.5 * squeeze(of_full))
        return float(sufficiency_term(squeeze(kept)) + complement_term(floored, "bounded"))


LONG = [
    "I was not bored at all, and the film was good enough to see twice. The dialogue is so dull that I nearly walked "
    "out, but the second half holds together, and the ending pays off. She gave up on it, and so did my friends. " * 2
]


class TestKnownCause:
    """'soup' speaks for the first class; what 'not' does differs."""

    TEXT = "I did not soup at the bread"

    def explained(self, weight, **arguments):
        model = WeightedWordsModel({"soup": (8.0, 0.0), "not": weight}, ("meal", "none"))
        loaded = rationales.load(model, tokenizer_of("bert"))
        return rationales.explain(
            loaded, self.TEXT, method="occlusion", target="meal", options={"output": "logit"}, **arguments
        )

    def test_where_the_loss_does_not_mind_the_negation_comes_in(self):
        result = self.explained((0.0, 0.0))
        words = [unit.text for unit in result.units]
        assert result.selected()[words.index("not")]

    def test_where_it_does_mind_it_stays_out(self):
        result = self.explained((0.0, 12.0))
        words = [unit.text for unit in result.units]
        assert result.selected()[words.index("soup")]
        assert not result.selected()[words.index("not")]
        assert result.probabilities["rationale"]["meal"] > 0.9


def test_no_more_changes_are_asked_about_than_there_is_room_for():
    from rationales.masks.snapping import _limit_changes

    ways = [[EdgeChange(0, 0, added=True), EdgeChange(1, 1, added=False)]] * (2 * MAX_CHANGES)
    assert sum(map(len, _limit_changes(iter(ways)))) == MAX_CHANGES


def test_tokens_and_sentences_are_not_moved():
    for unit in ("token", "sentence"):
        model = rationales.load(unit=unit)
        assert (
            rationales.explain(model, "I could not care any more. It was fine.", method="occlusion").selection is None
        )


@pytest.mark.gpu
def test_half_precision_selects_the_same_words(monkeypatch):
    model = rationales.load(device="cuda")
    in_half = rationales.explain(model, list(CUT) + LONG, method="marc-instant")
    for module in ("masks.snapping", "pipeline.stages"):
        monkeypatch.setattr(f"rationales.{module}.faster_copy", lambda batch: batch)
    in_single = rationales.explain(model, list(CUT) + LONG, method="marc-instant")
    for half, single in zip(in_half, in_single, strict=True):
        assert np.array_equal(half.selected(), single.selected())
        assert half.probabilities["rationale"] == pytest.approx(single.probabilities["rationale"], abs=1e-5)
