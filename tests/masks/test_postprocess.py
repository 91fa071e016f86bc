"""From a field to scores: what is near the core comes next, and the rationale has the size of the least loss."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from families import tokenizer_of
from hypothesis import given
from hypothesis import strategies as st
from methods.keyword import KeywordModel, keyword_model

import rationales
from rationales.masks.postprocess import SHRINK_STRENGTH, final_scores, grey_closing, unit_order
from rationales.masks.settings import DEFAULT, ONE_MASK, replace
from rationales.masks.sizes import (
    LOSS_SLACK,
    MIN_SIZE,
    SIZES,
    SizeProbabilities,
    best_size,
    required_probability,
    size_candidates,
)
from rationales.models.text.tokens import TextInput

SHORT = "The boat drifted slowly towards the old bridge and nobody laughed at the joke again that day"
LONG = f"{SHORT} {'and then the long quiet river went on past the mill and the field ' * 10}".strip()
WORDS = SHORT.split()
BRIDGE, JOKE = WORDS.index("bridge"), WORDS.index("joke")


@pytest.fixture(scope="module")
def model():
    return rationales.load(*keyword_model("bridge", "joke"))


def ready(model, *texts, **height):
    """A batch, a field with these heights, and the target."""
    batch = model.batch(model.encode([TextInput(text) for text in texts]))
    z = torch.zeros((batch.masks, batch.size[1]))
    for word, value in height.items():
        z[:, WORDS.index(word)] = value
    return batch, z, torch.full((batch.inputs,), model.labels.index("found"))


class TestSize:
    def test_takes_both_causes_and_nothing_else(self, model):
        """The first alone gives .95 of .998: more than nine tenths, but not most of the evidence."""
        batch, z, target = ready(model, SHORT, joke=5.0, bridge=3.0)
        only = batch.zeros()
        only[0, JOKE] = 1.0
        assert 0.9 < float(batch.predict(only)[0, target] / batch.predict()[0, target]) < 0.97
        actual = final_scores(z, batch, target, DEFAULT) > 0.5
        assert torch.nonzero(actual[0]).flatten().tolist() == [BRIDGE, JOKE]

    def test_what_suffices_is_taken_in_any_company(self, model):
        batch, z, target = ready(model, SHORT, LONG, joke=5.0, bridge=3.0)
        for number in range(2):
            alone = batch.take([number])
            lone = final_scores(z[number : number + 1, : alone.size[1]], alone, target[:1], DEFAULT)
            mine = final_scores(z, batch, target, DEFAULT)[number : number + 1, : alone.size[1]]
            assert torch.allclose(mine, lone, atol=1e-6)

    def test_is_the_sufficient_size_of_the_least_loss(self, model):
        """Literally: every size, both sides, Eq. 8."""
        batch, z, target = ready(model, SHORT, joke=5.0, bridge=3.0, old=1.0, the=0.5)
        order = unit_order(z, batch, DEFAULT)
        target_index = target[0]
        full, empty = (float(batch.predict(keep)[0, target_index]) for keep in (batch.ones(), batch.zeros()))
        rank = order[0].argsort(descending=True, stable=True)
        losses = {}
        for size in SIZES:
            count = max(1, round(size * len(WORDS)))
            keep = batch.zeros()
            keep[0, rank[:count]] = 1.0
            alone, left = (float(batch.predict(variant)[0, target_index]) for variant in (keep, 1 - keep))
            odds = [math.log(p / (1 - p)) for p in (full, empty)]
            restored = 1 / (1 + math.exp(-(odds[1] + 0.8 * (odds[0] - odds[1]))))
            if alone >= max(0.9 * full, min(restored, 0.99 * full)):
                losses[size] = -math.log(alone) - math.log(1 - max(left, empty)) + size**2
        actual = float(best_size(order, batch, target, DEFAULT).size[0])
        assert min(losses, key=lambda size: losses[size]) == pytest.approx(actual, abs=0.051)

    def test_more_sparsity_never_takes_more(self, model):
        batch, z, target = ready(model, LONG, joke=5.0, bridge=3.0, laughed=1.0)
        order = unit_order(z, batch, DEFAULT)
        actual = [
            float(best_size(order, batch, target, replace(DEFAULT, sparsity=s)).size[0]) for s in (0.0, 1.0, 20.0)
        ]
        assert actual == sorted(actual, reverse=True)

    def test_where_nothing_suffices_it_is_what_gives_most(self, model):
        """The cause stands last, so that only the largest size takes any of it, and not enough."""
        batch, z, target = ready(model, SHORT)
        z[0] = torch.arange(len(WORDS), 0, -1)
        z[0, JOKE], z[0, BRIDGE] = 5.5, 0.5
        actual = final_scores(z, batch, target, DEFAULT)[0] > 0.5
        assert float(best_size(unit_order(z, batch, DEFAULT), batch, target, DEFAULT).size[0]) >= 0.69
        assert not actual[BRIDGE]

    def test_where_nothing_suffices_and_more_words_help_little_it_stays_small(self, model):
        """As in a model that drifts to its prior when words are replaced: the least loss, not what gives most."""
        batch, z, target = ready(model, SHORT, joke=5.0)
        kept = torch.linspace(0.6, 0.7, len(SIZES))[:, None]
        left = torch.full((len(SIZES), 1), 0.4)
        left[0] = 0.9
        probabilities = SizeProbabilities(kept, left, torch.tensor([0.95]), torch.tensor([0.5]))
        choice = best_size(unit_order(z, batch, DEFAULT), batch, target, DEFAULT, probabilities)
        losses = [
            -math.log(alone) - math.log(1 - max(complement, 0.5)) + max(size, 1 / len(WORDS)) ** 2
            for alone, complement, size in zip(kept[:, 0].tolist(), left[:, 0].tolist(), SIZES, strict=True)
        ]
        smallest = next(size for size, loss in zip(SIZES, losses, strict=True) if loss <= min(losses) + LOSS_SLACK)
        assert float(choice.size[0]) == pytest.approx(max(smallest, MIN_SIZE))
        assert not choice.sufficient

    def test_where_none_restores_enough_evidence_nine_tenths_of_the_probability_are_enough(self, model):
        """A very certain prediction and an uncertain baseline: 0.8 of the log-odds are out of reach."""
        batch, z, target = ready(model, SHORT)
        z[0] = torch.arange(len(WORDS), 0, -1)
        full, empty = torch.tensor([0.98]), torch.tensor([0.02])
        kept = torch.linspace(0.2, 0.9, len(SIZES))[:, None]
        left = torch.full((len(SIZES), 1), 0.4)
        assert (kept < required_probability(full, empty)).all()
        choice = best_size(
            unit_order(z, batch, DEFAULT), batch, target, DEFAULT, SizeProbabilities(kept, left, full, empty)
        )
        smallest = next(size for size, alone in zip(SIZES, kept[:, 0].tolist(), strict=True) if alone >= 0.9 * 0.98)
        assert float(choice.size[0]) >= smallest

    def test_nearly_all_of_a_text_never_suffices(self, model):
        """The largest size, 0.8, is the whole text where all words but one have the same value."""
        batch, z, target = ready(model, SHORT, joke=5.0)
        full, empty = torch.tensor([0.95]), torch.tensor([0.5])
        kept, left = torch.full((len(SIZES), 1), 0.87), torch.full((len(SIZES), 1), 0.4)
        kept[-1] = 0.95
        probabilities = SizeProbabilities(kept, left, full, empty)
        assert (kept >= required_probability(full, empty)).flatten().tolist() == [False] * (len(SIZES) - 1) + [True]
        equal = best_size(z, batch, target, DEFAULT, probabilities)
        distinct = best_size(torch.arange(len(WORDS), 0, -1.0)[None], batch, target, DEFAULT, probabilities)
        assert float(distinct.size[0]) == pytest.approx(SIZES[-1])
        assert float(equal.size[0]) < SIZES[-1]

    def test_scores_keep_the_order(self, model):
        batch, z, target = ready(model, LONG, joke=5.0, bridge=3.0, laughed=1.0)
        actual, order = final_scores(z, batch, target, DEFAULT)[0], unit_order(z, batch, DEFAULT)[0]
        assert (actual[order.argsort()].diff() >= -1e-6).all()
        assert 0 <= float(actual.min()) < 0.1
        assert 0.9 < float(actual.max()) <= 1

    def test_no_two_become_one_however_far_they_stand_out(self, model):
        """In float32 the sigmoid of 17 is 1."""
        batch, z, target = ready(model, LONG, joke=900.0, bridge=800.0, laughed=700.0, nobody=600.0)
        for settings in (DEFAULT, PLAIN):
            actual = final_scores(z, batch, target, settings)[0]
            best = [float(actual[WORDS.index(word)]) for word in ("joke", "bridge", "laughed", "nobody")]
            assert best == sorted(set(best), reverse=True)

    def test_without_shaping_the_edge_is_sharp_at_any_length(self, model):
        batch, z, target = ready(model, LONG)
        half = torch.full((1,), 0.5)
        z = z + torch.linspace(0, 3, z.shape[1])
        between = [
            int(((actual > 0.02) & (actual < 0.98)).sum())
            for actual in (
                final_scores(z, batch, target, variant, half) for variant in (PLAIN, replace(PLAIN, halo=1e-6))
            )
        ]
        assert between[0] < between[1]

    def test_one_word_of_a_long_text_can_be_all(self):
        """Less than one in twenty: a single cause is not shown with what happens to come next."""
        model = rationales.load(*keyword_model("bridge"))
        batch, z, target = ready(model, LONG, bridge=5.0, old=0.4, the=0.3, again=0.2)
        actual = final_scores(z, batch, target, PLAIN)[0] > 0.5
        assert torch.nonzero(actual).flatten().tolist() == [BRIDGE]
        assert torch.equal(final_scores(z, batch, target, DEFAULT)[0] > 0.5, actual)

    @given(st.integers(1, 400))
    def test_sizes_rise_and_take_at_least_one_word_of_a_long_text(self, count):
        batch = SimpleNamespace(
            inputs=1,
            pixel_grid=None,
            device="cpu",
            dtype=torch.float32,
            rows=SimpleNamespace(input=torch.tensor([0]), blend=torch.ones(1, count), real=torch.ones(1, count)),
        )
        actual = size_candidates(batch)[:, 0].tolist()
        assert actual == sorted(actual)
        assert actual[0] == pytest.approx(max(0.01, min(0.05, 1 / count)))
        assert actual[-1] == pytest.approx(SIZES[-1])

    def test_weak_evidence_everywhere_does_not_hide_the_word_that_decides(self):
        """Bridge decides; "and" speaks weakly for the same. Only clauses take what is beside the point."""
        model = rationales.load(Weak(["bridge", "and"]), tokenizer_of("bert"))
        batch, z, target = ready(model, LONG, bridge=5.0)
        z[0, [index for index, word in enumerate(LONG.split()) if word == "and"]] = 1.0
        words, clauses = (
            torch.nonzero(final_scores(z, batch, target, variant)[0] > 0.5).flatten().tolist()
            for variant in (PLAIN, replace(PLAIN, halo=1e-6))
        )
        assert words == [BRIDGE]
        assert len(clauses) > 10


class Weak(KeywordModel):
    """Logit of `found` = 8 for the first word + 0.12 for each of the second - 3."""

    def forward(self, input_ids, attention_mask):
        words = self.embeddings(input_ids) * attention_mask[..., None]
        first, second = words[..., self.wanted].sum(1).unbind(-1)
        logit = 8 * first + 0.12 * second - 3
        return torch.stack([-logit, logit], -1) / 2


PLAIN = replace(DEFAULT, halo=0.0, shrink=0.0, closing=0)


class TestHalo:
    def test_in_a_long_text_the_mean_of_what_is_high_around_is_added(self, model):
        batch, z, _ = ready(model, LONG, joke=5.0, bridge=3.0)
        plain, actual = (unit_order(z, batch, replace(PLAIN, halo=h, halo_sigma=8.0))[0].numpy() for h in (0.0, 4.0))
        assert plain.mean() == pytest.approx(0, abs=1e-5)
        assert plain.std() == pytest.approx(1, abs=1e-5)
        index = np.arange(len(plain))
        for here in (0, BRIDGE, JOKE, 20, 100):
            weight = np.exp(-(((index - here) / 8.0) ** 2))
            around = float((weight * plain.clip(0)).sum() / weight.sum())
            assert actual[here] == pytest.approx(plain[here] + 4 * around, abs=1e-4)
        assert actual[20] > actual[60]

    def test_a_sentence_has_none(self, model):
        batch, z, _ = ready(model, SHORT, joke=5.0, bridge=3.0)
        assert torch.equal(unit_order(z, batch, DEFAULT), unit_order(z, batch, PLAIN))

    def test_one_mask_has_none(self):
        assert ONE_MASK.halo == ONE_MASK.shrink == ONE_MASK.closing == 0


class TestShrink:
    def test_what_does_not_stand_out_counts_little_and_keeps_its_order(self, model):
        batch, z, _ = ready(model, LONG, joke=5.0, bridge=-4.0)
        z[:, 40:60] = torch.linspace(-0.3, 0.3, 20)
        plain, actual = (unit_order(z, batch, replace(PLAIN, shrink=s))[0] for s in (0.0, 0.5))
        assert float(actual[JOKE]) == pytest.approx(float(plain[JOKE]) - SHRINK_STRENGTH * 0.5, abs=1e-5)
        assert float(actual[BRIDGE]) == pytest.approx(float(plain[BRIDGE]) + SHRINK_STRENGTH * 0.5, abs=1e-5)
        inside = plain.abs() < 0.5
        assert torch.allclose(actual[inside], (1 - SHRINK_STRENGTH) * plain[inside], atol=1e-6)
        assert torch.equal(actual.argsort(stable=True), plain.argsort(stable=True))


class TestClosing:
    @given(
        values=st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=30),
        size=st.integers(1, 9),
        padding=st.integers(0, 4),
    )
    def test_it_is_what_its_definition_says(self, values, size, padding):
        count = len(values)
        padded_values, stretch = torch.tensor([values + [9.0] * padding]), torch.tensor([[0] * count + [-1] * padding])
        actual = grey_closing(padded_values, stretch, size)[0, :count].tolist()
        # literally: the least, over all windows that hold a place, of the highest in that window
        for index in range(count):
            windows = [range(begin, begin + size) for begin in range(index - size + 1, index + 1)]
            highest = [max(values[unit] for unit in window if 0 <= unit < count) for window in windows]
            assert actual[index] == min(highest)
        assert all(new >= old for new, old in zip(actual, values, strict=True))
        again = grey_closing(torch.tensor([actual]), torch.zeros(1, count).long(), size)[0].tolist()
        assert again == actual

    def test_a_narrow_gap_is_filled_to_its_lower_side_and_a_wide_one_is_not(self):
        values = torch.tensor([[0.0, 3.0, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0, 0.0]])
        actual = grey_closing(values, torch.zeros_like(values).long(), 3)
        assert actual.tolist() == [[0.0, 3.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 0.0]]

    def test_a_gap_between_two_texts_is_not_filled(self):
        """The border lies between 1 and 0: the gap has one side in each text, and that of the third row is in one."""
        values = torch.tensor([[0.0, 3.0, 1.0, 0.0, 2.0, 0.0]]).repeat(3, 1)
        stretch = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]])
        closed = [0.0, 3.0, 2.0, 2.0, 2.0, 0.0]
        assert grey_closing(values, stretch, 3).tolist() == [values[0].tolist(), closed, closed]

    def test_inside_a_gap_the_order_stays(self, model):
        batch, z, _ = ready(model, LONG, bridge=3.0, nobody=3.0, laughed=3.0)
        z[:, BRIDGE + 1] = 0.5
        plain, actual = (unit_order(z, batch, replace(PLAIN, closing=size))[0] for size in (0, 5))
        assert plain[BRIDGE] > actual[BRIDGE + 1] > plain[BRIDGE + 1]
        assert torch.equal(actual[BRIDGE + 20 :], plain[BRIDGE + 20 :])
