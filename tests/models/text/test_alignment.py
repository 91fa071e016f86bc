"""Offsets: believed when they are right, found by spelling when they are not."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from families import tiny, tokenizer_of
from hypothesis import given
from hypothesis import strategies as st
from strategies import texts

import rationales
from rationales.models.text.tokens import TextInput, encode, token_extents
from rationales.models.text.units import align, trim, trustworthy

TOKENIZERS = ["bert", "roberta", "albert", "xlm-roberta", "gpt2", "llama"]  # one family of each kind
BYTES = ["roberta", "gpt2", "llama"]  # know every character
PLAIN = [
    "I did not like the soup, but the bread wasn't bad at all!",
    "  Two spaces  and\n\na line end; café, naïve, e\u0301te\u0301.",
    "Don't (3.14 times)... the the the the the",
    "a",
]
SCRIPTS = ["日本", "мир", "🙂", "ñandú", "bread", "é", "€", "👍🏽", "한", "wasn't", "שלום"]
FOREIGN = ["日本語 and 한국어 🙂🙂 ok", "мир, שלום and 👩‍👩‍👧 too", "我爱你"]


class Wrapped:
    """A tokenizer that says the same ids but something else about where they stand."""

    is_fast = True

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __call__(self, *texts: Any, **options: Any) -> Any:
        encoding = self.inner(*texts, **options)
        if "offset_mapping" in encoding:
            encoding["offset_mapping"] = self.lie(texts[0], encoding["offset_mapping"])
        return encoding

    def lie(self, text: str, offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
        raise NotImplementedError


class ZeroWidth(Wrapped):
    def lie(self, text, offsets):
        return [(0, 0) for _ in offsets]


class Shifted(Wrapped):
    def lie(self, text, offsets):
        return [(min(start + 1, len(text)), min(end + 1, len(text))) for start, end in offsets]


class InBytes(Wrapped):
    def lie(self, text, offsets):
        return [(len(text[:start].encode()), len(text[:end].encode())) for start, end in offsets]


class Slow(Wrapped):
    is_fast = False

    def lie(self, text, offsets):
        raise NotImplementedError("return_offset_mapping is not available when using Python tokenizers")


def reported_extents(name, text):
    """ids, pieces and the fast tokenizer's own offsets."""
    tokenizer = tokenizer_of(name)
    extents = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    return extents["input_ids"], tokenizer.convert_ids_to_tokens(extents["input_ids"]), extents["offset_mapping"]


class TestTrustworthy:
    @pytest.mark.parametrize("text", PLAIN + FOREIGN)
    @pytest.mark.parametrize("name", TOKENIZERS)
    def test_true_offsets_are_accepted(self, name, text):
        _, pieces, offsets = reported_extents(name, text)
        assert trustworthy(text, offsets, pieces)

    @pytest.mark.parametrize("name", BYTES)
    @given(words=st.lists(st.sampled_from(SCRIPTS), min_size=1))
    def test_true_offsets_of_bytes_are_accepted_in_any_script(self, name, words):
        """The letters a byte is written as ("Ĺ", "³") must not be taken for letters of the text."""
        text = " ".join(words)
        _, pieces, offsets = reported_extents(name, text)
        assert trustworthy(text, offsets, pieces)

    @pytest.mark.parametrize("lie", [ZeroWidth, Shifted])
    @pytest.mark.parametrize("text", PLAIN[:3])
    @pytest.mark.parametrize("name", TOKENIZERS)
    def test_false_offsets_are_rejected(self, name, text, lie):
        _, pieces, offsets = reported_extents(name, text)
        assert not trustworthy(text, lie(None).lie(text, offsets), pieces)

    @pytest.mark.parametrize("text", ["naïve bread", "é", "soup €3.14", "🙂 joke  "])
    @pytest.mark.parametrize("name", TOKENIZERS)
    def test_offsets_in_bytes_are_rejected(self, name, text):
        _, pieces, offsets = reported_extents(name, text)
        assert not trustworthy(text, InBytes(None).lie(text, offsets), pieces)

    def test_offsets_that_leave_the_text_or_run_backwards_are_rejected(self):
        assert not trustworthy("ab", [(0, 3)], ["ab"])
        assert not trustworthy("ab", [(-1, 2)], ["ab"])
        assert not trustworthy("ab", [(1, 2), (0, 1)], ["b", "a"])
        assert not trustworthy("ab", [(2, 0)], ["ab"])


class TestAlign:
    @pytest.mark.parametrize("name", TOKENIZERS)
    @given(words=st.lists(st.sampled_from(["bread", "wasn't", "café", "3.14", "...", "(the", "The", "\n", " "])))
    def test_finds_what_true_offsets_say(self, name, words):
        """Up to the space that some tokenizers count to a token; tokens of nothing but space stand nowhere."""
        text = " ".join(words)
        ids, pieces, offsets = reported_extents(name, text)
        extents = token_extents(text, ids, Slow(tokenizer_of(name)))
        for piece, aligned, (start, end) in zip(pieces, extents, offsets, strict=True):
            if text[start:end].strip() and piece != "▁":
                assert aligned == trim(text, start, end)

    @given(text=texts, pieces=st.lists(st.one_of(texts, st.sampled_from(["", "[UNK]", "##a", "▁", "\ufffd"]))))
    def test_whatever_the_pieces_extents_are_in_the_text_and_in_order(self, text, pieces):
        extents = align(text, pieces)
        assert len(extents) == len(pieces)
        assert all(0 <= start <= end <= len(text) for start, end in extents)
        assert all(before[0] <= after[0] for before, after in pairwise(extents))

    def test_an_unknown_token_gets_what_lies_between_its_neighbours(self):
        assert align("soup 日本 bread", ["soup", "[UNK]", "bread"]) == [(0, 4), (5, 7), (8, 13)]
        assert align("日本", ["[UNK]", "[UNK]"]) == [(0, 2), (0, 2)]

    @pytest.mark.parametrize("repeats", [1, 500])
    def test_repeats_are_told_apart(self, repeats):
        assert align("the " * repeats, ["the"] * repeats) == [(4 * k, 4 * k + 3) for k in range(repeats)]

    @pytest.mark.parametrize("kind", [ZeroWidth, Shifted, InBytes, Slow])
    @pytest.mark.parametrize("name", TOKENIZERS)
    def test_units_are_the_same_whatever_the_tokenizer_says(self, name, kind):
        for text in PLAIN + (FOREIGN if name in BYTES else []):
            expected = encode(TextInput(text), tokenizer_of(name), "word", 64, 8)
            assert encode(TextInput(text), kind(tokenizer_of(name)), "word", 64, 8) == expected

    @pytest.mark.parametrize("name", BYTES)
    @given(words=st.lists(st.sampled_from(SCRIPTS), min_size=1))
    def test_characters_of_many_bytes_are_found_without_offsets(self, name, words):
        text = " ".join(words)
        expected = encode(TextInput(text), tokenizer_of(name), "word", 64, 8)
        assert encode(TextInput(text), Slow(tokenizer_of(name)), "word", 64, 8) == expected

    @pytest.mark.parametrize("name", TOKENIZERS)
    @given(text=texts)
    def test_any_text_can_be_aligned(self, name, text):
        tokenizer = Slow(tokenizer_of(name))
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        extents = token_extents(text, ids, tokenizer)
        assert len(extents) == len(ids)
        assert all(0 <= start <= end <= len(text) for start, end in extents)
        assert all(before[0] <= after[0] for before, after in pairwise(extents))

    @pytest.mark.parametrize("kind", [ZeroWidth, Shifted, Slow])
    def test_explain_gives_the_same_with_a_tokenizer_that_lies(self, kind):
        module, tokenizer = tiny("bert")
        results = [
            rationales.explain(rationales.load(module, used_tokenizer), PLAIN[0], options={"steps": 3})
            for used_tokenizer in (tokenizer, kind(tokenizer))
        ]
        assert results[0].units == results[1].units
        assert np.array_equal(results[0].scores, results[1].scores)
