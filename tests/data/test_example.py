"""An example holds only highlights that lie in its text."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rationales.data.example import Example, joined, spans_of_words, words_of
from rationales.errors import DataError

TEXT = "Warm soup, cold spoon."


@pytest.mark.parametrize("span", [(-1, 3), (3, 3), (5, 4), (0, 23), (30, 40)])
def test_a_span_outside_of_the_text_is_refused(span):
    with pytest.raises(DataError, match=r"lunch: the span .* lies outside of the text"):
        Example("lunch", TEXT, spans=(span,))
    with pytest.raises(DataError, match="outside of the text"):
        Example("lunch", TEXT, annotator_spans=((), (span,)))
    with pytest.raises(DataError, match=r"lunch \(pair\)"):
        Example("lunch", "a much longer text than the pair is", pair=TEXT, pair_spans=(span,))


def test_spans_are_apart_and_in_order():
    assert Example("a", TEXT, spans=((0, 4), (5, 9))).marked
    for spans in (((5, 9), (0, 4)), ((0, 4), (3, 9))):
        with pytest.raises(DataError, match="overlaps the one before it, or is out of order"):
            Example("a", TEXT, spans=spans)


@pytest.mark.parametrize("box", [(3, 0, 3, 5), (0, 6, 4, 2), (-1, 0, 3, 3)])
def test_a_box_has_an_inside(box):
    with pytest.raises(DataError, match="is no box"):
        Example("a", image=Path("a.png"), boxes=(box,))


def test_nobody_asked_is_not_the_same_as_nothing_marked():
    assert not Example("a", TEXT).marked
    assert Example("a", TEXT, spans=()).marked
    assert Example("a", image=Path("a.png"), boxes=((0, 0, 1, 1),)).marked


def test_equal_by_content_and_usable_in_a_set():
    first, second = (Example("a", TEXT, "good", ((0, 4),), meta={"seen": when}) for when in ("then", "now"))
    assert first == second
    assert len({first, second, Example("b", TEXT)}) == 2


def test_given_is_what_explain_takes():
    assert Example("a", TEXT).raw_input() == TEXT
    assert Example("a", TEXT, pair="And?").raw_input() == (TEXT, "And?")
    assert Example("a", image=Path("x.png")).raw_input() == Path("x.png")


@given(st.text(alphabet="ab \n\t\u2028\u00a0\x1c", max_size=40))
def test_words_are_what_split_makes(text):
    assert [text[start:end] for start, end in words_of(text)] == text.split()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=8))
def test_joined_spans_cover_the_same_characters_and_lie_apart(pairs):
    spans = [(start, start + length) for start, length in pairs]
    disjoint = joined(spans)
    covered = {index for span in spans for index in range(*span)}
    assert {index for span in disjoint for index in range(*span)} == covered
    assert all(left[1] < right[0] for left, right in itertools.pairwise(disjoint))


@given(st.sets(st.integers(0, 9)))
def test_marked_words_become_spans_of_neighbours(marked):
    text = "one two three four five six seven eight nine ten"
    words = words_of(text)
    spans = spans_of_words(words, marked)
    assert [word for start, end in spans for word in text[start:end].split()] == [
        text.split()[number] for number in sorted(marked)
    ]
    assert len(spans) == sum(number - 1 not in marked for number in marked)
