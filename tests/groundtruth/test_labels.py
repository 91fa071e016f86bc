"""New labels follow the matrix, whatever the order, and nothing but the plant can beat the bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import groundtruth as literal

from rationales.data import Example
from rationales.errors import DataError, OptionError
from rationales.groundtruth import Reassignment, reassign, reassignment_keeping, uniform_reassignment
from rationales.groundtruth.label_reassignment import ORIGINAL_LABEL

DEVIATIONS = 4.5  # a correct generator fails this once in 150,000 draws


def examples(count, labels="ab"):
    return [Example(f"e{one}", "a text", labels[one % len(labels)]) for one in range(count)]


@st.composite
def matrices(draw):
    """(old, new) of probabilities in hundredths."""
    old, new = draw(st.integers(1, 4)), draw(st.integers(2, 4))
    rows = []
    for _ in range(old):
        cuts = sorted(draw(st.lists(st.integers(0, 100), min_size=new - 1, max_size=new - 1)))
        rows.append(tuple((b - a) / 100 for a, b in zip([0, *cuts], [*cuts, 100], strict=True)))
    return tuple(rows)


class TestStatistics:
    @given(matrix=matrices(), seed=st.integers(0, 10**9))
    @settings(max_examples=12)
    def test_every_cell_is_within_its_binomial_bounds(self, matrix, seed):
        old, new = tuple("abcd"[: len(matrix)]), tuple("wxyz"[: len(matrix[0])])
        given_ = examples(800, old)
        made = reassign(given_, Reassignment(old, new, matrix), seed)
        for i, label in enumerate(old):
            own = [after.label for before, after in zip(given_, made, strict=True) if before.label == label]
            for j, wanted in enumerate(new):
                expected, p = len(own) * matrix[i][j], matrix[i][j]
                assert abs(own.count(wanted) - expected) <= DEVIATIONS * np.sqrt(len(own) * p * (1 - p)) + 1e-9

    @pytest.mark.parametrize("r", [0.0, 0.5, 0.8, 1.0])
    def test_a_label_stays_with_probability_r(self, r):
        given_ = examples(4000)
        kept = sum(
            a.label == b.label for a, b in zip(given_, reassign(given_, reassignment_keeping("ab", r)), strict=True)
        )
        assert abs(kept - 4000 * r) <= DEVIATIONS * np.sqrt(4000 * r * (1 - r))

    def test_labels_of_different_examples_and_seeds_are_independent(self):
        given_ = examples(2000)
        draws = [[one.label == "a" for one in reassign(given_, reassignment_keeping("ab"), seed)] for seed in range(3)]
        for mine, theirs in ((draws[0], draws[1]), (draws[1], draws[2]), (draws[0][1:], draws[0][:-1])):
            agree = np.mean(np.array(mine) == np.array(theirs))
            assert abs(agree - 0.5) < DEVIATIONS * 0.5 / np.sqrt(len(mine))


class TestReassigning:
    def test_the_order_of_examples_plays_no_part(self):
        given_ = examples(60)
        by_name = {one.name: one.label for one in reassign(given_, reassignment_keeping("ab"), 3)}
        backwards = reassign(given_[::-1], reassignment_keeping("ab"), 3)
        assert all(by_name[one.name] == one.label for one in backwards)
        assert by_name["e7"] == reassign([given_[7]], reassignment_keeping("ab"), 3)[0].label

    def test_the_original_label_is_kept_on_record(self):
        made = reassign([Example("one", "x", "a", meta={"page": "3"})], reassignment_keeping("ab", 0.0))
        assert (made[0].label, made[0].meta) == ("b", {"page": "3", ORIGINAL_LABEL: "a"})

    def test_names_must_be_unique(self):
        """Else all examples of a name would get one label, and a model could know it."""
        with pytest.raises(DataError, match="two examples are called 'e0'"):
            reassign([*examples(3), *examples(1)], reassignment_keeping("ab"))

    @pytest.mark.parametrize("label", [None, "c"])
    def test_a_label_that_is_not_in_the_matrix_is_told(self, label):
        with pytest.raises(DataError, match=r"one has .*must be one of a, b"):
            reassign([Example("one", "x", label)], reassignment_keeping("ab"))


class TestBound:
    @given(matrices())
    def test_it_is_what_no_rule_on_the_original_label_exceeds(self, matrix):
        how = Reassignment(tuple("abcd"[: len(matrix)]), tuple("wxyz"[: len(matrix[0])]), matrix)
        assert how.bound == pytest.approx(literal.best_accuracy(matrix))
        for alone in np.eye(len(matrix), dtype=int):
            assert how.bound_for(alone * 7) <= how.bound + 1e-12

    @pytest.mark.parametrize("r", [0.0, 0.3, 0.5, 0.9])
    def test_of_two_classes_it_is_the_larger_of_r_and_the_rest(self, r):
        assert reassignment_keeping("ab", r).bound == max(r, 1 - r)

    def test_for_classes_of_known_size_it_is_what_guessing_the_likeliest_reaches(self):
        how = Reassignment(("a", "b"), ("x", "y"), ((0.9, 0.1), (0.5, 0.5)))
        assert how.bound_for([30, 10]) == pytest.approx(0.75 * 0.9 + 0.25 * 0.5)
        assert uniform_reassignment("abc", "xy").bound_for([1, 2, 3]) == pytest.approx(0.5)

    def test_a_rule_that_knows_the_original_label_reaches_it_and_no_more(self):
        given_ = examples(6000)
        made = reassign(given_, reassignment_keeping("ab", 0.8), 1)
        hits = sum(before.label == after.label for before, after in zip(given_, made, strict=True))
        assert abs(hits / 6000 - 0.8) < DEVIATIONS * np.sqrt(0.8 * 0.2 / 6000)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (((0.5, 0.6), (0.5, 0.5)), "add up to 1"),
        (((1.5, -0.5), (0.5, 0.5)), "add up to 1"),
        (((0.5, 0.5),), "a row for each of 2 classes"),
        (((0.5, 0.5), (1.0,)), "a row for each of 2 classes"),
    ],
)
def test_a_matrix_must_hold_probabilities(matrix, message):
    with pytest.raises(OptionError, match=message):
        Reassignment(("a", "b"), ("a", "b"), matrix)


def test_other_mistakes():
    with pytest.raises(OptionError, match=r"between 0 and 1; not 1\.2"):
        reassignment_keeping("ab", 1.2)
    with pytest.raises(OptionError, match="at least two labels"):
        reassignment_keeping("a")
    with pytest.raises(OptionError, match="named twice"):
        reassignment_keeping("aa")
