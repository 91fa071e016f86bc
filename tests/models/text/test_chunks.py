"""Texts read chunk by chunk have the units and rows that each has when it is read as a whole."""

from __future__ import annotations

import pytest
from families import FAMILIES, tiny
from hypothesis import given
from hypothesis import strategies as st
from strategies import texts

import rationales
from rationales.models.text import chunks
from rationales.models.text.tokens import TextInput, encode

WORDS = [
    "The",
    "plot",
    "wasn't",
    "well-made",
    "...",
    "3.14",
    "a",
    "unbelievably",
    "[",
    "[UNK]",
    "[sep]",
    "##s",
    "x" * 70,
    "e\u0301",
]
ASCII_TEXTS = st.lists(
    st.tuples(st.sampled_from(WORDS) | st.text(st.characters(max_codepoint=127), max_size=6),
              st.sampled_from([" ", " ", "\n", "\t", "", "  \r\n", "\x0b", "\x1c"])), min_size=1, max_size=40,
).map(lambda pieces: "".join(word + space for word, space in pieces))  # fmt: skip
REVIEW = "The acting is fine, but the plot is a mess. " * 60


@pytest.fixture(scope="module")
def model():
    return rationales.load()


def encode_unchunked(model, text):
    return encode(TextInput(text), model.tokenizer, model.unit, model.limit, model.overlap)


def by_chunks(model, texts):
    return model._encode_chunks([TextInput(text) for text in texts])


class TestEqualToWholeTexts:
    @given(written=st.lists(ASCII_TEXTS | texts, min_size=2, max_size=4))
    def test_any_text(self, model, written):
        for text, encoded in zip(written, by_chunks(model, written), strict=True):
            assert encoded is None or encoded == encode_unchunked(model, text)

    @pytest.mark.parametrize("family", sorted(FAMILIES))
    def test_every_family_of_tokenizers(self, family):
        module, tokenizer = tiny(family)
        small = rationales.load(module, tokenizer)
        written = ["The acting is fine, but the plot wasn't.", REVIEW, "Bread [SEP] and \x0bbutter", "naïve café"]
        for text, encoded in zip(written, small.encode([TextInput(text) for text in written]), strict=True):
            assert encoded == encode_unchunked(small, text)

    def test_many_segments(self, model):
        encoded, _ = by_chunks(model, [REVIEW, "short"])
        assert len(encoded.rows) > 1
        assert encoded == encode_unchunked(model, REVIEW)

    def test_after_all_chunks_were_forgotten(self, model, monkeypatch):
        monkeypatch.setattr(chunks, "MAX_CHUNKS", 3)
        for text in ("some words that fill it", "and others that come after", "some words again"):
            encoded, _ = by_chunks(model, [text, text])
            assert encoded == encode_unchunked(model, text)


class TestWhatIsReadAsAWhole:
    @pytest.mark.parametrize("text", ["café", "a\x0bb", "a\x7f b", "a [MASK] b", "y" * 65, " \n"])
    def test_texts_whose_chunks_may_depend_on_their_neighbours(self, model, text):
        assert by_chunks(model, [text, "plain words"])[0] is None

    def test_plain_texts_are_not(self, model):
        assert None not in by_chunks(model, ["It wasn't well-made (at all).", "3.14 or so..."])

    def test_pairs_single_inputs_and_other_units(self, model):
        assert model._encode_chunks([TextInput("a", "b"), TextInput("a")])[0] is None
        assert by_chunks(model, ["alone"]) == [None]
        assert by_chunks(rationales.load(unit="sentence"), ["a", "b"]) == [None, None]

    def test_a_tokenizer_that_looks_beyond_white_space(self):
        byte_pairs = next(name for name in FAMILIES if type(tiny(name)[1].backend_tokenizer.model).__name__ == "BPE")
        assert by_chunks(rationales.load(*tiny(byte_pairs)), ["two words", "three more words"]) == [None, None]


class TestChangedTokenizer:
    def test_added_tokens_count_from_then_on(self):
        changed = rationales.load()
        by_chunks(changed, ["a splendiferous film", "a film"])
        changed.tokenizer.add_tokens(["splendiferous"])
        encoded = changed.encode([TextInput("a splendiferous film"), TextInput("a film")])
        assert encoded[0] == encode_unchunked(changed, "a splendiferous film")

    def test_an_added_token_of_two_words_is_never_cut(self):
        changed = rationales.load()
        changed.tokenizer.add_tokens(["New York"])
        assert by_chunks(changed, ["in New York", "a film"]) == [None, None]
