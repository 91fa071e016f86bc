"""Notes follow from the four probabilities, and their advice names only what exists for that result."""

from __future__ import annotations

import pytest

from rationales.pipeline.selection import SelectionSummary, selection_notes


def selection(full=0.8, rationale=0.8, complement=0.2, baseline=0.4, **changes):
    """A result of two classes with these probabilities of the target."""
    values = {"full": full, "rationale": rationale, "complement": complement, "baseline": baseline}
    probabilities = {name: {"cat": value, "dog": 1 - value} for name, value in values.items()}
    known = {"kind": "image", "unit": "pixel", "target": "cat", "baseline": "mean", "selected": 20, "units": 100}
    return SelectionSummary(probabilities=probabilities, **(known | changes))


def kinds(**values):
    return [note.kind for note in selection_notes(selection(**values))]


def test_a_sufficient_and_comprehensive_rationale_has_no_notes():
    assert kinds() == []


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"complement": 0.79}, "not-comprehensive"),
        ({"complement": 0.9}, "evidence-against"),
        ({"rationale": 0.3}, "not-sufficient"),
        ({"rationale": 0.45}, "not-sufficient"),  # more than half of the full probability, but the decision is lost
        ({"baseline": 0.75}, "informative-baseline"),
        ({"selected": 0, "rationale": 0.4, "complement": 0.8}, "empty-rationale"),
    ],
)
def test_each_fault_has_its_note(values, kind):
    assert kinds(**values) == [kind]


def test_the_cat_whose_class_rises_without_its_rationale_is_said_to_contradict():
    (note,) = selection_notes(selection(full=0.38, rationale=0.45, complement=0.57, baseline=0.01))
    assert note.kind == "evidence-against"
    assert "0.38 to 0.57" in note.message


def test_a_complement_that_is_nothing_but_the_baseline_is_not_called_evidence():
    assert kinds(selected=100, complement=0.4, baseline=0.4, full=0.4, rationale=0.6) == []


def test_advice_names_sparsity_only_where_the_method_has_one_that_decides():
    assert "sparsity" not in selection_notes(selection(rationale=0.3))[0].message
    assert "sparsity (now 0.6)" in selection_notes(selection(rationale=0.3, sparsity=0.6))[0].message


def test_advice_to_select_more_names_a_larger_share_and_is_left_out_where_all_is_selected():
    assert "share=0.4" in selection_notes(selection(rationale=0.3))[0].message
    assert "select more" not in selection_notes(selection(rationale=0.3, selected=100))[0].message
