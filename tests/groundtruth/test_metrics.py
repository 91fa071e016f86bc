"""Attr%, precision and recall: perfect scorers reach 1, random ones the share of the area."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import groundtruth as literal
from samples import make_rationale

from rationales.data import Example
from rationales.errors import DataError, InputError, OptionError
from rationales.groundtruth import find_plant, image_example, random_generator
from rationales.groundtruth.metrics import (
    Case,
    attribution_by_label,
    attribution_elsewhere,
    attribution_on_distractors,
    attribution_on_region,
    attribution_share,
    make_case,
    optimal_selection,
    selection_quality,
    top_selections,
)
from rationales.groundtruth.plants.regions import union_region, units_in_region
from rationales.rationale_parts import Grid, Unit


def cases(count, size=40, region_size=8, seed=0, scores=None, labels="ab"):
    """Cases with random regions; scores by default of a uniform random scorer."""
    rng = np.random.default_rng(seed)
    result = []
    for number in range(count):
        region, distractors = np.zeros(size, bool), np.zeros(size, bool)
        order = rng.permutation(size)
        region[order[:region_size]], distractors[order[region_size : region_size + 4]] = True, True
        case_scores = rng.random(size) if scores is None else scores(region)
        result.append(Case(case_scores, region, distractors, labels[number % len(labels)], str(number)))
    return result


class TestAttribution:
    @given(arrays(float, 12, elements=st.floats(-1e3, 1e3)), arrays(bool, 12))
    def test_it_is_the_share_of_the_absolute_scores(self, scores, region):
        if np.abs(scores).max() > 1e-100:
            assert attribution_share(scores, region) == pytest.approx(literal.attribution_share(scores, region))

    @given(arrays(bool, 20), st.sampled_from([1e-300, 1.0, -5.0, 1e300]))
    def test_a_perfect_scorer_reaches_1(self, region, value):
        if region.any():
            assert attribution_share(np.where(region, value, 0.0), region) == 1.0

    def test_of_a_perfect_scorer_the_mean_and_its_interval_are_1(self):
        share = attribution_on_region(cases(30, scores=lambda region: region * 3.0))
        assert (share.attribution.mean, share.attribution.low, share.attribution.high) == (1.0, 1.0, 1.0)

    @pytest.mark.parametrize("draw", ["random", "standard_normal"])
    @pytest.mark.parametrize("region_size", [1, 8, 30])
    def test_a_random_scorer_reaches_the_share_of_the_area(self, region_size, draw):
        rng = np.random.default_rng(5)
        scored = cases(1000, region_size=region_size, scores=lambda region: getattr(rng, draw)(len(region)))
        share = attribution_on_region(scored)
        values = [attribution_share(case.scores, case.region) for case in scored]
        assert share.area.mean == pytest.approx(region_size / 40)
        assert abs(share.attribution.mean - region_size / 40) < 4.5 * np.std(values) / np.sqrt(len(scored))

    def test_equal_scores_and_no_scores_say_the_same(self):
        region = np.arange(10) < 3
        assert attribution_share(np.ones(10), region) == attribution_share(np.zeros(10), region) == pytest.approx(0.3)

    def test_both_classes_apart(self):
        perfect, blind = (
            cases(4, scores=lambda region: region * 1.0, labels="p"),
            cases(4, scores=lambda region: ~region * 1.0, labels="n"),
        )
        by_label = attribution_by_label([*perfect, *blind])
        assert by_label["p"].attribution.mean == 1.0
        assert by_label["n"].attribution.mean == 0.0
        assert (by_label["p"].attribution.n, by_label["n"].area.mean) == (4, 0.2)

    def test_region_distractors_and_the_rest_share_everything_out(self):
        scored = cases(20)
        parts = [share(scored) for share in (attribution_on_region, attribution_on_distractors, attribution_elsewhere)]
        assert sum(share.attribution.mean for share in parts) == pytest.approx(1.0)
        assert [share.area.mean for share in parts] == pytest.approx([0.2, 0.1, 0.7])

    def test_where_there_is_nothing_to_point_at_there_is_no_value(self):
        none = Case(np.ones(3), np.zeros(3, bool), np.zeros(3, bool), "a")
        assert math.isnan(attribution_on_region([none]).attribution.mean)
        assert attribution_on_region([none]).attribution.n == 0

    @pytest.mark.parametrize("bad", [np.array([1.0, np.nan, 0.0]), np.ones(4)])
    def test_scores_that_cannot_be_are_told(self, bad):
        with pytest.raises(InputError):
            Case(bad, np.ones(3, bool), np.zeros(3, bool), "a", "one")


class TestSelections:
    def test_a_known_answer(self):
        """Two inputs of 5 units: 2 + 1 selected, 1 + 1 of them right, 2 + 1 wanted, one idle."""
        region = [np.array([1, 1, 0, 0, 0], bool), np.array([0, 0, 0, 0, 1], bool)]
        selections = [np.array([0, 1, 1, 0, 0], bool), np.array([0, 0, 0, 0, 1], bool)]
        distractors = [np.array([0, 0, 1, 0, 0], bool), np.zeros(5, bool)]
        quality = selection_quality(
            [Case(np.ones(5), a, b, "x") for a, b in zip(region, distractors, strict=True)], selections
        )
        assert quality.precision.mean == pytest.approx(2 / 3)
        assert quality.recall.mean == pytest.approx(2 / 3)
        assert quality.selection_rate.mean == pytest.approx(3 / 10)
        assert quality.distractor_rate.mean == pytest.approx(1 / 3)

    def test_the_best_by_score_of_a_perfect_scorer(self):
        scored = cases(10, scores=lambda region: region * -2.0)  # the size of a score counts, not its sign
        quality = selection_quality(scored, top_selections(scored, 0.2))
        assert quality.precision.mean == quality.recall.mean == 1.0

    @given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=3), st.data())
    def test_the_optimal_line_over_all_inputs_is_the_best_there_is(self, inputs, data):
        sizes = [size for size, _ in inputs]
        region_sizes = [min(size, right) for size, right in inputs]
        if not sum(region_sizes):
            return
        scored = [
            Case(np.ones(size), np.arange(size) < right, np.zeros(size, bool), "x")
            for size, right in zip(sizes, region_sizes, strict=True)
        ]
        count = data.draw(st.integers(1, sum(sizes)))
        precision, recall = optimal_selection(scored, [count / sum(sizes)])
        assert (precision[0], recall[0]) == pytest.approx(literal.best_selection(region_sizes, sizes, count))

    def test_the_line_for_each_input_lies_below(self):
        """Ten units each, one and five of them right, 30 % of each selected: 1 + 3 hits of 6, not 6 of 6."""
        scored = [Case(np.ones(10), np.arange(10) < right, np.zeros(10, bool), "x") for right in (1, 5)]
        assert [line[0] for line in optimal_selection(scored, [0.3])] == pytest.approx([1.0, 1.0])
        assert [line[0] for line in optimal_selection(scored, [0.3], per_input=True)] == pytest.approx([4 / 6, 4 / 6])
        rates = np.linspace(0.01, 1, 50)
        assert (
            optimal_selection(scored, rates, per_input=True)[1] <= optimal_selection(scored, rates)[1] + 1e-12
        ).all()

    def test_rates_must_be_shares(self):
        with pytest.raises(OptionError, match="between 0, not included, and 1"):
            optimal_selection(cases(2), [0.0])
        with pytest.raises(OptionError, match="not 2"):
            top_selections(cases(1), 2)


class TestUnits:
    def test_words_that_share_a_character_with_a_span_are_inside(self):
        text = "in the sea of a bay"
        units = [Unit(word, text.index(f" {word}") + 1 if word != "in" else 0, 0, 0) for word in text.split()]
        units = [Unit(unit.text, unit.start, unit.start + len(unit.text), 0) for unit in units]
        assert units_in_region(((3, 6), (14, 15)), units, text).tolist() == [False, True, False, False, True, False]
        assert units_in_region(((5, 8),), units, text).tolist() == [False, True, True, False, False, False]
        assert not units_in_region((), units, text).any()

    @given(st.lists(st.integers(0, 30), min_size=2, max_size=10, unique=True), st.lists(st.integers(0, 30), min_size=2))
    def test_against_every_pair(self, cuts, ends):
        spans = tuple(zip(sorted(cuts)[::2], sorted(cuts)[1::2], strict=False))
        units = [Unit("", a, b, 0) for a, b in zip(ends[::2], ends[1::2], strict=False) if a < b]
        expected = [any(a < unit.end and unit.start < b for a, b in spans) for unit in units]
        assert units_in_region(spans, units).tolist() == expected

    def test_the_pair_is_never_inside(self):
        assert units_in_region(((0, 3),), [Unit("the", 0, 3, 0), Unit("the", 0, 3, 1)]).tolist() == [True, False]

    def test_a_result_of_a_text(self):
        planted = find_plant("articles").apply(Example("one", "in the sea", "x"), random_generator(0, "plant", "one"))
        scored = make_case(planted, make_rationale(planted.example.text, [0.1, 0.7, 0.2]))
        assert attribution_share(scored.scores, scored.region) == pytest.approx(0.7)

    def test_a_result_of_a_picture_must_have_its_size(self):
        planted = find_plant("noise").apply(
            image_example("one", np.zeros((28, 28, 3), np.uint8), "x"), random_generator(0, "p", "one")
        )
        assert units_in_region(planted.region, Grid(28, 28)).mean() == planted.region.mean()
        with pytest.raises(DataError, match="at its own size"):
            units_in_region(planted.region, Grid(14, 28))
        with pytest.raises(DataError, match="units of an image"):
            units_in_region(planted.region, [])
        with pytest.raises(DataError, match="units of a text"):
            units_in_region(((0, 1),), Grid(2, 2))

    def test_the_joint_region_is_the_union(self):
        assert union_region([((0, 2), (5, 6)), ((2, 3),)]) == ((0, 3), (5, 6))
        with pytest.raises(DataError, match="no union"):
            union_region([np.ones((2, 2), bool), ((0, 1),)])
        with pytest.raises(DataError, match="no regions"):
            union_region([])
