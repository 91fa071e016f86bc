"""From text to rows: what the model reads is what its tokenizer says, and no token is left out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from families import FAMILIES, tokenizer_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import invisible, texts

from rationales.errors import InputError, ModelError
from rationales.models.text.tokens import TextInput, encode, tokenize

TOKENIZERS = ["bert", "roberta", "albert", "xlm-roberta", "gpt2", "llama"]  # one family of each kind
UNITS = ["word", "token", "sentence"]
few = settings(max_examples=settings.default.max_examples // 3)  # tokenizers x units x examples
ROOMY = 10_000  # more tokens than any text here has


def ids_of(name, *texts, **options):
    return tokenizer_of(name)(*texts, **options)["input_ids"]


def readable(name, *texts):
    """Whether there is anything to explain: visible text that the tokenizer does not drop."""
    return all(text.strip() and ids_of(name, text, add_special_tokens=False) for text in texts)


def encoded(name, text, pair=None, unit="word", limit=ROOMY, overlap=8):
    return encode(TextInput(text, pair), tokenizer_of(name), unit, limit, overlap)


def check(encoded_text, name, limit):
    """Everything that must hold for any encoded input."""
    parts = (
        [encoded_text.source.text]
        if encoded_text.source.pair is None
        else [encoded_text.source.text, encoded_text.source.pair]
    )
    for number, text in enumerate(parts):
        units = [unit for unit in encoded_text.units if unit.text_index == number]
        assert all(text[unit.start : unit.end] == unit.text != "" for unit in units)
        assert all(before.end <= after.start for before, after in pairwise(units))
        covered = {character for unit in units for character in range(unit.start, unit.end)}
        assert all(character in covered or invisible(mark) for character, mark in enumerate(text))
    weight = [0.0] * len(encoded_text.units)
    for row in encoded_text.rows:
        assert len(row.ids) <= limit
        assert len(row.ids) == len(row.owner)
        assert row.types is None or len(row.types) == len(row.ids)
        assert set(row.owner) - {-1} == set(range(len(row.units)))
        for number, unit in enumerate(row.units):
            weight[unit] += row.weight[number]
        owners = [owner for owner in row.owner if owner >= 0]
        assert owners == sorted(owners)
        assert row.position == sorted(set(row.position))
    assert weight == pytest.approx([1.0] * len(encoded_text.units))


def tokens_by_unit(encoded_text):
    """unit -> its token ids, the same in every row."""
    tokens = {}
    for row in encoded_text.rows:
        here = {}
        for token, owner in zip(row.ids, row.owner, strict=True):
            if owner >= 0:
                here.setdefault(row.units[owner], []).append(token)
        for unit, ids in here.items():
            assert tokens.setdefault(unit, ids) == ids
    return tokens


def rebuilt(encoded_text, part_number=0):
    """The tokens of a text, put together from the units of all rows."""
    tokens = tokens_by_unit(encoded_text)
    return [
        token for unit in sorted(tokens) if encoded_text.units[unit].text_index == part_number for token in tokens[unit]
    ]


class TestShortTexts:
    @pytest.mark.parametrize("unit", UNITS)
    @pytest.mark.parametrize("name", TOKENIZERS)
    @few
    @given(text=texts)
    def test_the_row_is_what_the_tokenizer_says(self, name, unit, text):
        assume(readable(name, text))
        encoded_text = encoded(name, text, unit=unit)
        expected = tokenizer_of(name)(text)
        assert [row.ids for row in encoded_text.rows] == [expected["input_ids"]]
        assert encoded_text.rows[0].types == expected.get("token_type_ids")
        assert rebuilt(encoded_text) == ids_of(name, text, add_special_tokens=False)
        check(encoded_text, name, ROOMY)

    @pytest.mark.parametrize("name", TOKENIZERS)
    @few
    @given(
        many=st.lists(
            texts | st.sampled_from(["[CLS] a", "<s>", "a </s> b", "𝒢𝒪 𐍈 \U0010ffff \ue000"]), min_size=2, max_size=4
        )
    )
    def test_many_asked_at_once_are_what_they_are_one_by_one(self, name, many):
        assume(readable(name, *many))
        inputs = [TextInput(text) for text in many]
        for source, batched in zip(inputs, tokenize(inputs, tokenizer_of(name)), strict=True):
            alone, together = (
                encode(source, tokenizer_of(name), "word", ROOMY, 8, tokenization) for tokenization in (None, batched)
            )
            assert together == alone

    @pytest.mark.parametrize("name", TOKENIZERS)
    @few
    @given(text=texts, pair=texts)
    def test_a_pair_is_what_the_tokenizer_says(self, name, text, pair):
        assume(readable(name, text, pair))
        encoded_text = encoded(name, text, pair)
        expected = tokenizer_of(name)(text, pair)
        assert [row.ids for row in encoded_text.rows] == [expected["input_ids"]]
        assert encoded_text.rows[0].types == expected.get("token_type_ids")
        assert rebuilt(encoded_text, 0) == ids_of(name, text, add_special_tokens=False)
        assert rebuilt(encoded_text, 1) == ids_of(name, pair, add_special_tokens=False)
        check(encoded_text, name, ROOMY)

    @pytest.mark.parametrize("family", FAMILIES)
    def test_special_tokens_belong_to_no_unit(self, family):
        batched = tokenizer_of(family)("The soup.", "The bread.", return_special_tokens_mask=True)
        row = encoded(family, "The soup.", "The bread.").rows[0]
        assert [owner < 0 for owner in row.owner] == [bool(mark) for mark in batched["special_tokens_mask"]]

    @pytest.mark.parametrize(("name", "text"), [("bert", "[CLS]"), ("roberta", "<s>"), ("llama", "<s> <s>")])
    def test_a_special_token_in_the_text_is_text(self, name, text):
        """The tokenizer's own [CLS] stays outside; the one that the user wrote can be replaced."""
        row = encoded(name, text).rows[0]
        assert row.owner[0] == -1
        assert any(owner >= 0 for owner in row.owner)

    @pytest.mark.parametrize("name", TOKENIZERS)
    def test_sub_words_are_tied_to_their_word(self, name):
        text = "Unbelievably, the bread wasn't stale!"
        encoded_text = encoded(name, text)
        assert [unit.text for unit in encoded_text.units] == [
            "Unbelievably",
            ",",
            "the",
            "bread",
            "wasn't",
            "stale",
            "!",
        ]
        assert len(tokens_by_unit(encoded_text)[0]) > 1

    def test_sentences_and_tokens_are_units_if_wanted(self):
        text = "The soup was cold. Nobody laughed!"
        sentences = [unit.text for unit in encoded("bert", text, unit="sentence").units]
        assert sentences == ["The soup was cold.", "Nobody laughed!"]
        encoded_text = encoded("bert", text, unit="token")
        assert [len(ids) for ids in tokens_by_unit(encoded_text).values()] == [1] * len(encoded_text.units)

    @pytest.mark.parametrize("name", TOKENIZERS)
    def test_parts_of_a_pair_are_far_apart(self, name):
        """No kernel over positions reaches from one text into the other."""
        encoded_text = encoded(name, "The soup", "The soup")
        assert encoded_text.rows[0].position[:2] == [0, 1]
        assert encoded_text.rows[0].position[2] - encoded_text.rows[0].position[1] > 900

    @pytest.mark.parametrize("name", ["bert", "albert"])
    def test_a_character_that_the_tokenizer_drops_is_in_some_unit(self, name):
        check(encoded(name, "soup \ufffd bread", unit="token"), name, ROOMY)


class TestLongTexts:
    @pytest.mark.parametrize("unit", UNITS)
    @pytest.mark.parametrize("name", TOKENIZERS)
    @few
    @given(text=texts, repeats=st.integers(1, 12), limit=st.integers(20, 64), overlap=st.integers(0, 40))
    def test_every_token_is_in_a_row_and_every_row_fits(self, name, unit, text, repeats, limit, overlap):
        text *= repeats
        assume(readable(name, text))
        encoded_text = encoded(name, text, unit=unit, limit=limit, overlap=overlap)
        assert rebuilt(encoded_text) == ids_of(name, text, add_special_tokens=False)
        check(encoded_text, name, limit)

    @pytest.mark.parametrize("name", TOKENIZERS)
    @few
    @given(data=st.tuples(texts, st.integers(1, 20), texts, st.integers(1, 20)), limit=st.integers(40, 80))
    def test_pairs_of_any_lengths(self, name, data, limit):
        text, pair = data[0] * data[1], data[2] * data[3]
        assume(readable(name, text, pair))
        encoded_text = encoded(name, text, pair, limit=limit)
        assert rebuilt(encoded_text, 0) == ids_of(name, text, add_special_tokens=False)
        assert rebuilt(encoded_text, 1) == ids_of(name, pair, add_special_tokens=False)
        check(encoded_text, name, limit)

    @pytest.mark.parametrize("name", TOKENIZERS)
    def test_a_short_hypothesis_stands_whole_beside_every_part_of_a_long_premise(self, name):
        encoded_text = encoded(
            name, "Every morning the baker carried twelve loaves. " * 20, "Nobody laughed.", limit=64
        )
        assert len(encoded_text.rows) > 1
        second = [number for number, unit in enumerate(encoded_text.units) if unit.text_index == 1]
        assert all(set(second) <= set(row.units) for row in encoded_text.rows)

    def test_two_long_texts_meet_in_every_combination(self):
        encoded_text = encoded("bert", "the soup " * 40, "the bread " * 40, limit=43)
        both = [{encoded_text.units[unit].text_index for unit in row.units} for row in encoded_text.rows]
        assert both == [{0, 1}] * len(encoded_text.rows)
        meetings = {(a, b) for row in encoded_text.rows for a in row.units for b in row.units
                    if encoded_text.units[a].text_index < encoded_text.units[b].text_index}  # fmt: skip
        assert len(meetings) == 80 * 80

    @pytest.mark.parametrize("name", TOKENIZERS)
    @pytest.mark.parametrize(
        "text", ["x" * 3000, "漢" * 700, "👩‍👩‍👧" * 200, "o\u0323\u0301" * 500, "ﷺ" * 60, "a." * 900]
    )
    def test_a_word_longer_than_the_model_is_split(self, name, text):
        encoded_text = encoded(name, text, limit=64)
        assert rebuilt(encoded_text) == ids_of(name, text, add_special_tokens=False)
        check(encoded_text, name, 64)

    @pytest.mark.parametrize("name", TOKENIZERS)
    @pytest.mark.parametrize("text", ["soup" + " " * 400 + "bread", "soup" + "\n" * 400, " " * 400 + "x", "a\t" * 300])
    def test_more_white_space_than_the_model_takes_is_split(self, name, text):
        """Tokens of space go with the word that follows; hundreds of them cannot."""
        encoded_text = encoded(name, text, limit=64)
        assert rebuilt(encoded_text) == ids_of(name, text, add_special_tokens=False)
        check(encoded_text, name, 64)
        assert [unit.text for unit in encoded_text.units if unit.text.strip()] == text.split()

    def test_segments_are_cut_between_words(self):
        encoded_text = encoded("bert", "Unbelievably stale bread. " * 30, limit=64)
        assert len(encoded_text.rows) > 3
        assert {unit.text for unit in encoded_text.units} == {"Unbelievably", "stale", "bread", "."}
        check(encoded_text, "bert", 64)


class TestErrors:
    @pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u00a0\u3000"])
    @pytest.mark.parametrize("pair", [False, True])
    def test_blank_text(self, text, pair):
        with pytest.raises(InputError, match="is empty"):
            encode(TextInput("soup" if pair else text, text if pair else None), tokenizer_of("bert"), "word", 64, 8)

    def test_the_input_is_named(self):
        with pytest.raises(InputError, match="review 7 is empty"):
            encode(TextInput(" ", name="review 7"), tokenizer_of("bert"), "word", 64, 8)

    def test_nothing_but_what_the_tokenizer_drops(self):
        with pytest.raises(InputError, match="no token"):
            encoded("bert", "\u200b\u200d")

    def test_a_character_that_cannot_be_cut_and_does_not_fit(self):
        """Four bytes in the two tokens that a pair leaves each text: an error, not a loop without end."""
        with pytest.raises(ModelError, match="segments of 8 tokens are too short"):
            encoded("roberta", "🙂" * 9, "🙂" * 9, limit=8)
