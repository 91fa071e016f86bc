"""The embedded model's light tokenizer against Hugging Face's: encodings, tokens, decoding, and what is passed on."""

import copy
from importlib.resources import files

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

import rationales
from rationales.models.text.bert import LightTokenizer

FOLDER = files(rationales) / "models" / "embedded"
TEXTS = [
    "The acting is fine, but the plot is a mess.",
    "",
    " \t\n ",
    "[CLS] a text [SEP] that [MASK] names [PAD] special [UNK] tokens [cls] ##ing",
    "Na\u00efve caf\u00e9, e\u0301clair, \u0130stanbul, Stra\u00dfe",
    "\ufb01ne \u00bd \u2122 \u00ab\u2026\u00bb \u2014 \u2019tis",
    "\u65e5\u672c\u8a9e\u306e\u6620\u753b \ud55c\uad6d\uc5b4",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0939\u093f\u0928\u094d\u0926\u0940",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f642\U0001f3fd \u200b\u00ad\ufeff\u202e\x00\x07\ufffd",
    "supercalifragilisticexpialidocious" * 12,
    "a" * 300,
    "A long text that does not fit the model, and goes on. " * 80,
]
FLAGS = [
    {},
    {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False},
    {"return_special_tokens_mask": True, "verbose": False},
    {"return_offsets_mapping": True, "return_special_tokens_mask": True, "return_attention_mask": False},
    {"return_token_type_ids": True, "return_offsets_mapping": False},
]
ANY_TEXT = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" .,'a\u0301[]#"))) | st.lists(
    st.sampled_from(["[SEP]", "not", "##s", "Good", "\u00e9", "[", "\U0001f642", "unbelievably"])
).map(" ".join)


LIGHT = LightTokenizer(FOLDER)  # of tests that load nothing more
FULL = transformers.AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture
def light():
    return LightTokenizer(FOLDER)


def assert_same(light, *texts, **flags):
    encoding, expected = light(*texts, **flags), FULL(*texts, **flags)
    assert list(encoding) == list(expected)
    assert encoding == dict(expected)


def is_light(tokenizer):
    return "_full" not in vars(tokenizer)


class TestTheSameAsTransformers:
    @pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: " ".join(flags) or "defaults")
    def test_encodings_of_texts_pairs_and_lists(self, light, flags):
        for text in TEXTS:
            assert_same(light, text, **flags)
            assert_same(light, text, TEXTS[0], **flags)
            assert_same(light, TEXTS[0], text, **flags)
        assert_same(light, TEXTS, **flags)
        assert_same(light, TEXTS[:1], **flags)
        assert_same(light, TEXTS, TEXTS[::-1], **flags)
        assert is_light(light)

    @given(ANY_TEXT, ANY_TEXT)
    def test_encodings_tokens_and_decoding_of_any_texts(self, text, pair):
        for texts in ([text], [text, pair], [[text, pair]], [[text, pair], [pair, text]]):
            assert_same(LIGHT, *texts, **FLAGS[3])
        ids = LIGHT(text)["input_ids"]
        assert LIGHT.convert_ids_to_tokens(ids) == FULL.convert_ids_to_tokens(ids)
        spelling = LIGHT.decode(ids, clean_up_tokenization_spaces=False)
        assert spelling == FULL.decode(ids, clean_up_tokenization_spaces=False)
        assert is_light(LIGHT)

    def test_vocabulary_special_tokens_and_limit(self, light):
        assert light.get_vocab() == FULL.get_vocab()
        assert len(light) == len(FULL)
        for name in ("pad", "unk", "cls", "sep", "mask"):
            assert getattr(light, f"{name}_token") == getattr(FULL, f"{name}_token")
            assert getattr(light, f"{name}_token_id") == getattr(FULL, f"{name}_token_id")
        assert (light.model_max_length, light.is_fast) == (FULL.model_max_length, FULL.is_fast)
        assert is_light(light)

    @pytest.mark.parametrize("bad", [None, 3, ["a", 3], [["a"], 3]], ids=str)
    def test_errors(self, light, bad):
        errors = []
        for tokenizer in (light, FULL):
            with pytest.raises(Exception) as raised:  # noqa: PT011  # whatever transformers raises
                tokenizer(bad)
            errors.append((raised.type, str(raised.value)))
        assert errors[0] == errors[1]


class TestWhatIsPassedOn:
    @pytest.mark.parametrize(
        "flags",
        [
            {"padding": True, "return_tensors": "pt"},
            {"truncation": True, "max_length": 7},
            {"truncation": True, "max_length": 9, "stride": 3, "return_overflowing_tokens": True},
            {"return_attention_mask": None},
            {"return_length": True},
        ],
        ids=lambda flags: " ".join(flags),
    )
    def test_calls_with_other_options(self, light, flags):
        expected = FULL(TEXTS[:4], **flags)
        for name, values in light(TEXTS[:4], **flags).items():
            assert torch.equal(values, expected[name]) if isinstance(values, torch.Tensor) else values == expected[name]

    def test_padding_and_truncation_end_with_the_call(self, light):
        light(TEXTS[:2], padding="max_length", truncation=True, max_length=12)
        assert_same(light, TEXTS, **FLAGS[3])

    def test_lists_of_words(self, light):
        words = TEXTS[0].split()
        assert light([words], is_split_into_words=True) == FULL([words], is_split_into_words=True)

    def test_other_methods_and_attributes(self, light):
        assert light.all_special_ids == FULL.all_special_ids
        assert light.tokenize("unbelievably") == FULL.tokenize("unbelievably")
        assert light.decode(torch.tensor([7, 8])) == FULL.decode([7, 8])
        assert light.convert_ids_to_tokens(7) == FULL.convert_ids_to_tokens(7)
        with pytest.raises(AttributeError):
            light.no_such_attribute  # noqa: B018  # the access is what is tested

    def test_a_token_that_is_added_is_known_to_all(self, light):
        light.add_tokens(["splendiferous"])
        (token,) = light("splendiferous", add_special_tokens=False)["input_ids"]
        assert token == len(FULL) == len(light) - 1
        assert light.get_vocab()["splendiferous"] == token
        assert light.convert_ids_to_tokens([token]) == ["splendiferous"]

    def test_saving(self, light, tmp_path):
        light.save_pretrained(tmp_path)
        saved = transformers.AutoTokenizer.from_pretrained(tmp_path)
        assert saved(TEXTS)["input_ids"] == light(TEXTS)["input_ids"]


class TestObject:
    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
    def test_copies_encode_the_same(self, light, duplicate):
        twin = duplicate(light)
        assert twin(TEXTS) == light(TEXTS)
        assert is_light(twin)

    def test_an_encoding_has_its_lists_as_attributes(self, light):
        encoding = light(TEXTS[0])
        assert encoding.input_ids == encoding["input_ids"]
        with pytest.raises(AttributeError, match="the encoding has no offset_mapping; it has: input_ids"):
            encoding.offset_mapping  # noqa: B018  # the access is what is tested
