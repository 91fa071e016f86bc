"""How simple a rationale is, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rationales.evaluation.complexity import keep_entropy, score_entropy, share, span_length, spans


def test_spans():
    chosen = np.array([True, True, False, True, False])
    assert (spans(chosen), span_length(chosen), share(chosen)) == (2, 1.5, 0.6)
    nothing = np.zeros(3, dtype=bool)
    assert (spans(nothing), share(nothing)) == (0, 0)
    assert math.isnan(span_length(nothing))
    assert math.isnan(share(np.zeros(0, dtype=bool)))
    assert (spans(~nothing), span_length(~nothing)) == (1, 3)


def test_decided_and_undecided_keeps():
    assert keep_entropy(np.array([0.0, 1.0, 1.0])) == pytest.approx(0, abs=1e-9)
    assert keep_entropy(np.full(4, 0.5)) == pytest.approx(1)
    assert keep_entropy(np.array([0.25, 1.0])) == pytest.approx((2 - 0.75 * math.log2(3)) / 2)
    assert keep_entropy(np.array([-3.0, 0.0, 8.0])) == pytest.approx(0, abs=1e-9)  # becomes 0, 0, 1
    assert math.isnan(keep_entropy(np.zeros(0)))


def test_spread_scores():
    assert score_entropy(np.array([0.0, -2.0, 0.0])) == pytest.approx(0, abs=1e-9)
    assert score_entropy(np.array([2.0, -2.0, 2.0])) == pytest.approx(1)
    assert score_entropy(np.array([1.0, 1.0, 0.0, 0.0])) == pytest.approx(0.5)
    assert math.isnan(score_entropy(np.zeros(3)))
    assert math.isnan(score_entropy(np.ones(1)))
