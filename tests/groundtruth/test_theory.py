"""The binomial test, the accuracy with some features alone, and the Shapley band are those of the paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import groundtruth as literal

from rationales.errors import OptionError
from rationales.groundtruth import shapley_bounds, shapley_values
from rationales.groundtruth.theory import accuracy_from_feature, binomial_tail, min_test_size, reliance_test


class TestReliance:
    @given(n=st.integers(1, 80), share=st.floats(0, 1), bound=st.floats(0.01, 0.99))
    def test_the_tail_is_the_sum_of_binomials(self, n, share, bound):
        correct = round(share * n)
        assert binomial_tail(correct, n, bound) == pytest.approx(
            literal.chance_of_at_least(correct, n, bound), abs=1e-9
        )

    def test_a_known_answer(self):
        """Seven of seven by chance at one half: 1/128."""
        assert reliance_test(7, 7, 0.5).p_value == pytest.approx(1 / 128)
        assert reliance_test(7, 7, 0.5).relies
        assert not reliance_test(6, 7, 0.5).relies

    def test_chance_alone_is_seldom_taken_for_reliance(self):
        """Of models that know the original label and nothing else, at most one in a hundred passes."""
        hits = np.random.default_rng(0).binomial(200, 0.8, 3000)
        passed = np.mean([reliance_test(int(n_correct), 200, 0.8).relies for n_correct in hits])
        assert passed <= 0.01 + 3 * np.sqrt(0.01 * 0.99 / 3000)

    @given(st.floats(0.05, 0.98), st.floats(0.001, 0.1))
    def test_the_smallest_test_is_just_large_enough(self, bound, level):
        n = min_test_size(bound, level)
        assert bound**n < level
        assert n == 1 or bound ** (n - 1) >= level * (1 - 1e-9)

    def test_it_says_what_it_found(self):
        assert str(reliance_test(97, 100, 0.5)).endswith("so the model relies on it")
        assert "need not rely" in str(reliance_test(52, 100, 0.5))

    @pytest.mark.parametrize("wrong", [(5, 4, 0.5), (-1, 4, 0.5), (1, 0, 0.5), (1, 2, 1.5)])
    def test_impossible_counts_are_told(self, wrong):
        with pytest.raises(OptionError):
            reliance_test(*wrong)

    def test_with_all_labels_kept_nothing_can_be_shown(self):
        with pytest.raises(OptionError, match="choose a smaller r"):
            min_test_size(1.0)
        assert reliance_test(100, 100, 1.0).p_value == 1.0


class TestAccuracyGiven:
    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=12))
    def test_on_a_sample_it_is_equation_9(self, rows):
        """A sample is a world in which every example is as likely; the model answers by the example's number."""
        feature, predicted, labels = (np.array(column) for column in zip(*rows, strict=True))
        world = [({"f": f, "number": number}, y, 1 / len(rows)) for number, (f, _, y) in enumerate(rows)]
        expected = literal.accuracy_given(world, ["f"], lambda x: int(predicted[x["number"]]))
        assert accuracy_from_feature(feature, predicted, labels) == pytest.approx(expected)

    def test_features_and_labels_must_belong_together(self):
        with pytest.raises(OptionError, match="same examples"):
            accuracy_from_feature(np.zeros(2, int), np.zeros(3, int), np.zeros(3, int))


class TestShapley:
    @given(st.lists(st.floats(0, 1), min_size=4, max_size=4))
    def test_two_players_are_the_mean_over_both_orders(self, worth):
        none, planted, original, both = worth
        table = {(): none, ("m",): planted, ("o",): original, ("m", "o"): both}
        expected = literal.shapley(["m", "o"], lambda those: table[tuple(sorted(those))])
        assert shapley_values(*worth) == pytest.approx((expected["m"], expected["o"]))

    @pytest.mark.parametrize("r", [0.5, 0.6, 0.75, 0.9, 1.0])
    def test_a_model_that_reads_the_plant_lies_in_the_band(self, r):
        """Eq. 9 for every set of features of the small world, then Eq. 1 to 4."""
        world = literal.planted_world(r)
        a = {names: literal.accuracy_given(world, names, lambda x: x["planted"])
             for names in [(), ("planted",), ("original",), ("original", "planted")]}  # fmt: skip
        assert a[()] == pytest.approx(0.5)
        assert a["planted",] == pytest.approx(1.0)
        assert a["original",] <= r + 1e-12  # r^2 + (1 - r)^2: the model does not even use the original feature
        planted, original = shapley_values(a[()], a["planted",], a["original",], a["original", "planted"])
        low, high = shapley_bounds(r)
        assert planted / (planted + original) >= low - 1e-12
        assert original / (planted + original) <= high + 1e-12

    @pytest.mark.parametrize("r", [0.5, 0.7, 1.0])
    def test_the_band_is_reached_where_the_original_features_give_all_they_can(self, r):
        planted, original = shapley_values(0.5, 1.0, r, 1.0)  # a(F_O) = r
        low, high = shapley_bounds(r)
        assert (planted, original) == pytest.approx((low * 0.5, high * 0.5))
        assert low == pytest.approx(1.5 - r)
        assert high == pytest.approx(r - 0.5)

    @given(r=st.floats(0.5, 1.0), p=st.floats(0.51, 1.0))
    def test_equations_3_and_4(self, r, p):
        low, high = shapley_bounds(r, p)
        assert low == pytest.approx(np.clip((2 * p - r - 0.5) / (2 * p - 1), 0, 1), abs=1e-9)
        assert high == pytest.approx(np.clip((r - 0.5) / (2 * p - 1), 0, 1), abs=1e-9)

    def test_a_whole_line_at_once_and_more_classes(self):
        low, high = shapley_bounds(np.array([0.5, 1.0]), 1.0)
        assert low.tolist() == [1.0, 0.5]
        assert high.tolist() == [0.0, 0.5]
        quarter = shapley_bounds(0.25, 1.0, none=0.25)
        assert (float(quarter[0]), float(quarter[1])) == (1.0, 0.0)
        assert np.isnan(shapley_bounds(0.6, 0.5)[0])
