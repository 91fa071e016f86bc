"""The rule behind a verdict: chance is missed, half of the way is found, distractors distract."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rationales.groundtruth.dryrun.verdict import (
    CHANCE_GAIN,
    DISTRACTED,
    FOUND,
    FOUND_GAIN,
    MIN_INPUTS,
    MISSED,
    attribution_gain,
    judge,
)
from rationales.groundtruth.metrics import Case

SIZE, PLANT_SIZE = 40, 8  # units, and those of the plant: chance is a fifth


def case(gain, distraction=0.0, n_distractors=0, seed=0):
    """An input with this gain on the plant, and this distraction on `n_distractors` units that look like it."""
    region, distractors = np.arange(SIZE) < PLANT_SIZE, (np.arange(SIZE) >= SIZE - n_distractors)
    scores = np.zeros(SIZE)
    share = PLANT_SIZE / SIZE + gain * (1 - PLANT_SIZE / SIZE)  # gain = (Attr% - area) / (1 - area), solved for Attr%
    scores[region] = share / PLANT_SIZE
    elsewhere = ~(region | distractors)
    distractor_share = (n_distractors / SIZE + distraction * (1 - n_distractors / SIZE)) if n_distractors else 0.0
    if n_distractors:
        scores[distractors] = distractor_share / n_distractors
    scores[elsewhere] = (1 - share - distractor_share) / elsewhere.sum()
    order = np.random.default_rng(seed).permutation(SIZE)
    return Case(scores[order], region[order], distractors[order], "a", str(seed))


def cases(gains, **options):
    return [case(gain, seed=number, **options) for number, gain in enumerate(gains)]


class TestGain:
    @given(arrays(float, 12, elements=st.floats(0, 1)), arrays(bool, 12))
    def test_it_is_0_for_equal_scores_and_at_most_1(self, scores, region):
        if region.any() and not region.all():
            assert attribution_gain(np.ones(12), region) == pytest.approx(0)
            assert attribution_gain(region.astype(float), region) == pytest.approx(1)
            assert attribution_gain(scores, region) <= 1 + 1e-12

    @given(st.floats(-0.2, 1))
    def test_it_is_what_the_cases_here_were_made_for(self, gain):
        made_case = case(gain)
        assert attribution_gain(made_case.scores, made_case.region) == pytest.approx(gain)

    @pytest.mark.parametrize("region", [np.zeros(4, bool), np.ones(4, bool)])
    def test_without_a_region_or_anything_beside_it_there_is_none(self, region):
        assert math.isnan(attribution_gain(np.arange(4.0), region))


class TestJudge:
    def test_a_perfect_scorer_has_found_it(self):
        verdict = judge(cases([1.0] * 10))
        assert (verdict.name, verdict.certain) == (FOUND, True)
        assert verdict.gain.mean == pytest.approx(1)

    def test_a_random_scorer_has_missed_it(self):
        """Over many seeds: the rule must not call chance anything else."""
        names = []
        for seed in range(40):
            rng = np.random.default_rng(seed)
            region = np.arange(SIZE) < PLANT_SIZE
            names.append(judge([Case(rng.random(SIZE), region, ~region & region, "a") for _ in range(30)]).name)
        assert set(names) == {MISSED}

    @pytest.mark.parametrize(
        ("gain", "name"),
        [(-0.2, MISSED), (0.0, MISSED), (0.02, MISSED), (0.2, DISTRACTED), (0.45, DISTRACTED), (0.55, FOUND)],
    )
    def test_the_way_decides(self, gain, name):
        verdict = judge(cases(np.linspace(gain - 0.01, gain + 0.01, 20)))
        assert (verdict.name, verdict.certain) == (name, True)

    def test_an_interval_that_reaches_chance_is_a_miss_whatever_the_mean(self):
        verdict = judge(cases([1.0, 0.9, -0.25, -0.25, -0.25, -0.25, 0.9]))
        assert verdict.gain.mean > CHANCE_GAIN
        assert verdict.gain.low <= 0
        assert verdict.name == MISSED
        assert not verdict.certain

    def test_it_says_when_the_interval_does_not_settle_it(self):
        verdict = judge(cases([0.1, 0.95] * 4))
        assert verdict.gain.low < FOUND_GAIN < verdict.gain.high
        assert verdict.name == FOUND
        assert not verdict.certain

    def test_distractors_above_chance_distract_even_one_that_found_it(self):
        gains = [0.6] * 10
        assert judge(cases(gains, n_distractors=4, distraction=0.0)).name == FOUND
        verdict = judge(cases(gains, n_distractors=4, distraction=0.15))
        assert (verdict.name, verdict.certain) == (DISTRACTED, True)
        assert verdict.distraction.mean == pytest.approx(0.15)
        assert judge(cases([0.0] * 10, n_distractors=4, distraction=0.3)).name == DISTRACTED

    def test_few_inputs_have_no_verdict(self):
        assert judge(cases([1.0] * (MIN_INPUTS - 1))) is None
        assert judge(cases([1.0] * MIN_INPUTS)) is not None
        region = np.zeros(SIZE, bool)
        assert judge([Case(np.ones(SIZE), region, region, "a")] * 20) is None  # nothing to be found in any
