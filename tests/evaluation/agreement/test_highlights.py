"""Agreement with human highlights as Pham et al. (2022) compute it: by hand, and against the literal reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import highlights as literal

from rationales.errors import OptionError
from rationales.evaluation.agreement.highlights import (
    best_highlights,
    f1_of_means,
    highlights_at,
    magnitude,
    magnitudes,
)
from rationales.evaluation.metric_values import MetricInputs, compute_metrics
from rationales.evaluation.metrics import METRICS
from rationales.evaluation.protocols import PRESETS
from rationales.evaluation.tables.statistics import compare, estimate
from rationales.evaluation.tables.table import Cell


def marks(*numbers):
    return np.array(numbers, dtype=bool)


class TestByHand:
    # "For starters , the story is just too slim .": people marked the words 5 to 8 (Figure A12 of the paper)
    gold = marks(0, 0, 0, 0, 0, 1, 1, 1, 1, 0)

    def test_the_papers_own_example(self):
        """Words 6, 7 and 8 highlighted: IoU 0.75, precision 1, recall 0.75; 1, 4, 6 and 7: 0.33, 0.50, 0.50."""
        leave_one_out = highlights_at([self.gold], [np.array([0, 0, 0, 0, 0, -9, 0.2, 0.4, 1, 0.0])], 0.2)
        assert (leave_one_out.iou[0], leave_one_out.precision[0], leave_one_out.recall[0]) == (0.75, 1.0, 0.75)
        marginalised = highlights_at([self.gold], [np.array([0, 2, 0, 0, 2, -1, 2, 2, 0, 0.0])], 0.05)
        assert marginalised.iou[0] == pytest.approx(2 / 6)
        assert (marginalised.precision[0], marginalised.recall[0]) == (0.5, 0.5)

    def test_f1_is_of_the_means_not_the_mean_of_f1(self):
        # precision and recall (1, 1/5) and (1/5, 1): each F1 is 1/3, the F1 of the means 3/5
        golds = [marks(1, 1, 1, 1, 1), marks(1, 0, 0, 0, 0)]
        scores = [np.array([1.0, 0, 0, 0, 0]), np.ones(5)]
        highlights = highlights_at(golds, scores, 0.5)
        assert highlights.f1 == pytest.approx(0.6)
        assert highlights.coverage.tolist() == [0.2, 1.0]
        assert highlights.gold_coverage.tolist() == [1.0, 0.2]

    def test_the_threshold_is_one_for_all_inputs(self):
        golds = [marks(1, 1, 0, 0), marks(1, 0, 0, 0)]
        scores = [np.array([1.0, 0.5, 0.3, 0]), np.array([1.0, 0.9, 0, 0])]
        # up to .3: IoU 2/3 and 1/2; up to .5: 1 and 1/2; up to .9: 1/2 and 1/2; .95: 1/2 and 1
        best = best_highlights(golds, scores)
        assert best.threshold == 0.35  # .75 is also reached at .95; of equals the lowest
        assert best.iou.tolist() == [1.0, 0.5]
        # F1 of means at .35: P = 3/4, R = 1; at .95: P = 1, R = 3/4: equal
        assert best_highlights(golds, scores, criterion="f1").threshold == 0.35

    def test_magnitude(self):
        assert magnitude(np.array([-4.0, 1.0, 0.0, 3.0])) == 0.5
        assert magnitude(np.zeros(3)) == 0.0
        assert magnitudes([np.array([2.0, -1.0]), np.array([0.0])]).tolist() == [1.0, 0.5, 0.0]


class TestConventions:
    def test_no_positive_score_highlights_nothing(self):
        nothing = highlights_at([marks(1, 0)], [np.array([-1.0, 0.0])], 0.05)
        assert (nothing.precision[0], nothing.recall[0], nothing.iou[0], nothing.coverage[0]) == (0, 0, 0, 0)
        assert nothing.f1 == 0.0

    def test_one_word(self):
        assert best_highlights([marks(1)], [np.array([0.3])]).f1 == 1.0

    def test_inputs_without_marks_have_no_value(self):
        best = best_highlights([marks(0, 0), marks(1, 0)], [np.array([1.0, 0.0])] * 2)
        assert np.isnan(best.precision).tolist() == [True, False]
        assert best.f1 == 1.0
        assert math.isnan(best_highlights([marks(0, 0)], [np.ones(2)]).f1)
        assert math.isnan(f1_of_means(np.array([]), np.array([])))

    def test_an_unknown_criterion_is_an_error(self):
        with pytest.raises(OptionError, match="chosen by iou or f1"):
            best_highlights([marks(1)], [np.ones(1)], criterion="auc")
        with pytest.raises(OptionError, match="no threshold"):
            best_highlights([marks(1)], [np.ones(1)], ())


@st.composite
def marked_inputs(draw):
    golds, scores = [], []
    for _ in range(draw(st.integers(1, 5))):
        n = draw(st.integers(1, 7))
        golds.append(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
        scores.append(draw(st.lists(st.integers(-10, 20), min_size=n, max_size=n)))
    golds[0][0] = True
    return golds, scores


@given(marked_inputs())
def test_equals_the_literal_reference(inputs):
    golds, scores = inputs
    arrays = [np.array(gold) for gold in golds], [np.array(values, dtype=float) for values in scores]
    best = best_highlights(*arrays)
    assert best.threshold == literal.best_threshold(golds, scores)
    precision, recall, f1, iou = literal.figures(golds, scores, best.threshold)
    assert np.nanmean(best.precision) == pytest.approx(precision)
    assert np.nanmean(best.recall) == pytest.approx(recall)
    assert best.f1 == pytest.approx(f1)
    assert np.nanmean(best.iou) == pytest.approx(iou)


class TestInTables:
    golds = (marks(1, 1, 1, 1, 1), marks(1, 0, 0, 0, 0), None)
    scores = (np.array([1.0, 0, 0, 0, 0]), np.ones(5), np.ones(2))

    def values(self, *names):
        inputs = MetricInputs(self.scores, self.scores, self.golds, (0, 1, 2))
        return compute_metrics([METRICS[name] for name in names], inputs, PRESETS["im"])

    def test_the_cell_holds_the_f1_of_the_means(self):
        values = self.values("highlight-f1", "highlight-precision", "highlight-recall", "highlight-coverage")
        cell = Cell(tuple(values["highlight-f1"].values), recalls=tuple(values["highlight-f1"].recalls))
        assert (cell.estimate.mean, cell.estimate.n) == (pytest.approx(0.6), 2)
        assert values["highlight-precision"].values[:2].tolist() == [1.0, 0.2]
        assert values["highlight-recall"].values[:2].tolist() == [0.2, 1.0]
        assert values["highlight-coverage"].values[:2].tolist() == [0.2, 1.0]

    def test_the_interval_resamples_precision_and_recall_together(self):
        # (1, 1/5), (1/5, 1): a resample has F1 1/3 (one input twice, either way) or 3/5
        interval = estimate(np.array([1.0, 0.2]), recalls=np.array([0.2, 1.0]))
        assert (interval.low, interval.high) == (pytest.approx(1 / 3), pytest.approx(0.6))

    def test_the_test_flips_precision_and_recall_together(self):
        # row (1, 1) and (1, 1) against (0, 0) and (0, 0): F1 of means 1 and 0; one flip: 1/2 and 1/2, difference 0
        high, low = np.ones(2), np.zeros(2)
        comparison = compare(high, low, recalls=(high, low))
        assert (comparison.difference, comparison.p) == (1.0, 0.5)

    def test_recalls_must_fit(self):
        with pytest.raises(OptionError, match="recalls"):
            estimate(np.ones(3), recalls=np.ones(2))
