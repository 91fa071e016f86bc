"""Intervals that cover, tests that are exact where they can be, and corrections by the book."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import metrics as literal

from rationales.errors import OptionError
from rationales.evaluation.statistics import compare, estimate, holm, human_ceiling


class TestEstimate:
    def test_mean_and_interval_of_a_known_distribution(self):
        values = np.random.default_rng(1).normal(3, 2, 400)
        found = estimate(values)
        error = 1.96 * values.std() / 20  # the normal approximation
        assert found.mean == pytest.approx(values.mean())
        assert found.low == pytest.approx(values.mean() - error, abs=0.03)
        assert found.high == pytest.approx(values.mean() + error, abs=0.03)
        assert found == estimate(values)  # seeded
        assert found != estimate(values, seed=1)

    def test_the_interval_covers_as_often_as_it_says(self):
        random = np.random.default_rng(2)
        inside = 0
        for _ in range(200):
            found = estimate(random.exponential(1.0, 60), draws=300)
            inside += found.low <= 1.0 <= found.high
        assert 0.87 <= inside / 200 <= 0.99

    def test_undefined_values_are_left_out_and_not_counted(self):
        assert estimate(np.array([1.0, np.nan, 3.0])).n == 2
        assert estimate(np.array([1.0, np.nan, 3.0])).mean == 2.0
        nothing = estimate(np.array([np.nan]))
        assert nothing.n == 0
        assert math.isnan(nothing.mean)

    def test_one_value_has_no_interval(self):
        alone = estimate(np.array([0.4]))
        assert (alone.mean, alone.n) == (0.4, 1)
        assert math.isnan(alone.low)

    def test_weights_pool(self):
        assert estimate(np.array([1.0, 0.0]), np.array([2.0, 8.0])).mean == pytest.approx(0.2)
        assert math.isnan(estimate(np.array([1.0, 0.0]), np.zeros(2)).mean)
        with pytest.raises(OptionError, match="weights"):
            estimate(np.ones(3), np.ones(2))


class TestCompare:
    @given(st.lists(st.tuples(st.floats(0, 1, width=16), st.floats(0, 1, width=16)), min_size=1, max_size=9))
    def test_small_sets_are_exact(self, pairs):
        row, reference = (np.array(side) for side in zip(*pairs, strict=True))
        found = compare(row, reference)
        assert found.p == pytest.approx(literal.sign_flips((row - reference).tolist()))
        assert found.difference == pytest.approx(float((row - reference).mean()))
        assert compare(reference, row).p == found.p

    def test_many_are_sampled_near_the_exact_value(self):
        random = np.random.default_rng(0)
        difference = random.normal(0.4, 1, 14)  # 2^14 flips are more than are tried
        exact = literal.sign_flips(difference.tolist())
        assert compare(difference, np.zeros(14)).p == pytest.approx(exact, abs=0.02)

    def test_equal_rows_do_not_differ_and_distant_ones_do(self):
        values = np.random.default_rng(0).random(50)
        assert compare(values, values).p == 1.0
        assert compare(values + 1, values).p == pytest.approx(1 / 10_001)

    def test_only_inputs_with_both_values_are_paired(self):
        found = compare(np.array([1.0, np.nan, 2.0]), np.array([0.0, 1.0, np.nan]))
        assert (found.n, found.difference) == (1, 1.0)
        assert math.isnan(compare(np.array([np.nan]), np.array([1.0])).p)
        with pytest.raises(OptionError, match="paired"):
            compare(np.ones(2), np.ones(3))

    def test_pooled_values_change_places_with_their_weights(self):
        row, reference = np.array([1.0, 0.0]), np.array([0.0, 0.0])
        found = compare(row, reference, (np.array([1.0, 9.0]), np.array([5.0, 5.0])))
        assert found.difference == pytest.approx(0.1)
        # flipping the first input alone: 0 / 14 against 1 / 6; both: the other way round
        assert found.p == 1.0
        assert compare(row, reference, (np.ones(2), np.ones(2))) == compare(row, reference)


class TestHolm:
    @given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
    def test_equals_the_literal_rule(self, p):
        assert holm(p) == pytest.approx(literal.holm(p))

    def test_by_hand(self):
        assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
        found = holm([0.01, math.nan])
        assert found[0] == 0.01
        assert math.isnan(found[1])


def test_people_are_judged_like_methods():
    gold = np.array([True, True, False, False])
    other = np.array([True, False, False, False])
    found = human_ceiling([gold, gold, None], [[gold, other], [], [gold]])
    assert found["token-f1"][0] == pytest.approx((1 + 2 / 3) / 2)
    assert found["iou-f1"][0] == 1.0  # half of the span is an IoU of 1/2
    assert found["token-recall"][0] == pytest.approx(0.75)
    assert np.isnan(found["token-f1"][1:]).all()
