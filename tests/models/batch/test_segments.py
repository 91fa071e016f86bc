"""Windows: every unit in at least one, none too long, and put together again they weigh the same everywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import phrases

from rationales.models.batch.rows import windows


@st.composite
def cases(draw, share=1):
    """Lengths of units, each at most 1/share of the capacity; a capacity; an overlap of any size."""
    capacity = draw(st.integers(4, 60))
    lengths = draw(st.lists(st.integers(1, capacity // share), min_size=1, max_size=120))
    return lengths, capacity, draw(st.integers(0, 80))


class TestWindows:
    @given(cases())
    def test_cover_every_unit_in_order(self, case):
        cut = windows(*case)
        assert cut[0].first == 0
        assert cut[-1].last == len(case[0])
        for before, after in pairwise(cut):
            assert before.first < after.first <= before.last < after.last

    @given(cases())
    def test_fit_the_capacity(self, case):
        lengths, capacity, _ = case
        assert all(sum(lengths[window.first : window.last]) <= capacity for window in windows(*case))

    @given(cases())
    def test_one_window_if_and_only_if_all_fits(self, case):
        lengths, capacity, _ = case
        cut = windows(*case)
        assert (len(cut) == 1) == (sum(lengths) <= capacity)
        if len(cut) == 1:
            assert cut[0].weight == (1.0,) * len(lengths)

    @given(cases())
    def test_weights_of_a_unit_sum_to_one(self, case):
        total = [0.0] * len(case[0])
        for window in windows(*case):
            assert len(window.weight) == window.last - window.first
            assert all(weight > 0 for weight in window.weight)
            for unit, weight in zip(range(window.first, window.last), window.weight, strict=True):
                total[unit] += weight
        assert total == pytest.approx([1.0] * len(total))

    @given(cases())
    def test_are_those_found_one_unit_at_a_time(self, case):
        assert [(window.first, window.last) for window in windows(*case)] == phrases.window_bounds(*case)

    @given(cases(share=2))
    def test_share_as_much_as_promised_and_no_more(self, case):
        """At most the overlap (a quarter of the capacity where it is more), and one more unit would be too much."""
        lengths, capacity, overlap = case
        overlap = min(overlap, capacity // 4)
        cut = windows(*case)
        for before, after in pairwise(cut):
            shared = sum(lengths[after.first : before.last])
            assert shared <= overlap
            one_more = lengths[after.first - 1]
            assert shared + one_more > overlap or after.first - 1 == before.first

    @given(cases(share=2))
    def test_weights_change_linearly_over_an_overlap(self, case):
        cut = windows(*case)
        for before, after in pairwise(cut):
            shared = before.last - after.first
            rising = after.weight[:shared]
            assert rising == pytest.approx([step / (shared + 1) for step in range(1, shared + 1)])
            assert before.weight[len(before.weight) - shared :] == pytest.approx([1 - weight for weight in rising])
        for number, window in enumerate(cut):
            for unit, weight in zip(range(window.first, window.last), window.weight, strict=True):
                neighbours = [
                    neighbour
                    for neighbour in cut[:number] + cut[number + 1 :]
                    if neighbour.first <= unit < neighbour.last
                ]
                assert neighbours or weight == 1

    @given(st.integers(20, 100), st.integers(1, 3000), st.integers(0, 100))
    def test_windows_of_equal_units_are_about_equally_long(self, capacity, count, overlap):
        """No window is left with too little context, and there are no more of them than are needed."""
        sizes = [window.last - window.first for window in windows([1] * count, capacity, overlap)]
        shared = min(overlap, capacity // 4)
        assert max(sizes) - min(sizes) <= 1
        assert len(sizes) == max(-(-(count - shared) // (capacity - shared)), 1)

    @given(cases(share=4))
    def test_no_window_is_short(self, case):
        """Rounding to whole units does not add up from window to window: all fill a quarter, up to a token."""
        lengths, capacity, _ = case
        sizes = [sum(lengths[window.first : window.last]) for window in windows(*case)]
        assert min(sizes) >= min(sum(lengths), capacity) / 4 - 1

    def test_a_unit_longer_than_a_window_is_an_error_and_not_a_loop(self):
        with pytest.raises(ValueError, match="9 tokens in windows of 8"):
            windows([1, 9], 8, 2)

    def test_a_long_unit_does_not_make_windows_inside_others(self):
        """Two tokens shared and ten to come do not fit ten: then nothing is shared."""
        last = windows([1] * 10 + [10], 10, 2)[-1]
        assert (last.first, last.last, last.weight) == (10, 11, (1.0,))
