"""Agreement with people: golden values by hand, literal definitions, scikit-learn, and what odd input must give."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import metrics as literal

from rationales.errors import InputError
from rationales.evaluation.agreement import overlap as p


def marks(text: str) -> np.ndarray:
    """ "x.x" -> [True, False, True]."""
    return np.array([letter == "x" for letter in text])


bools = st.integers(1, 24).flatmap(lambda n: st.lists(st.booleans(), min_size=n, max_size=n))


@st.composite
def judged(draw, levels=(0, 1, 2, 3, 4, 5)):
    """Marks with at least one True, and scores with many ties."""
    n = draw(st.integers(1, 24))
    gold = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
    scores = draw(st.lists(st.sampled_from(levels), min_size=n, max_size=n))
    return np.array(gold), np.array(scores, dtype=float) / 7 - 0.3


class TestGolden:
    def test_tokens(self):
        gold, chosen = marks("xxx..x"), marks("x.x.xx")  # 3 hits, 4 marked, 4 chosen
        assert p.precision(gold, chosen) == 3 / 4
        assert p.recall(gold, chosen) == 3 / 4
        assert p.token_f1(gold, chosen) == 6 / 8
        assert p.token_iou(gold, chosen) == 3 / 5

    def test_micro_weights_long_inputs_more(self):
        golds, chosen = [marks("x."), marks("xxxx....")], [marks("x."), marks("....xxxx")]
        assert [p.token_f1(*pair) for pair in zip(golds, chosen, strict=True)] == [1.0, 0.0]
        assert p.micro_f1(golds, chosen) == 2 * 1 / (5 + 5)

    def test_best_units(self):
        gold, scores = marks("x..x."), np.array([0.9, 0.8, 0.1, 0.7, 0.0])
        assert p.f1_at_gold_length(gold, scores) == 1 / 2  # takes the first two
        assert p.top_k_f1(gold, scores, 3) == 4 / 5
        assert p.precision_at(gold, scores) == 1.0
        assert p.precision_at(gold, scores, 2) == 0.5

    def test_average_precision_by_hand(self):
        gold, scores = marks("x.x."), np.array([0.9, 0.8, 0.7, 0.1])
        assert p.average_precision(gold, scores) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
        # points (recall, precision): (0, 1) (1/2, 1) (1/2, 1/2) (1, 2/3) (1, 1/2)
        assert p.auprc(gold, scores) == pytest.approx(0.5 * 1 + 0.5 * (1 / 2 + 2 / 3) / 2)

    def test_spans(self):
        #            0123456789
        gold, chosen = marks("xxxx...xx."), marks("xxx.x..x..")
        # spans marked 0-4 and 7-9; chosen 0-3 (IoU 3/4), 4-5 (none), 7-8 (IoU 1/2: counts)
        assert p.iou_f1(gold, chosen) == pytest.approx(2 * 1 * (2 / 3) / (1 + 2 / 3))
        assert p.iou_f1(gold, chosen, min_iou=0.6) == pytest.approx(2 * 0.5 * (1 / 3) / (0.5 + 1 / 3))

    def test_two_halves_of_one_span_both_count_at_exactly_one_half(self):
        assert p.iou_f1(marks("xxx"), marks("x.x")) == 0.0  # IoU 1/3 each
        assert p.iou_f1(marks("x.xx"), marks("xxx.")) == 0.0  # 1/3 and 1/4
        assert p.iou_f1(marks("xx."), marks(".x.")) == 1.0

    def test_best_threshold_is_one_for_all_inputs(self):
        golds = [marks("xx.."), marks("x...")]
        scores = [np.array([1.0, 0.6, 0.3, -5.0]), np.array([10.0, 3.0, 3.0, 0.0])]
        # at 0.35..0.6 both are right
        threshold, values = p.best_threshold_iou(golds, scores)
        assert 0.3 < threshold <= 0.6
        assert values.tolist() == [1.0, 1.0]

    def test_pictures(self):
        gold = np.zeros((2, 5), dtype=bool)
        gold[:, :2] = True
        scores = np.array([[4.0, 0.0, 1.0, 0.0, -9.0], [2.0, 0.0, 1.0, 0.0, 0.0]])
        assert p.pointing(gold, scores) == 1.0
        assert p.inside_energy(gold, scores) == 6 / 8
        assert p.inside_energy(gold, scores, absolute=True) == 6 / 17
        assert p.inside_top(gold, scores, 0.2) == 1.0  # 4 and 2
        assert p.inside_top(gold, scores, 0.3) == pytest.approx((2 + 0) / 3)  # and one of the two 1s, both outside
        assert p.inside_top(gold, -scores, 0.1) == 0.0


class TestScorersGetWhatTheyMust:
    gold = marks("..xxx.....x.........")

    def test_perfect(self):
        scores = self.gold.astype(float)
        for measure in (p.average_precision, p.auprc, p.f1_at_gold_length, p.precision_at):
            assert measure(self.gold, scores) == 1.0
        assert p.iou_f1(self.gold, self.gold) == p.token_f1(self.gold, self.gold) == 1.0
        assert p.best_threshold_iou([self.gold], [scores])[1].tolist() == [1.0]

    def test_inverted(self):
        scores = 1.0 - self.gold
        n, k = len(self.gold), int(self.gold.sum())
        assert p.average_precision(self.gold, scores) == pytest.approx(k / n)  # all marked ones come last, together
        assert p.f1_at_gold_length(self.gold, scores) == p.precision_at(self.gold, scores) == 0.0

    def test_constant_is_the_share_that_is_marked(self):
        scores = np.full(len(self.gold), 0.3)
        assert p.average_precision(self.gold, scores) == pytest.approx(self.gold.mean())
        wide = self.gold.reshape(4, 5)
        assert p.pointing(wide, scores.reshape(4, 5)) == pytest.approx(self.gold.mean())
        assert p.inside_top(wide, scores.reshape(4, 5)) == pytest.approx(self.gold.mean())
        assert p.inside_energy(wide, scores.reshape(4, 5)) == pytest.approx(self.gold.mean())

    def test_random_is_near_the_share_that_is_marked(self):
        random = np.random.default_rng(0)
        gold = np.zeros(400, dtype=bool)
        gold[:100] = True
        random_scores = [random.random(400) for _ in range(300)]
        assert np.mean([p.average_precision(gold, scores_) for scores_ in random_scores]) == pytest.approx(
            0.25, abs=0.02
        )
        assert np.mean([p.f1_at_gold_length(gold, scores_) for scores_ in random_scores]) == pytest.approx(
            0.25, abs=0.01
        )
        assert np.mean([p.precision_at(gold, scores_) for scores_ in random_scores]) == pytest.approx(0.25, abs=0.08)
        assert np.mean(
            [p.inside_top(gold.reshape(20, 20), scores_.reshape(20, 20)) for scores_ in random_scores]
        ) == pytest.approx(0.25, abs=0.01)


class TestConventions:
    nothing, marked = marks("...."), marks(".xx.")

    @pytest.mark.parametrize("measure", [p.precision, p.recall, p.token_f1, p.token_iou, p.iou_f1])
    def test_nothing_marked_has_no_value_and_nothing_chosen_is_zero(self, measure):
        assert math.isnan(measure(self.nothing, self.marked))
        assert math.isnan(measure(self.nothing, self.nothing))
        assert measure(self.marked, self.nothing) == 0.0

    @pytest.mark.parametrize("measure", [p.average_precision, p.auprc, p.f1_at_gold_length, p.precision_at])
    def test_one_class_data(self, measure):
        scores = np.array([0.1, 0.2, 0.3, 0.4])
        assert math.isnan(measure(self.nothing, scores))
        assert measure(~self.nothing, scores) == 1.0

    def test_nothing_marked_anywhere(self):
        threshold, values = p.best_threshold_iou([self.nothing], [np.ones(4)])
        assert math.isnan(threshold)
        assert np.isnan(values).all()
        assert math.isnan(p.micro_f1([self.nothing], [self.marked]))

    def test_no_positive_score_has_no_energy(self):
        assert math.isnan(p.inside_energy(self.marked.reshape(2, 2), -np.ones((2, 2))))

    def test_scores_that_cannot_be_ranked(self):
        for measure in (p.average_precision, p.auprc, p.pointing, p.inside_top, p.inside_energy):
            for bad in (math.nan, math.inf):
                with pytest.raises(InputError, match="NaN or infinity"):
                    measure(self.marked, np.array([0.1, bad, 0.2, 0.3]))

    def test_lengths_and_types_must_fit(self):
        with pytest.raises(InputError, match=r"\(4,\).*\(3,\)"):
            p.token_f1(self.marked, marks("xxx"))
        with pytest.raises(InputError, match="scores"):
            p.average_precision(self.marked, np.ones(3))
        with pytest.raises(InputError, match="True or False"):
            p.token_f1(self.marked, np.ones(4))
        with pytest.raises(InputError, match="True or False"):
            p.average_precision(np.ones(4), np.ones(4))


class TestProperties:
    @given(
        bools.flatmap(
            lambda gold: st.tuples(st.just(gold), st.lists(st.booleans(), min_size=len(gold), max_size=len(gold)))
        )
    )
    def test_equals_the_literal_definition(self, pair):
        gold, chosen = pair
        if any(gold):
            assert p.token_f1(np.array(gold), np.array(chosen)) == pytest.approx(literal.f1(gold, chosen))
            assert p.iou_f1(np.array(gold), np.array(chosen)) == pytest.approx(literal.iou_f1(gold, chosen))

    @given(judged())
    def test_average_precision_equals_the_literal_definition(self, pair):
        gold, scores = pair
        assert p.average_precision(gold, scores) == pytest.approx(literal.average_precision(gold, scores.tolist()))

    @given(judged())
    def test_average_precision_and_auprc_equal_scikit_learn(self, pair):
        sklearn = pytest.importorskip("sklearn.metrics")
        gold, scores = pair
        assert p.average_precision(gold, scores) == pytest.approx(sklearn.average_precision_score(gold, scores))
        precision, recall, _ = sklearn.precision_recall_curve(gold, scores)
        assert p.auprc(gold, scores) == pytest.approx(sklearn.auc(recall, precision))

    @given(judged(), st.integers(0, 30))
    def test_everything_lies_between_0_and_1(self, pair, k):
        gold, scores = pair
        values = [p.average_precision(gold, scores), p.auprc(gold, scores), p.f1_at_gold_length(gold, scores)]
        values += [p.top_k_f1(gold, scores, k), p.precision_at(gold, scores), p.pointing(gold, scores)]
        values += [p.iou_f1(gold, p.top(scores, k)), p.inside_top(gold, scores), p.inside_energy(gold, scores, True)]
        assert all(-1e-12 <= value <= 1 + 1e-12 for value in values if not math.isnan(value))

    @given(judged())
    def test_only_the_order_of_scores_matters(self, pair):
        gold, scores = pair
        bent = np.exp(3 * scores) - 20
        for measure in (p.average_precision, p.auprc, p.f1_at_gold_length, p.precision_at, p.pointing, p.inside_top):
            assert measure(gold, bent) == pytest.approx(measure(gold, scores))

    @given(judged(), st.randoms(use_true_random=False))
    def test_the_order_of_units_does_not_matter_where_ties_come_together(self, pair, random):
        gold, scores = pair
        order = list(range(len(gold)))
        random.shuffle(order)
        for measure in (p.average_precision, p.auprc, p.pointing, p.inside_top, p.inside_energy):
            value, shuffled_value = measure(gold, scores), measure(gold[order], scores[order])
            assert value == pytest.approx(shuffled_value, nan_ok=True)

    @given(judged(), st.floats(0.01, 1e6))
    def test_the_best_threshold_does_not_depend_on_the_scale(self, pair, scale):
        gold, scores = pair
        assert p.best_threshold_iou([gold], [scores])[0] == p.best_threshold_iou([gold], [scores * scale])[0]
