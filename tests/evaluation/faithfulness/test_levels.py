"""Ranks, ties and counts, by hand and against sorting one input at a time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference.metrics import best_first

from rationales.errors import InputError
from rationales.evaluation.faithfulness.levels import check_scores, select_levels
from rationales.evaluation.protocols import Protocol

LEFT = Protocol(levels=(0.1, 0.25, 0.5, 1.0))


def counted(scores, **fields):
    levels = select_levels([np.array(scores, dtype=float)], replace(LEFT, **fields), [0])
    return levels.count[0].tolist(), levels.counts[0].tolist()


def test_levels_become_counts():
    ten = np.arange(10.0)
    assert counted(ten) == ([1, 3, 5, 10], [True] * 4)
    assert counted(ten, count="floor")[0] == [1, 2, 5, 10]
    assert counted(ten, count="round")[0] == [1, 3, 5, 10]  # a half goes up
    assert counted(np.arange(3.0), count="floor")[0] == [0, 0, 1, 3]
    assert counted(np.arange(3.0), count="floor", min_units=1)[0] == [1, 1, 1, 3]
    assert counted(np.arange(1.0), min_units=5)[0] == [1, 1, 1, 1]


def test_a_level_is_not_off_by_one_for_floating_point():
    scores = np.arange(20.0)
    shares = tuple(number / 20 for number in range(1, 20))
    levels = select_levels([scores], Protocol(levels=shares), [0])
    assert levels.count[0].tolist() == list(range(1, 20))
    assert select_levels([scores], Protocol(levels=shares, count="floor"), [0]).count[0].tolist() == list(range(1, 20))


def test_only_positive_and_distinct_levels():
    scores = [3.0, 2.0, -1.0, 0.0, -2.0]
    assert counted(scores, positive=True) == ([1, 2, 2, 2], [True] * 4)
    assert counted(scores, positive=True, distinct=True) == ([1, 2, 2, 2], [True, True, False, False])
    assert counted([-1.0, -2.0], positive=True, distinct=True) == ([0] * 4, [True, False, False, False])
    assert counted([-1.0, -2.0], positive=True, empty="skip") == ([0] * 4, [False] * 4)


def test_one_unit_at_a_time():
    protocol = Protocol(each=0.2, count="floor", min_units=1)
    levels = select_levels([np.arange(20.0), np.arange(10.0), np.arange(2.0)], protocol, [0, 1, 2])
    assert levels.count.tolist() == [[1, 2, 3, 4], [1, 2, 2, 2], [1, 1, 1, 1]]
    assert levels.counts.tolist() == [[True] * 4, [True, True, False, False], [True, False, False, False]]
    assert levels.share[0].tolist() == [0.05, 0.1, 0.15, 0.2]


@given(st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=12), min_size=1, max_size=5))
def test_inputs_together_are_ranked_as_alone(scores):
    levels = select_levels([np.array(values, dtype=float) for values in scores], LEFT, range(len(scores)))
    for number, alone in enumerate(scores):
        order = best_first(alone)
        assert levels.rank[number, : len(alone)].tolist() == [order.index(position) for position in range(len(alone))]
        for level, mask in zip(LEFT.levels, levels.selected(number), strict=True):
            first = order[: math.ceil(level * len(alone) - 1e-9)]
            assert np.flatnonzero(mask.numpy()).tolist() == sorted(first)


def test_units_that_are_not_real_are_never_selected():
    real = torch.tensor([[True, False, True, True, False]])
    levels = select_levels([np.array([0.0, 9.0, 1.0, 2.0, 9.0])], replace(LEFT, levels=(1 / 3, 1.0)), [0], real=real)
    assert levels.units.tolist() == [3]
    assert levels.rank[0].tolist()[:4] == [2, 3, 1, 0]
    assert levels.count.tolist() == [[1, 3]]


class TestTies:
    scores = np.array([1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.0])

    def order(self, ties, key=0, scores=None, **fields):
        scores = self.scores if scores is None else scores
        levels = select_levels([scores], replace(LEFT, ties=ties, **fields), [key])
        return np.argsort(levels.rank[0].numpy()).tolist()

    def test_left(self):
        assert self.order("left") == list(range(7))

    @pytest.mark.parametrize("ties", ["random", "noise"])
    def test_equal_scores_change_places_by_the_key_and_others_do_not(self, ties):
        orders = {tuple(self.order(ties, key)) for key in range(40)}
        assert len(orders) > 20
        assert all(order[0] == 0 and order[-1] == 6 for order in orders)
        assert self.order(ties, 3) == self.order(ties, 3)
        positions = [order.index(1) for order in orders]
        assert 2.4 < np.mean(positions) < 3.6  # each of the five tied places is as likely

    def test_an_input_draws_the_same_in_any_company(self):
        protocol = replace(LEFT, ties="random")
        alone = select_levels([self.scores], protocol, [5]).rank[0, :7]
        company = select_levels([np.arange(30.0), self.scores], protocol, [1, 5]).rank[1, :7]
        assert torch.equal(alone, company)

    def test_noise_is_relative_to_the_scores(self):
        """Scores of 1e-9 must not drown in a noise of 1e-5."""
        tiny = 1e-9 * np.arange(10.0)
        assert self.order("noise", scores=tiny) == list(range(9, -1, -1))
        assert self.order("noise", scores=tiny, noise=10.0) != list(range(9, -1, -1))

    def test_all_zero_is_a_random_order(self):
        assert len({tuple(self.order("noise", key, np.zeros(7))) for key in range(20)}) > 15


def test_scores_that_are_no_scores():
    with pytest.raises(InputError, match=r"scores of review 2 hold nan \(unit 1\)"):
        check_scores([np.ones(2), np.array([1.0, np.nan])], ["review 1", "review 2"])
    with pytest.raises(InputError, match=r"shape \(2, 2\)"):
        check_scores([np.ones((2, 2))], ["x"])
    with pytest.raises(InputError, match="one number for each unit"):
        check_scores([np.ones(0)], ["x"])
