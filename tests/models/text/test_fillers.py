"""Fillers: which words they propose for masked ones, with which likelihood, whatever their tokenizer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from families import tiny, tokenizer_of
from methods.fillers import dropping_filler, filler_folder, known_filler, language_model, tiny_filler
from reference.marginalization import fill_all_at_once, fill_one_by_one

import rationales
from rationales.errors import OptionError
from rationales.models.text.filling import loading, prediction
from rationales.models.text.filling.filler import Filler
from rationales.models.text.filling.loading import load_filler
from rationales.models.text.filling.whole_words import AT_START, GLUED, SPACED, read_vocabulary
from rationales.models.text.tokens import TextInput

TEXTS = ["nobody laughed at the joke again , but the soup was cold", "dull", "a very very old bridge"]
KINDS = {
    "Bert": ("bert", {}),
    "Roberta": ("roberta", {"type_vocab_size": 1}),
    "XLMRoberta": ("xlm-roberta", {"type_vocab_size": 1}),
    "DistilBert": ("distilbert", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
    "Electra": ("electra", {"embedding_size": 16}),
    "ModernBert": ("modernbert", {"cls_token_id": 0, "sep_token_id": 2, "bos_token_id": 0, "eos_token_id": 2}),
}


def encode(texts, family="bert"):
    model = rationales.load(*tiny(family))
    return model.encode([TextInput(text) for text in texts])


def single_words(encoded):
    """Every word of every text: (J,) texts and (J, 1) words."""
    pairs = [(number, unit) for number, text in enumerate(encoded) for unit in range(len(text.units))]
    return torch.tensor([number for number, _ in pairs]), torch.tensor([[unit] for _, unit in pairs])


@pytest.mark.parametrize("kind", KINDS)
def test_any_architecture_and_tokenizer_gives_its_own_likelihoods(kind):
    """The likeliest words are those of the plain model on the text with its mask token, and so are the likelihoods."""
    family, options = KINDS[kind]
    tokenizer = tokenizer_of(family)
    module, _ = tiny_filler(tokenizer, kind=kind, **options)
    filler = Filler(module, tokenizer, kind)
    text = "I did not like the soup"
    encoded = encode([text])
    inputs, units = single_words(encoded)
    candidates = filler.candidates(filler.read(encoded), inputs, units, count=3)
    vocabulary = filler.vocabulary
    for index, unit in enumerate(encoded[0].units):
        token_row = filler.read(encoded)
        owner = token_row.table.owner[0]
        ids = token_row.table.ids[0]
        first = int(torch.nonzero(owner == index)[0])
        masked = [token for position, token in enumerate(ids.tolist()) if owner[position] != index]
        masked.insert(first, tokenizer.mask_token_id)
        row = torch.tensor([masked])
        with torch.no_grad():
            likelihoods = module(input_ids=row, attention_mask=torch.ones_like(row)).logits[0, first].softmax(-1)
        boundary = AT_START if unit.start == 0 else SPACED
        likelihoods = torch.where(vocabulary.allowed[boundary], likelihoods[: len(vocabulary.words)], 0.0)
        values, tokens = likelihoods.topk(3)
        original_token = int(token_row.token[0, index])
        assert candidates.ids[index, :, 0].tolist() == [
            -1 if token == original_token else token for token in tokens.tolist()
        ]
        assert torch.allclose(candidates.likelihood[index], values, atol=1e-5)


class TestHalfPrecision:
    def test_a_copy_expects_nearly_the_same_words_and_the_filler_stays_as_it_is(self, monkeypatch):
        monkeypatch.setattr(prediction, "forward_dtype", lambda device: torch.bfloat16)
        module, tokenizer = tiny_filler()
        before = {name: value.clone() for name, value in module.state_dict().items()}
        filler = Filler(module, tokenizer, "tiny")
        half = filler.in_half_precision()
        assert {weight.dtype for weight in half.module.parameters()} == {torch.bfloat16}
        assert half.name == filler.name
        assert half.in_half_precision() is half
        encoded = encode(TEXTS)
        inputs, units = single_words(encoded)
        plain, coarse = (f.candidates(f.read(encoded), inputs, units, count=3).likelihood for f in (filler, half))
        assert torch.allclose(plain, coarse, atol=0.05)  # logits of 4 to 8 are rounded to 1/32, hidden states likewise
        assert not torch.equal(plain, coarse)
        after = module.state_dict()
        assert all(torch.equal(value, after[name]) for name, value in before.items())

    def test_a_device_without_it_has_no_copy(self, monkeypatch):
        monkeypatch.setattr(prediction, "forward_dtype", lambda device: None)
        filler = Filler(*tiny_filler(), "tiny")
        assert filler.in_half_precision() is filler


class TestVocabulary:
    def test_whole_words_only(self):
        vocabulary = read_vocabulary(tokenizer_of("bert"))
        tokenizer = tokenizer_of("bert")
        for boundary in (AT_START, SPACED, GLUED):
            allowed = [tokenizer.convert_ids_to_tokens(token) for token in torch.nonzero(vocabulary.allowed[boundary])]
            pieces = [piece[0] if isinstance(piece, list) else piece for piece in allowed]
            assert "a" in pieces
            assert not any(piece.startswith("##") for piece in pieces)
            assert not set(pieces) & set(tokenizer.all_special_tokens)

    def test_words_after_a_space_carry_its_mark_where_tokens_have_one(self):
        tokenizer = tokenizer_of("roberta")
        vocabulary = read_vocabulary(tokenizer)
        after_space, glued = tokenizer.convert_tokens_to_ids(["Ġthe", ","])
        assert vocabulary.allowed[:, after_space].tolist() == [False, True, False]
        assert vocabulary.allowed[:, glued].tolist() == [True, False, True]
        assert vocabulary.words[after_space] == "the"


class TestFilling:
    @pytest.mark.parametrize("one_by_one", [False, True])
    def test_removed_words_equal_the_slow_reference(self, one_by_one):
        module, tokenizer = tiny_filler()
        filler = Filler(module, tokenizer, "tiny")
        encoded = encode(TEXTS)
        generator = np.random.default_rng(0)
        inputs = torch.tensor([0, 0, 0, 1, 2, 2])
        rows = filler.read(encoded)
        removed = torch.from_numpy(generator.random((6, rows.table.units)) < 0.5)
        lengths = torch.tensor([len(encoded[number].units) for number in inputs.tolist()])
        removed &= torch.arange(rows.table.units) < lengths[:, None]
        tokens = filler.likeliest(rows, inputs, removed, one_by_one)
        fill = fill_one_by_one if one_by_one else fill_all_at_once
        for line, number in enumerate(inputs.tolist()):
            words = TEXTS[number].split()
            kept = (~removed[line, : len(words)]).tolist()
            expected = fill(language_model(module, tokenizer), words, kept)
            filled = [
                word if keep else filler.vocabulary.words[token]
                for word, keep, token in zip(words, kept, tokens[line].tolist(), strict=False)
            ]
            assert filled == expected
            assert (tokens[line][~removed[line]] == -1).all()

    def test_how_many_go_together_changes_nothing(self, monkeypatch):
        filler = Filler(*tiny_filler(), "tiny")
        encoded = encode(TEXTS)
        inputs, units = single_words(encoded)
        expected = filler.candidates(filler.read(encoded), inputs, units)
        monkeypatch.setattr(prediction, "EDITS_AT_ONCE", 30)
        monkeypatch.setattr(prediction, "LOGITS_SHARE", 1e-12)
        again = filler.candidates(filler.read(encoded), inputs, units)
        assert torch.equal(again.ids, expected.ids)
        assert torch.allclose(again.likelihood, expected.likelihood, atol=1e-6)

    def test_logits_at_masks_alone_equal_those_of_a_model_without_a_known_last_layer(self):
        module, tokenizer = tiny_filler()
        encoded = encode(TEXTS)
        inputs, units = single_words(encoded)
        plain = Filler(module, tokenizer, "tiny")
        expected = plain.candidates(plain.read(encoded), inputs, units)
        module.get_output_embeddings = lambda: None
        hidden = plain.candidates(plain.read(encoded), inputs, units)
        assert torch.equal(hidden.ids, expected.ids)
        assert torch.allclose(hidden.likelihood, expected.likelihood, atol=1e-6)

    def test_normalised_weights_sum_to_1(self):
        filler = Filler(*known_filler({0: {"dull": 0.3, "old": 0.1}}), "known")
        candidates = filler.candidates(filler.read(encode(["dull"])), torch.tensor([0]), torch.tensor([[0]]))
        assert candidates.likelihood[0, :2].tolist() == pytest.approx([0.3, 0.1])
        assert candidates.weights[0, :2].tolist() == pytest.approx([0.75, 0.25])
        assert candidates.ids[0, 0, 0] == -1  # the word itself
        assert filler.vocabulary.words[int(candidates.ids[0, 1, 0])] == "old"
        assert not candidates.weights[0, 2:].any()

    def test_words_of_a_long_text_are_read_where_they_have_the_most_context(self):
        filler = Filler(*tiny_filler(max_position_embeddings=16), "tiny")
        rows = filler.read(encode(["the soup was very cold again , but nobody laughed at the old joke all day"]))
        assert len(rows.input) > 1
        for unit in range(rows.table.units):
            row = int(rows.home[0, unit])
            (positions,) = torch.nonzero(rows.table.owner[row] == unit, as_tuple=True)
            assert len(positions) == 1


class TestLoading:
    def test_a_folder_is_loaded_once_until_its_files_change(self, tmp_path):
        first = load_filler(filler_folder())
        assert load_filler(filler_folder()) is first
        module, tokenizer = tiny_filler(seed=1)
        module.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        before = load_filler(tmp_path)
        tiny_filler(seed=2)[0].save_pretrained(tmp_path)
        assert load_filler(tmp_path) is not before

    def test_names_of_a_catalogue(self, monkeypatch):
        """The catalogue names fillers and opens them; the first is the default of methods."""

        class Catalogue:
            FILLERS = ("ours", "tuned")
            filler_location = staticmethod(lambda name: f"zoo/{name}")

            @staticmethod
            def load_filler(name):
                assert name in Catalogue.FILLERS
                return tiny_filler(seed=Catalogue.FILLERS.index(name))

        monkeypatch.setattr(loading, "_catalogue", lambda: Catalogue)
        loading._opened.cache_clear()
        assert load_filler("tuned").name == "tuned"
        assert loading.required_filler("", "a method", torch.device("cpu")).name == "ours"
        loading._opened.cache_clear()

    def test_what_is_no_pair_of_module_and_tokenizer(self):
        with pytest.raises(OptionError, match="a masked language model is"):
            load_filler((1, 2))
        with pytest.raises(OptionError, match="a masked language model is"):
            load_filler((tiny_filler()[0],))

    def test_a_copy_of_options_copies_no_weights(self):
        import copy

        filler = Filler(*tiny_filler(), "tiny")
        assert copy.deepcopy(filler) is filler
        assert str(filler) == "tiny"


def test_short_texts_are_filled_in_beside_a_long_one_that_comes_first(monkeypatch):
    """Rows of one group have different numbers of masks; the places that a row lacks lie inside of it."""
    filler = Filler(*tiny_filler(), "tiny")
    monkeypatch.setattr(prediction, "token_budget", lambda *_: 16)  # the long text goes alone
    texts = ["the soup was cold and the bread was old , but nobody laughed at the bridge", "a dull joke", "good day"]
    encoded = encode(texts)
    kept = [np.ones(len(item.units), dtype=bool) for item in encoded]
    kept[0][-1] = kept[1][0] = kept[1][2] = kept[2][0] = False
    together = filler.fill(encoded, kept)
    alone = [filler.fill([item], [marks])[0] for item, marks in zip(encoded, kept, strict=True)]
    assert [source.text for source in together] == [source.text for source in alone]


def test_texts_that_were_read_before_are_filled_in_the_same_way():
    filler = Filler(*tiny_filler(), "tiny")
    encoded = encode(["the soup was cold", "a dull joke", "the bridge was old , but nobody laughed"])
    fillable = filler.fillable(encoded)
    assert fillable.units_are_words == [True, True, True]
    for selected in ([0, 1, 2], [2, 0], [1, 1]):
        inputs = [encoded[number] for number in selected]
        kept = [np.arange(len(item.units)) != position for position, item in enumerate(inputs)]
        assert filler.fill(inputs, kept, fillable) == filler.fill(inputs, kept)


def test_units_that_are_no_words_are_matched_by_their_characters():
    """A token-wise classifier: removing one piece of a word replaces the whole word."""
    module, tokenizer = tiny_filler()
    filler = Filler(module, tokenizer, "tiny")
    (words,) = encode(["the soup was cold"])
    units = tuple(unit._replace(end=unit.start + 2, text=unit.text[:2]) for unit in words.units)
    pieces = replace(words, units=units)
    fillable = filler.fillable([pieces])
    assert fillable.units_are_words == [False]
    kept = np.array([True, False, True, True])
    assert filler.fill([pieces], [kept], fillable) == filler.fill([words], [kept])


class TestDroppedWords:
    """The filler's normaliser removes the symbols, so that there is nothing to mask."""

    filler = Filler(*dropping_filler("☀", "☂"), "tiny")

    def filled(self, text, kept):
        (encoded,) = rationales.load(*tiny("roberta")).encode(
            [TextInput(*text) if isinstance(text, tuple) else TextInput(text)]
        )
        return self.filler.fill([encoded], [np.array(kept)])[0]

    def test_a_text_that_is_dropped_completely_is_deleted_word_by_word(self):
        assert self.filled("☀ ☂", [True, True]).text == "☀ ☂"
        assert self.filled("☀ ☂", [False, True]).text == "☂"
        assert self.filled("☀", [False]).text == ""

    def test_of_a_pair_one_text_is_deleted_and_the_other_filled_in(self):
        alone = self.filled("the soup", [True, False]).text.split()
        both = self.filled(("the soup", "☀"), [True, False, False])
        assert both.pair == ""
        assert both.text.split()[0] == "the"
        assert len(both.text.split()) == len(alone) == 2
        assert self.filled(("☀", "the soup"), [False, True, True]) == TextInput("", "the soup")

    def test_a_dropped_word_is_filled_in_with_the_word_before_it_and_the_first_with_the_word_after_it(self):
        text = self.filled("the soup ☀ was cold", [True, False, True, True, True]).text.split()
        assert (text[0], text[2:]) == ("the", ["was", "cold"])
        assert self.filled("the soup ☀ was cold", [True, True, False, True, True]).text.split() == text
        text = self.filled("☀ the soup", [False, True, True]).text.split()
        assert len(text) == 2
        assert text[1] == "soup"
        assert self.filled("☀ the soup", [True, False, True]).text.split() == text
