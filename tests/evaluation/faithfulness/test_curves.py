"""The numbers made of the two curves, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from rationales.evaluation.faithfulness.curves import FaithfulnessCurves, concatenate_curves
from rationales.evaluation.protocols import PRESETS, Protocol

LEVELS = (0.1, 0.2, 0.5)


def curves_of(protocol=None, counts=None, share=LEVELS, gold=1, **curves) -> FaithfulnessCurves:
    """One input, one view: p = 0.8 full, 0.3 empty; kept and removed as given."""
    probabilities = {"kept": [0.5, 0.7, 0.9], "removed": [0.6, 0.4, 0.2], **curves}
    probabilities.setdefault("odds", probabilities["removed"])
    named = {name: np.array([[values]]) for name, values in probabilities.items()}
    return FaithfulnessCurves(
        protocol or Protocol(levels=LEVELS),
        target=np.array([1]),
        predicted=np.array([1]),
        gold=np.array([gold]),
        full=np.array([[0.8]]),
        empty=np.array([[0.3]]),
        share=np.array([share]),
        counts=np.array([[True] * len(share) if counts is None else counts]),
        **named,
    )


def custom(**fields) -> Protocol:
    return Protocol(levels=LEVELS, **fields)


def test_differences_over_the_levels():
    assert curves_of().sufficiency() == pytest.approx([(0.3 + 0.1 - 0.1) / 3])
    assert curves_of().comprehensiveness() == pytest.approx([(0.2 + 0.4 + 0.6) / 3])
    assert curves_of(custom(normaliser="count+1")).comprehensiveness() == pytest.approx([1.2 / 4])
    assert curves_of(custom(normaliser="sum/6")).comprehensiveness() == pytest.approx([1.2 / 6])
    assert curves_of(custom(normaliser="sum/6")).sufficiency() == pytest.approx([0.3 / 6])


def test_one_level_under_the_plain_name_and_all_under_aopc():
    curves = curves_of(custom(level=0.2, normaliser="sum/6"))
    assert curves.sufficiency() == pytest.approx([0.1])
    assert curves.comprehensiveness() == pytest.approx([0.4])
    assert curves.aopc_sufficiency() == pytest.approx([0.3 / 6])
    assert curves.aopc_comprehensiveness() == pytest.approx([1.2 / 6])


def test_areas_by_trapezoids():
    # removed: (0, .8) (.1, .6) (.2, .4) (.5, .2) (1, .3)
    curves = 0.1 * 0.7 + 0.1 * 0.5 + 0.3 * 0.3 + 0.5 * 0.25
    assert curves_of().deletion() == pytest.approx([curves])
    assert curves_of(custom(to_end=False)).deletion() == pytest.approx([(0.07 + 0.05 + 0.09) / 0.5])
    # kept: (0, .3) (.1, .5) (.2, .7) (.5, .9) (1, .8)
    assert curves_of().insertion() == pytest.approx([0.1 * 0.4 + 0.1 * 0.6 + 0.3 * 0.8 + 0.5 * 0.85])
    assert curves_of(custom(normaliser="area")).comprehensiveness() == pytest.approx([0.8 - curves])
    assert curves_of(custom(curve="mean")).deletion() == pytest.approx([0.4])
    assert curves_of(custom(curve="mean")).insertion() == pytest.approx([0.7])


def test_log_odds():
    assert curves_of().log_odds() == pytest.approx([np.mean(np.log([0.6, 0.4, 0.2])) - np.log(0.8)])
    assert curves_of(custom(odds_level=0.5)).log_odds() == pytest.approx([math.log(0.2 / 0.8)])
    both = custom(odds="odds", odds_level=0.5)
    assert curves_of(both).log_odds() == pytest.approx([math.log(0.2 / 0.8) - math.log(0.8 / 0.2)])
    surely = curves_of(custom(odds_level=0.5), odds=[0.6, 0.4, 0.0])
    assert surely.log_odds() == pytest.approx([math.log(1e-6 / 0.8)])  # never minus infinity


def test_levels_that_do_not_count():
    curves = curves_of(counts=[True, False, True])
    assert curves.comprehensiveness() == pytest.approx([(0.2 + 0.6) / 2])
    # the level in the middle is not on the curve: (0, .8) (.1, .6) (.5, .2) (1, .3)
    assert curves.deletion() == pytest.approx([0.1 * 0.7 + 0.4 * 0.4 + 0.5 * 0.25])
    assert np.isnan(curves_of(counts=[False] * 3).sufficiency()).all()
    assert curves_of(counts=[False] * 3).deletion() == pytest.approx([(0.8 + 0.3) / 2])
    assert curves_of(custom(to_end=False), counts=[False] * 3).deletion() == pytest.approx([0.8])


def test_an_empty_rationale_counts_0_where_the_protocol_says_so():
    nothing = {"share": (0.0, 0.2, 0.5), "kept": [0.3, 0.7, 0.9], "removed": [0.8, 0.4, 0.2]}
    assert curves_of(**nothing).sufficiency() == pytest.approx([(0.5 + 0.1 - 0.1) / 3])
    assert curves_of(custom(empty="zero"), **nothing).sufficiency() == pytest.approx([0.0], abs=1e-12)
    assert curves_of(custom(empty="zero"), **nothing).comprehensiveness() == pytest.approx([(0.0 + 0.4 + 0.6) / 3])


def test_misclassified_inputs_are_left_out_where_the_protocol_says_so():
    assert not np.isnan(curves_of(gold=0).comprehensiveness()).any()
    strict = custom(only_correct=True)
    for name in ("sufficiency", "comprehensiveness", "log_odds", "deletion", "insertion", "aopc_sufficiency"):
        assert np.isnan(getattr(curves_of(strict, gold=0), name)()).all()
        assert not np.isnan(getattr(curves_of(strict), name)()).any()


def test_views_are_measured_apart_then_averaged():
    curves = curves_of(custom(odds_level=0.5))
    two = replace(
        curves,
        **{name: np.concatenate([getattr(curves, name), getattr(curves, name) / 2], 1)
           for name in ("full", "empty", "kept", "removed", "odds")},
    )  # fmt: skip
    assert two.comprehensiveness() == pytest.approx(0.75 * curves.comprehensiveness())
    assert two.deletion() == pytest.approx(0.75 * curves.deletion())
    assert two.log_odds() == pytest.approx(curves.log_odds())  # the mean of logarithms, not the logarithm of means


def test_parts_with_fewer_levels_join():
    im = PRESETS["im"]
    long = curves_of(im, share=(0.05, 0.1, 0.15), kept=[0.4] * 3, removed=[0.6, 0.5, 0.4])
    short = curves_of(im, share=(0.1, 0.2), kept=[0.4] * 2, removed=[0.6, 0.4])
    both = concatenate_curves([long, short], np.array([1, 0]))
    assert both.deletion() == pytest.approx([short.deletion()[0], long.deletion()[0]])
    assert both.deletion() == pytest.approx([(0.7 + 0.5) / 2, (0.7 + 0.55 + 0.45) / 3])
