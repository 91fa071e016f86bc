"""Which units are chosen: every rule by hand, the fitted one against the paper's words."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import metrics as literal

from rationales.errors import InputError, OptionError
from rationales.evaluation.agreement import overlap
from rationales.evaluation.faithfulness.curves import FaithfulnessCurves
from rationales.evaluation.protocols import PRESETS, Protocol
from rationales.evaluation.selection.fitted_share import COUNTED_SCORE, KERNEL_WIDTH, SHARES, leave_one_out, share_curve
from rationales.evaluation.selection.rules import SELECTIONS, SelectionInputs, SelectionRule, find_selection
from rationales.rationale import Rule

SCORES = np.array([0.9, 0.1, 0.8, 0.0, 0.2, 0.1, 0.0, 0.7, 0.1, 0.1])


def selected_units(rule: str | SelectionRule, *scores: np.ndarray, **fields) -> list[list[int]]:
    return [
        np.flatnonzero(values).tolist()
        for values in find_selection(rule).select(SelectionInputs(list(scores), **fields))
    ]


def curves(kept, full=1.0, share=(0.1, 0.2, 0.5)) -> FaithfulnessCurves:
    kept = np.array(kept, dtype=float)[:, None, :]
    inputs, _, levels = kept.shape
    zero = np.zeros((inputs, 1))
    return FaithfulnessCurves(
        Protocol(levels=tuple(share)), *(np.zeros(inputs, dtype=int),) * 3, zero + full, zero, kept, kept, kept,
        np.tile(share, (inputs, 1)), np.ones((inputs, levels), dtype=bool),
    )  # fmt: skip


class TestRules:
    def test_fixed(self):
        assert selected_units("share=0.25", SCORES) == [[0, 2, 7]]  # ceil(2.5)
        assert selected_units("threshold=0.15", SCORES) == [[0, 2, 4, 7]]
        assert selected_units("top=2", SCORES) == [[0, 2]]
        assert selected_units("top=20", SCORES) == [list(range(10))]
        assert selected_units("share=0", SCORES) == [[]]

    @pytest.mark.parametrize("rule", [Rule(share=0.25), Rule(threshold=0.15), Rule(top=2)])
    def test_the_rule_of_a_rationale_is_a_selection(self, rule):
        (name, value), *_ = ((name, value) for name, value in asdict(rule).items() if value is not None)
        selection = find_selection(rule)
        assert selection == find_selection(f"{name}={value}")
        assert np.array_equal(*selection.select(SelectionInputs([SCORES])), rule.select(SCORES))

    def test_equal_scores_are_taken_from_the_left(self):
        assert selected_units("top=3", np.ones(5)) == [[0, 1, 2]]

    def test_from_marks(self):
        gold = [np.arange(10) < 2, np.arange(10) >= 4]
        assert selected_units("gold-length", SCORES, SCORES, gold=gold) == [[0, 2], [0, 1, 2, 4, 5, 7]]
        assert selected_units("gold-share", SCORES, gold=[np.arange(10) < 2]) == [[0, 2]]
        assert selected_units("gold-length", SCORES, SCORES, gold=[None, np.arange(10) < 1]) == [[], [0]]
        marked = np.isin(np.arange(10), [0, 2, 7])
        assert selected_units("best-threshold", SCORES, 50 * SCORES, gold=[marked, marked]) == [[0, 2, 7], [0, 2, 7]]

    def test_keeps_add_up_to_their_number(self):
        assert selected_units("keep-sum", SCORES) == [[0, 2, 7]]  # they add up to 3.0
        assert selected_units("keep-sum", 10 * SCORES) == [[0, 2, 7]]  # 10/3 of the largest: divided first

    def test_two_groups_are_told_apart(self):
        assert selected_units("otsu", SCORES) == selected_units("gap", SCORES) == [[0, 2, 7]]
        assert selected_units("otsu", np.ones(3)) == selected_units("gap", np.ones(3)) == [[0, 1, 2]]
        assert selected_units("otsu", np.ones(1)) == selected_units("gap", np.ones(1)) == [[0]]

    def test_what_suffices(self):
        enough = curves([[0.5, 0.95, 0.99], [0.2, 0.3, 0.4], [0.91, 0.3, 0.99]])
        assert selected_units("sufficient", SCORES, SCORES, SCORES, curves=enough) == [[0, 2], list(range(10)), [0]]
        assert selected_units("sufficient=0.5", SCORES, SCORES, SCORES, curves=enough)[0] == [0]
        low = curves([[0.185, 0.19, 0.2]], full=0.2)  # nine tenths of what the whole input gives, not of 1
        assert selected_units("sufficient", SCORES, curves=low) == [[0]]

    @pytest.mark.parametrize("name", SELECTIONS)
    def test_every_rule_gives_one_choice_per_input(self, name):
        random = np.random.default_rng(0)
        scores = [random.normal(size=n) for n in (1, 4, 30)]
        gold = [random.random(n) < 0.5 for n in (1, 4, 30)]
        gold[0][0] = gold[1][0] = True
        selected = find_selection(name).select(SelectionInputs(scores, gold, curves([[0.1, 0.95, 1.0]] * 3)))
        assert [values.shape for values in selected] == [(1,), (4,), (30,)]
        assert all(values.dtype == bool for values in selected)

    @pytest.mark.parametrize("name", [name for name in SELECTIONS if name != "threshold"])
    def test_the_scale_of_the_scores_does_not_matter(self, name):
        random = np.random.default_rng(3)
        scores = [random.normal(size=20) for _ in range(3)]
        rescaled = {"gold": [random.random(20) < 0.4 for _ in range(3)], "curves": curves([[0.1, 0.95, 1.0]] * 3)}
        assert selected_units(name, *scores, **rescaled) == selected_units(
            name, *(1000 * values for values in scores), **rescaled
        )

    def test_mistakes_are_told(self):
        with pytest.raises(OptionError, match="no selection 'half'; there are: fitted"):
            find_selection("half")
        with pytest.raises(OptionError, match="cannot be 'fitted=3'"):
            find_selection("fitted=3")
        with pytest.raises(OptionError, match="cannot be 'share=much'"):
            find_selection("share=much")
        with pytest.raises(OptionError, match="between 0 and 1"):
            find_selection("share=2")
        with pytest.raises(OptionError, match="whole number"):
            find_selection("top=1.5")
        for name in ("fitted", "gold-length", "gold-share", "best-threshold"):
            with pytest.raises(InputError, match="needs people's marks"):
                selected_units(name, SCORES)
        with pytest.raises(InputError, match="sufficiency curve"):
            selected_units("sufficient", SCORES)
        with pytest.raises(InputError, match="at least two marked inputs"):
            selected_units("fitted", SCORES, SCORES, gold=[SCORES > 0.5, SCORES > 2])

    def test_every_preset_names_a_rule_that_exists(self):
        assert all(find_selection(values.selection) for values in PRESETS.values())


class TestFitted:
    def inputs(self, count=9, seed=0):
        random = np.random.default_rng(seed)
        scores = [random.normal(size=random.integers(5, 60)) for _ in range(count)]
        gold = [random.random(len(values)) < 0.4 for values in scores]
        for values in gold:
            values[0] = True
        return scores, gold

    @pytest.mark.parametrize(("metric", "measure"), [("token-f1", literal.f1), ("iou-f1", literal.iou_f1)])
    def test_equals_the_paper_word_for_word(self, metric, measure):
        scores, gold = self.inputs()
        best = []
        for input_scores, marks in zip(scores, gold, strict=True):
            values = []
            for share in SHARES:
                first = literal.best_first(input_scores.tolist())[: int(np.ceil(share * len(input_scores) - 1e-9))]
                values.append(measure(marks.tolist(), [position in first for position in range(len(input_scores))]))
            best.append(SHARES[max(range(99), key=lambda number: (round(values[number], 12), -number))])
        expected = literal.kernel_regression([values.tolist() for values in scores], best, COUNTED_SCORE, KERNEL_WIDTH)
        selected = find_selection("fitted").select(SelectionInputs(scores, gold, metric=metric))
        for input_scores, share, marks in zip(scores, expected, selected, strict=True):
            first = literal.best_first(input_scores.tolist())[: int(np.ceil(share * len(input_scores) - 1e-9))]
            assert sorted(first) == np.flatnonzero(marks).tolist()

    @given(st.integers(0, 2**32 - 1), st.integers(1, 40))
    def test_the_fast_curves_equal_the_metrics_themselves(self, seed, n):
        random = np.random.default_rng(seed)
        gold, scores = random.random(n) < random.random(), random.integers(0, 6, n) / 5
        gold[random.integers(n)] = True
        for metric, measure in (("token-f1", overlap.token_f1), ("iou-f1", overlap.iou_f1)):
            slow = share_curve(metric, gold, scores, measure)
            assert share_curve(metric, gold, scores) == pytest.approx(slow)

    def test_an_input_never_learns_from_itself(self):
        x, y = np.array([0.1, 0.1, 0.9]), np.array([0.2, 0.4, 0.9])
        selected = leave_one_out(x, y)
        near, far = 1.0, np.exp(-(0.8**2) / 0.05)
        assert selected[0] == pytest.approx((near * 0.4 + far * 0.9) / (near + far))
        assert selected[2] == pytest.approx(0.3)

    def test_inputs_without_marks_are_predicted_but_teach_nothing(self):
        scores, gold = self.inputs(4)
        marks = [*scores, np.arange(10.0)]
        selected = find_selection("fitted").select(SelectionInputs(marks, [*gold, None]))
        assert all(
            np.array_equal(a, b)
            for a, b in zip(selected, find_selection("fitted").select(SelectionInputs(scores, gold)), strict=False)
        )
        assert 0 < selected[-1].sum() < 10

    def test_other_metrics_need_their_function(self):
        scores, gold = self.inputs(3)
        with pytest.raises(OptionError, match="cannot be fitted to 'token-iou'"):
            find_selection("fitted").select(SelectionInputs(scores, gold, metric="token-iou"))
        assert find_selection("fitted").select(
            SelectionInputs(scores, gold, metric="token-iou", agreement=overlap.token_iou)
        )

    def test_random_scores_keep_nearly_everything(self):
        """Why every table needs a random row: F1 rewards long choices, and the rule learns that."""
        random = np.random.default_rng(0)
        gold = [random.random(200) < 0.3 for _ in range(40)]
        scores = [random.random(200) for _ in gold]
        selected = find_selection("fitted").select(SelectionInputs(scores, gold))
        assert np.mean([values.mean() for values in selected]) > 0.7
        assert np.mean([overlap.token_f1(*pair) for pair in zip(gold, selected, strict=True)]) > 0.4
