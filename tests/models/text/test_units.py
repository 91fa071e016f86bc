"""Units: every visible character belongs to exactly one, and so does every token."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import invisible, texts

from rationales.models.text.units import assign_tokens, sentences, split_words, trim, words


def texts_of(text, extents):
    return [text[start:end] for start, end in extents]


@given(text=st.text(st.characters(max_codepoint=127), max_size=60) | st.text("ab1.'_- \t\n\x1f", max_size=30))
def test_plain_text_is_cut_between_spaces_as_it_is_as_a_whole(text):
    assert words(text) == split_words(text)


def test_a_long_chunk_is_cut_as_well():
    text = "see http://" + "a-b.c/" * 40 + " there"
    assert words(text) == split_words(text)


@pytest.mark.parametrize("cut", [words, sentences])
class TestEveryText:
    @given(text=texts)
    def test_units_are_ordered_disjoint_and_cover_what_is_visible(self, cut, text):
        units = cut(text)
        assert all(start < end for start, end in units)
        assert all(before[1] <= after[0] for before, after in pairwise(units))
        covered = {character for start, end in units for character in range(start, end)}
        assert all(character in covered or invisible(mark) for character, mark in enumerate(text))

    @given(text=texts)
    def test_units_begin_and_end_with_something_visible(self, cut, text):
        assert not any(invisible(unit[0]) or invisible(unit[-1]) for unit in texts_of(text, cut(text)))

    @given(text=st.text(st.sampled_from(" \t\r\n\x00\x1f\x7f\x85\u00a0\u2028\u2029\u3000"), max_size=8))
    def test_nothing_visible_has_no_units(self, cut, text):
        assert cut(text) == []

    @given(text=texts)
    def test_space_around_a_text_changes_nothing_inside(self, cut, text):
        """A joiner at the very beginning would join the space; hence the letters."""
        moved = [(start - 2, end - 2) for start, end in cut(f" \tx{text}x\n ")]
        assert moved == cut(f"x{text}x")


class TestWords:
    @pytest.mark.parametrize(
        "text",
        [
            *["It wasn't bad", "about 3.14 or 1,000", "Wait ... what ?!", "one -- two", "can’t won’t", "snake_case x"],
            *["e\u0301te\u0301 a\u0327", "שלום עולם", "👩‍👩‍👧 👍🏽 🇩🇪🇫🇷", "a\u200db"],
        ],
    )  # fmt: skip
    def test_people_agree_where_words_are(self, text):
        """Written here with spaces between words; marks in runs of one kind are one word."""
        expected = text.replace("🇩🇪🇫🇷", "🇩🇪 🇫🇷").replace("?!", "? !").split()
        assert texts_of(text, words(text)) == expected

    def test_marks_are_words_of_their_own(self):
        assert texts_of("(Good!!!), he said...", words("(Good!!!), he said...")) == [
            "(", "Good", "!!!", ")", ",", "he", "said", "...",
        ]  # fmt: skip

    def test_chinese_is_cut_by_character(self):
        assert texts_of("我爱你。", words("我爱你。")) == list("我爱你。")

    @given(st.lists(st.sampled_from(["bread", "wasn't", "3.14", "naïve", "мир", "שלום"]), min_size=1))
    def test_words_between_spaces_are_found_as_they_are(self, given_words):
        text = " ".join(given_words)
        assert texts_of(text, words(text)) == given_words


class TestSentences:
    def test_cut_after_closing_marks_and_at_line_ends(self):
        text = 'He said "No." Then: 3.14 is pi! (Really?) Yes\r\nLast line。次の文！ end'
        assert texts_of(text, sentences(text)) == [
            'He said "No."', "Then: 3.14 is pi!", "(Really?)", "Yes", "Last line。", "次の文！", "end",
        ]  # fmt: skip

    @given(texts)
    def test_sentences_never_cut_between_two_words_of_one_line_without_a_mark(self, text):
        plain = "".join(mark for mark in text if mark.isalpha() or mark == " ")
        assert len(sentences(plain)) <= 1


@pytest.mark.parametrize("mark", ["'", "'\n", ".", "\u0301", "a", "日", " "])
@pytest.mark.parametrize("cut", [words, sentences])
def test_long_runs_of_one_mark_take_no_time(cut, mark):
    """Looking back over the whole run at each of its marks took 25 seconds."""
    started = time.process_time()
    cut(mark * 50_000 + " x")
    assert time.process_time() - started < 5


@given(texts, st.integers(0, 60), st.integers(0, 60))
def test_trim_takes_away_only_what_is_invisible(text, left, right):
    start, end = sorted((min(left, len(text)), min(right, len(text))))
    inner = trim(text, start, end)
    assert start <= inner[0] <= inner[1] <= end
    assert all(invisible(mark) for mark in text[start : inner[0]] + text[inner[1] : end])


@st.composite
def units_and_tokens(draw):
    """Disjoint units, and tokens anywhere: empty, overlapping, outside; only their starts are in order."""
    gaps = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=12))
    units, position = [], 0
    for gap, size in gaps:
        units.append((position + gap, position + gap + size))
        position += gap + size
    spans = draw(st.lists(st.tuples(st.integers(0, position + 4), st.integers(0, 8)), min_size=1, max_size=20))
    return units, sorted(((start, start + size) for start, size in spans), key=lambda token: token[0])


class TestAssignTokens:
    @given(units_and_tokens())
    def test_every_token_has_one_unit_and_every_unit_a_token(self, case):
        units, tokens = case
        tied, owner = assign_tokens(units, tokens)
        assert len(owner) == len(tokens)
        assert set(owner) == set(range(len(tied)))

    @given(units_and_tokens())
    def test_owners_never_fall(self, case):
        _, owner = assign_tokens(*case)
        assert owner == sorted(owner)

    @given(units_and_tokens())
    def test_tied_units_are_runs_of_the_given_ones(self, case):
        units, tokens = case
        tied, _ = assign_tokens(units, tokens)
        starts, ends = [start for start, _ in units], [end for _, end in units]
        assert tied[0][0] == starts[0]
        assert tied[-1][1] == ends[-1]
        assert all(starts.index(after[0]) == ends.index(before[1]) + 1 for before, after in pairwise(tied))

    @given(units_and_tokens())
    def test_units_that_share_a_token_are_one(self, case):
        units, tokens = case
        tied, owner = assign_tokens(units, tokens)
        for (start, end), home in zip(tokens, owner, strict=True):
            touched = [unit for unit in units if unit[0] < end and start < unit[1]]
            assert all(tied[home][0] <= unit[0] and unit[1] <= tied[home][1] for unit in touched)

    @given(units_and_tokens())
    def test_nothing_is_tied_without_need(self, case):
        """A unit stays alone when it has a token of its own and none that it shares."""
        units, tokens = case
        tied, _ = assign_tokens(units, tokens)
        touching = {
            unit: [token for token in tokens if unit[0] < token[1] and token[0] < unit[1]] for unit in units
        }  # fmt: skip
        for before, after in pairwise(units):
            alone = [any(all(token not in touching[neighbour] for neighbour in units if neighbour != unit)
                         for token in touching[unit]) for unit in (before, after)]  # fmt: skip
            across = any(token[0] < before[1] and after[0] < token[1] for token in tokens)
            if all(alone) and not across:
                assert any(unit[1] == before[1] for unit in tied)

    def test_an_empty_token_does_not_go_back(self):
        """(5, 6) belongs to the second unit, so the empty token after it cannot belong to the first."""
        assert assign_tokens([(0, 5), (5, 6)], [(0, 5), (5, 6), (5, 5)]) == ([(0, 5), (5, 6)], [0, 1, 1])

    def test_a_word_the_tokenizer_dropped_goes_with_its_neighbour(self):
        assert assign_tokens([(0, 1), (2, 3), (4, 5)], [(0, 1), (4, 5)]) == ([(0, 3), (4, 5)], [0, 1])
        assert assign_tokens([(0, 1), (2, 3)], [(2, 3)]) == ([(0, 3)], [0])

    def test_space_of_its_own_goes_with_what_follows(self):
        assert assign_tokens([(0, 1), (4, 5)], [(0, 1), (1, 3), (3, 5)])[1] == [0, 1, 1]
