"""Words taken out of a text: replaced, deleted, written anew, filled in."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from families import tiny, tokenizer_of
from methods.keyword import keyword_model
from torch import nn

import rationales
from rationales.errors import ModelError, OptionError
from rationales.evaluation.faithfulness.measure import measure_faithfulness
from rationales.evaluation.faithfulness.removal import with_removal_baseline, with_special
from rationales.evaluation.faithfulness.rewriting import plain_rows
from rationales.evaluation.protocols import Protocol
from rationales.models.text.filling.filler import Filler
from rationales.models.text.filling.loading import load_filler
from rationales.models.text.text_sources import rewrite
from rationales.models.text.tokens import TextInput

TEXT = "I did not like the soup, but the bread wasn't bad at all!"
HALF = Protocol(levels=(0.5,), label="gold")


def model_of(family="bert"):
    return rationales.load(*tiny(family))


def encode_text(model, text=TEXT):
    return model.encode([model.read(text, None)])[0]


def kept(encoded, *words):
    return np.array([unit.text in words for unit in encoded.units])


class TestRewriting:
    def test_neighbours_stay_as_they_were_and_gaps_close(self):
        encoded = encode_text(model_of())
        assert rewrite(encoded, kept(encoded, "not", "like", "soup", ",", "but")).text == "not like soup, but"
        assert (
            rewrite(encoded, ~kept(encoded, "not", "soup", "!")).text
            == "I did like the , but the bread wasn't bad at all"
        )
        assert rewrite(encoded, kept(encoded, "all", "!")).text == "all!"
        assert rewrite(encoded, kept(encoded)).text == ""
        assert rewrite(encoded, ~kept(encoded)).text == TEXT

    def test_parts_stay_apart(self):
        encoded = encode_text(model_of(), ("the soup", "no bread"))
        assert rewrite(encoded, kept(encoded, "soup", "no")) == TextInput("soup", "no")
        assert rewrite(encoded, kept(encoded, "the")) == TextInput("the", "")

    def test_other_words_instead(self):
        encoded = encode_text(model_of(), "not a bad soup")
        assert rewrite(encoded, np.array([True, True, False, True]), {2: "good"}).text == "not a good soup"

    @pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "llama", "mistral"])
    def test_texts_are_tokenised_as_the_model_would(self, family):
        model = model_of(family)
        texts = [TextInput(TEXT), TextInput("soup"), TextInput(TEXT * 4)]
        for rows, text in zip(plain_rows(model, texts, bare=False), texts, strict=True):
            assert [row.ids for row in rows] == [row.ids for row in model.encode([text])[0].rows]
            assert [row.types for row in rows] == [row.types for row in model.encode([text])[0].rows]

    def test_an_empty_text_is_its_special_tokens(self):
        model = model_of()
        begin, end = model.tokenizer.cls_token_id, model.tokenizer.sep_token_id
        assert plain_rows(model, [TextInput("")], bare=False)[0][0].ids == [begin, end]
        assert plain_rows(model, [TextInput("", "")], bare=False)[0][0].ids == [begin, end, end]
        gpt = model_of("gpt2")
        assert plain_rows(gpt, [TextInput("")], bare=False)[0][0].ids == [gpt.filler]
        assert plain_rows(model, [], bare=False) == []

    def test_one_half_of_a_long_pair_may_be_gone(self):
        model = model_of()
        (rows,) = plain_rows(model, [TextInput("", TEXT * 5)], bare=False)
        assert len(rows) > 1


class TestReplacing:
    def test_the_wanted_token_takes_the_place(self):
        model = model_of()
        weight = model.networks[0].embedding.weight
        for name in ("pad", "mask", "unk"):
            replaced = with_removal_baseline(model, name)
            assert torch.equal(replaced.networks[0].baseline, weight[getattr(model.tokenizer, f"{name}_token_id")])
            assert replaced.baseline == name
        assert not with_removal_baseline(model, "zero").networks[0].baseline.any()
        assert with_removal_baseline(model, "reference").baseline == "mask"
        assert with_removal_baseline(model_of("llama"), "reference").baseline == "unk"
        assert with_removal_baseline(model, "baseline") is model
        assert model.baseline == "pad"

    def test_removals_differ(self):
        model = model_of()
        scores = [np.arange(float(len(encode_text(model).units)))]
        names = ("pad", "mask", "unk", "zero", "mean", "delete")
        curves = {
            name: measure_faithfulness(model, [TEXT], scores, [1], replace(HALF, removal=name)).comprehensiveness()[0]
            for name in names
        }
        assert len({round(value, 6) for value in curves.values()}) == len(names)

    def test_log_odds_may_remove_otherwise(self):
        model = model_of()
        scores = [np.arange(float(len(encode_text(model).units)))]
        protocol = Protocol(levels=(0.2, 0.5), removal="delete", odds_removal="mask", odds_level=0.2, label="gold")
        curves = measure_faithfulness(model, [TEXT], scores, [1], protocol)
        masked = measure_faithfulness(model, [TEXT], scores, [1], replace(protocol, removal="mask", odds_removal=None))
        assert curves.log_odds() == pytest.approx(masked.log_odds(), abs=1e-5)
        assert curves.comprehensiveness() != pytest.approx(masked.comprehensiveness(), abs=1e-5)
        both = measure_faithfulness(model, [TEXT], scores, [1], replace(protocol, odds_level=None))
        every = measure_faithfulness(model, [TEXT], scores, [1], replace(protocol, removal="mask", odds_level=None))
        assert both.log_odds() == pytest.approx(every.log_odds(), abs=1e-5)

    def test_special_tokens_can_be_removed_too(self):
        """With every word and every special token replaced by PAD, the model reads nothing but PAD."""
        model = model_of()
        encoded = encode_text(model, "the bread")
        curves = measure_faithfulness(
            model, ["the bread"], [np.array([1.0, 0.0])], [1], replace(HALF, removal="pad", special="remove")
        )
        ids = torch.full((1, len(encoded.rows[0].ids)), model.tokenizer.pad_token_id)
        with torch.no_grad():
            plain = (
                model.networks[0].module(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.softmax(-1)[0, 1]
            )
            kept_probability = torch.tensor([encoded.rows[0].ids])
            first = torch.where(torch.tensor([[owner == 0 for owner in encoded.rows[0].owner]]), kept_probability, ids)
            half = (
                model.networks[0].module(input_ids=first, attention_mask=torch.ones_like(ids)).logits.softmax(-1)[0, 1]
            )
        assert curves.empty[0, 0] == pytest.approx(float(plain), abs=1e-6)
        assert curves.kept[0, 0, 0] == pytest.approx(float(half), abs=1e-6)
        usual = measure_faithfulness(model, ["the bread"], [np.array([1.0, 0.0])], [1], replace(HALF, removal="pad"))
        assert curves.full == pytest.approx(usual.full, abs=1e-6)
        assert curves.empty != pytest.approx(usual.empty, abs=1e-6)

    def test_special_tokens_as_one_more_unit(self):
        encoded = encode_text(model_of(), TEXT * 5)
        extended = with_special(encoded)
        assert len(extended.units) == len(encoded.units) + 1
        for row, before in zip(extended.rows, encoded.rows, strict=True):
            assert row.units[-1] == len(encoded.units)
            assert [owner if owner < len(before.units) else -1 for owner in row.owner] == before.owner


class TestDeleting:
    def test_writing_anew_equals_reading_the_shorter_text(self):
        model = model_of()
        encoded = encode_text(model)
        scores = np.array(
            [float(unit.text in ("not", "like", "soup", "bread", "bad", "all", "!")) for unit in encoded.units]
        )
        curves = measure_faithfulness(
            model, [TEXT], [scores], [1], replace(HALF, removal="delete", retokenise=True, count="floor")
        )
        for expected, text in (
            (curves.kept, "not like soup bread bad all!"),
            (curves.removed, "I did the , but the wasn't at"),
        ):
            probabilities = model.tokenizer(text, return_tensors="pt")
            with torch.no_grad():
                plain = model.networks[0].module(**probabilities).logits.softmax(-1)[0, 1]
            assert expected[0, 0, 0] == pytest.approx(float(plain), abs=1e-6)

    def test_bare_deletion_leaves_no_special_tokens(self):
        model = model_of()
        curves = measure_faithfulness(
            model, ["the bread"], [np.array([1.0, 0.0])], [1], replace(HALF, removal="delete", special="remove")
        )
        ids = torch.tensor([model.tokenizer("the", add_special_tokens=False)["input_ids"]])
        with torch.no_grad():
            plain = (
                model.networks[0].module(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.softmax(-1)[0, 1]
            )
        assert curves.kept[0, 0, 0] == pytest.approx(float(plain), abs=1e-6)
        anew = replace(HALF, removal="delete", special="remove", retokenise=True)
        again = measure_faithfulness(model, ["the bread"], [np.array([1.0, 0.0])], [1], anew)
        assert again.kept == pytest.approx(curves.kept, abs=1e-6)

    def test_pictures_have_no_words_to_delete(self):
        with pytest.raises(OptionError, match="removes words"):
            measure_faithfulness(SimpleNamespace(kind="image"), [1], [np.ones(1)], [0], replace(HALF, removal="delete"))


class Guess(nn.Module):
    """A masked language model that puts the same word everywhere; the special token that it likes better is not it."""

    def __init__(self, word: str) -> None:
        super().__init__()
        tokenizer = tokenizer_of("bert")
        (self.token,) = tokenizer(word, add_special_tokens=False)["input_ids"]
        self.weight = nn.Parameter(torch.zeros(1))
        self.size = len(tokenizer)
        self.seen: list[torch.Tensor] = []
        self.config = SimpleNamespace(max_position_embeddings=16)

    def forward(self, input_ids, attention_mask, token_type_ids):
        self.seen.append(input_ids)
        logits = torch.zeros(*input_ids.shape, self.size)
        logits[..., self.token], logits[..., 2] = 5.0, 9.0
        return SimpleNamespace(logits=logits)


class TestFilling:
    def test_removed_words_become_the_likeliest(self):
        model = model_of()
        guess = Guess("a")
        encoded = encode_text(model, "the bread was not bad")
        filled = Filler(guess, model.tokenizer, "guess").fill(
            [encoded, encoded], [kept(encoded, "the", "not"), ~kept(encoded)]
        )
        pieces = [len(model.tokenizer(word, add_special_tokens=False)["input_ids"]) for word in ("bread", "was", "bad")]
        words = [model.tokenizer.decode([guess.token] * count).strip() for count in pieces]
        assert filled[0].text == f"the {words[0]} {words[1]} not {words[2]}"
        assert filled[1].text == "the bread was not bad"
        mask = model.tokenizer.mask_token_id
        assert sum(int((ids == mask).sum()) for ids in guess.seen) == sum(pieces)  # all at once, nothing else hidden

    def test_long_texts_go_in_segments(self):
        model = model_of()
        encoded = encode_text(model, "soup bread " * 20)
        (filled,) = Filler(Guess("a"), model.tokenizer, "guess").fill([encoded], [kept(encoded, "soup")])
        assert filled.text.split()[::2] == ["soup"] * 20

    def test_another_tokenizer_will_do(self):
        model = model_of("roberta")
        encoded = encode_text(model, "the bread, bad")
        (filled,) = Filler(Guess("a"), tokenizer_of("bert"), "guess").fill(
            [encoded], [kept(encoded, "the", ",", "bad")]
        )
        assert filled.text.startswith("the a")
        assert filled.text.endswith(", bad")

    def test_a_metric_with_a_known_answer(self):
        """A model that looks for "bread", and a filler that always says it: removing bread changes nothing."""
        module, tokenizer = keyword_model("a")
        model = rationales.load(module, tokenizer)
        protocol = replace(HALF, removal="fill")
        scores = [np.array([0.0, 1.0, 0.0, 0.0])]
        always = measure_faithfulness(
            model, ["eat a warm soup"], scores, ["found"], protocol, filler=(Guess("a"), tokenizer)
        )
        never = measure_faithfulness(
            model, ["eat a warm soup"], scores, ["found"], protocol, filler=(Guess("i"), tokenizer)
        )
        assert always.removed[0, 0, 0] > 0.9
        assert never.removed[0, 0, 0] < 0.1
        assert always.full == pytest.approx(never.full)

    def test_a_real_architecture(self, tmp_path):
        tokenizer = tokenizer_of("bert")
        config = transformers.BertConfig(
            vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
            max_position_embeddings=64,
        )  # fmt: skip
        language = transformers.BertForMaskedLM(config)
        language.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        model = model_of()
        scores = [np.arange(float(len(encode_text(model).units)))]
        protocol = replace(HALF, removal="fill", filler=str(tmp_path))
        curves = measure_faithfulness(model, [TEXT], scores, [1], protocol)
        again = measure_faithfulness(model, [TEXT], scores, [1], protocol, filler=(language, tokenizer))
        assert curves.removed == pytest.approx(again.removed, abs=1e-6)
        assert all(weight.requires_grad for weight in language.parameters())

    def test_what_is_no_masked_language_model_is_told(self, tmp_path):
        with pytest.raises(OptionError, match="an id, a folder or"):
            load_filler(3)
        with pytest.raises(ModelError, match=r"holds no config\.json"):
            load_filler(tmp_path)
        with pytest.raises(ModelError, match="no mask token"):
            Filler(Guess("a"), tokenizer_of("gpt2"), "guess")
        module, tokenizer = tiny("bert")
        module.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        with pytest.raises(ModelError, match="no masked language model: it lacks the weights"):
            load_filler(tmp_path)
        assert load_filler(None) is None
