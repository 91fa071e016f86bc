"""Intervals that cover, tests that are exact where they can be, and corrections by the book."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import metrics as literal

from rationales.errors import OptionError
from rationales.evaluation.agreement.overlap import human_ceiling
from rationales.evaluation.tables.statistics import compare, estimate, holm, rank_correlation, student_p


class TestEstimate:
    def test_mean_and_interval_of_a_known_distribution(self):
        values = np.random.default_rng(1).normal(3, 2, 400)
        estimated = estimate(values)
        error = 1.96 * values.std() / 20  # the normal approximation
        assert estimated.mean == pytest.approx(values.mean())
        assert estimated.low == pytest.approx(values.mean() - error, abs=0.03)
        assert estimated.high == pytest.approx(values.mean() + error, abs=0.03)
        assert estimated == estimate(values)  # seeded
        assert estimated != estimate(values, seed=1)

    def test_the_interval_covers_as_often_as_it_says(self):
        random = np.random.default_rng(2)
        inside = 0
        for _ in range(200):
            estimated = estimate(random.exponential(1.0, 60), draws=300)
            inside += estimated.low <= 1.0 <= estimated.high
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
        comparison = compare(row, reference)
        assert comparison.p == pytest.approx(literal.sign_flips((row - reference).tolist()))
        assert comparison.difference == pytest.approx(float((row - reference).mean()))
        assert compare(reference, row).p == comparison.p

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
        comparison = compare(np.array([1.0, np.nan, 2.0]), np.array([0.0, 1.0, np.nan]))
        assert (comparison.n, comparison.difference) == (1, 1.0)
        assert math.isnan(compare(np.array([np.nan]), np.array([1.0])).p)
        with pytest.raises(OptionError, match="paired"):
            compare(np.ones(2), np.ones(3))

    def test_pooled_values_change_places_with_their_weights(self):
        row, reference = np.array([1.0, 0.0]), np.array([0.0, 0.0])
        comparison = compare(row, reference, (np.array([1.0, 9.0]), np.array([5.0, 5.0])))
        assert comparison.difference == pytest.approx(0.1)
        # flipping the first input alone: 0 / 14 against 1 / 6; both: the other way round
        assert comparison.p == 1.0
        assert compare(row, reference, (np.ones(2), np.ones(2))) == compare(row, reference)


class TestHolm:
    @given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
    def test_equals_the_literal_rule(self, p):
        assert holm(p) == pytest.approx(literal.holm(p))

    def test_by_hand(self):
        assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
        adjusted = holm([0.01, math.nan])
        assert adjusted[0] == 0.01
        assert math.isnan(adjusted[1])


def test_people_are_judged_like_methods():
    gold = np.array([True, True, False, False])
    annotation = np.array([True, False, False, False])
    reached = human_ceiling([gold, gold, None], [[gold, annotation], [], [gold]])
    assert reached["token-f1"][0] == pytest.approx((1 + 2 / 3) / 2)
    assert reached["iou-f1"][0] == 1.0  # half of the span is an IoU of 1/2
    assert reached["token-recall"][0] == pytest.approx(0.75)
    assert np.isnan(reached["token-f1"][1:]).all()


class TestRankCorrelation:
    @given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=20))
    def test_is_the_correlation_of_mean_ranks(self, pairs):
        """Spearman's rho, literally: a rank is the number of smaller values plus half of the equal ones."""
        first, second = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
        rho = rank_correlation(first, second)
        if len(set(first)) == 1 or len(set(second)) == 1:
            assert math.isnan(rho)
            return
        ranks = [[sum(y < x for y in side) + sum(y == x for y in side) / 2 for x in side] for side in (first, second)]
        assert rho == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-12)
        assert rank_correlation(first, np.exp(second)) == pytest.approx(rho, abs=1e-12)

    def test_by_hand(self):
        assert rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
        assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
        assert math.isnan(rank_correlation([], []))
        with pytest.raises(OptionError, match="cannot be compared"):
            rank_correlation([1, 2], [1, 2, 3])

    def test_scipy_is_imported_when_it_is_needed(self):
        code = "import sys, rationales, rationales.evaluation.evaluate; sys.exit('scipy.stats' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("freedom", [1.0, 1.7, 4.0, 7.9, 30.0, 400.0])
@pytest.mark.parametrize("statistic", [0.0, 0.01, -0.7, 2.1, 8.0, 40.0])
def test_students_p_value_is_scipys(statistic, freedom):
    from scipy.stats import t as student

    assert student_p(statistic, freedom) == pytest.approx(2 * student.sf(abs(statistic), freedom), rel=1e-7)
