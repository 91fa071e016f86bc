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
    return [Example(f"e{index}", "a text", labels[index % len(labels)]) for index in range(count)]


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
        originals = examples(800, old)
        reassigned = reassign(originals, Reassignment(old, new, matrix), seed)
        for i, label in enumerate(old):
            new_of_class = [
                after.label for before, after in zip(originals, reassigned, strict=True) if before.label == label
            ]
            for j, new_label in enumerate(new):
                expected, p = len(new_of_class) * matrix[i][j], matrix[i][j]
                assert (
                    abs(new_of_class.count(new_label) - expected)
                    <= DEVIATIONS * np.sqrt(len(new_of_class) * p * (1 - p)) + 1e-9
                )

    @pytest.mark.parametrize("r", [0.0, 0.5, 0.8, 1.0])
    def test_a_label_stays_with_probability_r(self, r):
        originals = examples(4000)
        kept = sum(
            a.label == b.label
            for a, b in zip(originals, reassign(originals, reassignment_keeping("ab", r)), strict=True)
        )
        assert abs(kept - 4000 * r) <= DEVIATIONS * np.sqrt(4000 * r * (1 - r))

    def test_labels_of_different_examples_and_seeds_are_independent(self):
        originals = examples(2000)
        draws = [
            [example.label == "a" for example in reassign(originals, reassignment_keeping("ab"), seed)]
            for seed in range(3)
        ]
        for mine, theirs in ((draws[0], draws[1]), (draws[1], draws[2]), (draws[0][1:], draws[0][:-1])):
            agree = np.mean(np.array(mine) == np.array(theirs))
            assert abs(agree - 0.5) < DEVIATIONS * 0.5 / np.sqrt(len(mine))


class TestReassigning:
    def test_the_order_of_examples_plays_no_part(self):
        originals = examples(60)
        by_name = {example.name: example.label for example in reassign(originals, reassignment_keeping("ab"), 3)}
        backwards = reassign(originals[::-1], reassignment_keeping("ab"), 3)
        assert all(by_name[example.name] == example.label for example in backwards)
        assert by_name["e7"] == reassign([originals[7]], reassignment_keeping("ab"), 3)[0].label

    def test_the_original_label_is_kept_on_record(self):
        reassigned = reassign([Example("one", "x", "a", meta={"page": "3"})], reassignment_keeping("ab", 0.0))
        assert (reassigned[0].label, reassigned[0].meta) == ("b", {"page": "3", ORIGINAL_LABEL: "a"})

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
        reassignment = Reassignment(tuple("abcd"[: len(matrix)]), tuple("wxyz"[: len(matrix[0])]), matrix)
        assert reassignment.bound == pytest.approx(literal.best_accuracy(matrix))
        for alone in np.eye(len(matrix), dtype=int):
            assert reassignment.bound_for(alone * 7) <= reassignment.bound + 1e-12

    @pytest.mark.parametrize("r", [0.0, 0.3, 0.5, 0.9])
    def test_of_two_classes_it_is_the_larger_of_r_and_the_rest(self, r):
        assert reassignment_keeping("ab", r).bound == max(r, 1 - r)

    def test_for_classes_of_known_size_it_is_what_guessing_the_likeliest_reaches(self):
        reassignment = Reassignment(("a", "b"), ("x", "y"), ((0.9, 0.1), (0.5, 0.5)))
        assert reassignment.bound_for([30, 10]) == pytest.approx(0.75 * 0.9 + 0.25 * 0.5)
        assert uniform_reassignment("abc", "xy").bound_for([1, 2, 3]) == pytest.approx(0.5)

    def test_a_rule_that_knows_the_original_label_reaches_it_and_no_more(self):
        originals = examples(6000)
        reassigned = reassign(originals, reassignment_keeping("ab", 0.8), 1)
        hits = sum(before.label == after.label for before, after in zip(originals, reassigned, strict=True))
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
