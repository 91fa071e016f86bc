"""The attribution network: the literal equation, other tokenizers, windows, backbones."""

from __future__ import annotations

import pytest
import torch
from families import tiny, tokenizer_of
from methods.aml_maskers import tiny_backbone, untrained_aml_masker
from methods.maskers import text_batch
from reference import aml as reference

import rationales
from rationales.errors import ModelError, OptionError
from rationales.masks.instant.aml.backbone import make_backbone
from rationales.masks.instant.aml.unit_alignment import read_windows
from rationales.models.text.tokens import TextInput

TEXT = "I did not like the soup, but the bread wasn't bad at all!"
LONG = "Every morning the baker carried twelve loaves up the hill; " * 6


@pytest.fixture
def model():
    return rationales.load(*tiny("bert"))


def test_a_map_is_that_of_the_literal_equation():
    module, tokenizer = tiny("bert")
    model = rationales.load(module, tokenizer, unit="token")
    masker = untrained_aml_masker(model, "own")
    with model.frozen(), torch.no_grad():
        batch = text_batch(model, [TEXT, LONG])
        probabilities = batch.predict()
        maps = masker.attributions(batch, probabilities.argmax(-1))
        expected = reference.attribution_map(masker.network, tokenizer(TEXT)["input_ids"], probabilities[0])
    assert maps[0, : len(expected) - 2].tolist() == pytest.approx(expected[1:-1], abs=1e-5)  # without [CLS] and [SEP]


def test_the_map_depends_on_the_prediction(model):
    masker = untrained_aml_masker(model)
    with model.frozen():
        batch = text_batch(model, [TEXT])
        maps = [masker.attributions(batch, torch.tensor([label])) for label in range(3)]
    assert not torch.allclose(maps[0], maps[1], atol=1e-4)
    assert not torch.allclose(maps[1], maps[2], atol=1e-4)


class TestAlignment:
    def windows(self, model, family, text=TEXT, limit=60):
        encoded = model.encode([TextInput(text)])
        return encoded[0].units, read_windows(encoded, tokenizer_of(family), limit, torch.device("cpu"))

    @pytest.mark.parametrize("family", ["bert", "roberta", "albert", "gpt2"])
    def test_tokens_go_to_the_words_whose_characters_they_have(self, model, family):
        units, rows = self.windows(model, family)
        tokenizer = tokenizer_of(family)
        for number, unit in enumerate(units):
            tokens = rows.ids[0, rows.pair_token[rows.pair_unit == number]].tolist()
            spelled = tokenizer.decode(tokens).replace(" ", "").lower()
            assert unit.text.lower() in spelled or spelled in unit.text.lower()
            assert spelled

    def test_several_tokens_give_their_mean_or_maximum(self, model):
        units, rows = self.windows(model, "roberta")
        values = torch.arange(rows.ids.shape[1] + 1, dtype=torch.float32)[None]
        for number in range(len(units)):
            tokens = rows.pair_token[rows.pair_unit == number].float()
            assert rows.to_units(values, "mean")[0, number] == pytest.approx(tokens.mean().item())
            assert rows.to_units(values, "max")[0, number] == tokens.max()

    def test_a_token_across_words_counts_for_each(self):
        """Units are tokens of WordPiece, of which one token of the other tokenizer covers several."""
        model = rationales.load(*tiny("bert"), unit="token")
        units, rows = self.windows(model, "roberta", "the the the the")
        assert set(rows.pair_unit.tolist()) == set(range(len(units)))

    def test_a_constant_stays_constant_over_overlapping_windows(self, model):
        units, rows = self.windows(model, "roberta", LONG, limit=24)
        assert len(rows.ids) > 3
        for merge in ("mean", "max"):
            maps = rows.to_units(torch.full(rows.ids.shape, 0.25), merge)
            assert torch.allclose(maps, torch.full((1, len(units)), 0.25))

    def test_taken_alone_a_text_has_the_windows_it_has_among_others(self, model):
        encoded = model.encode([TextInput(text) for text in (LONG, TEXT, "Dull.")])
        together = read_windows(encoded, tokenizer_of("roberta"), 24, torch.device("cpu")).take([1, 2])
        alone = read_windows(encoded[1:], tokenizer_of("roberta"), 24, torch.device("cpu"))
        values = torch.rand(alone.ids.shape, generator=torch.Generator().manual_seed(0))
        assert torch.equal(together.ids, alone.ids)
        assert torch.equal(together.to_units(values, "mean"), alone.to_units(values, "mean"))


class TestBackbones:
    @pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "albert"])
    def test_an_encoder_can_be_its_own(self, family):
        model = rationales.load(*tiny(family))
        masker = untrained_aml_masker(model, "own")
        with model.frozen():
            batch = text_batch(model, [TEXT, "Dull.", LONG])
            maps = masker.attributions(batch, torch.tensor([0, 1, 2]))
            alone = masker.attributions(batch.take([1]), torch.tensor([1]))
        assert ((maps >= 0) & (maps <= 1)).all()
        assert torch.allclose(maps[1, : alone.shape[1]], alone[0], atol=1e-5)

    def test_the_embedded_model_can_be_its_own(self):
        model = rationales.load("embedded")
        masker = untrained_aml_masker(model, "own")
        with model.frozen():
            batch = text_batch(model, [TEXT])
            assert masker.attributions(batch, torch.tensor([0])).std() > 0

    def test_its_first_layers_are_used_alone(self, model):
        full, first = make_backbone("own", model), make_backbone("own", model, layers=1)
        assert len(first.encoder.encoder.layer) == 1
        for name, weight in first.encoder.state_dict().items():
            assert torch.equal(weight, full.encoder.state_dict()[name])

    def test_another_tokenizer_is_mapped(self, model):
        masker = untrained_aml_masker(model, tiny("roberta"))
        with model.frozen():
            batch = text_batch(model, [TEXT])
            assert masker.attributions(batch, torch.tensor([0])).shape == (1, int(batch.rows.real.sum()))
        assert not masker.backbone.shares_tokenizer

    def test_a_decoder_is_refused(self):
        model = rationales.load(*tiny("gpt2"))
        with pytest.raises(ModelError, match=r"do not read later ones.*use an encoder.*small"):
            make_backbone("own", model)

    def test_a_model_without_an_encoder_says_what_to_give(self):
        from methods.keyword import keyword_model

        model = rationales.load(*keyword_model("bridge"))
        with pytest.raises(OptionError, match=r"no Hugging Face classifier.*another backbone.*small"):
            make_backbone("own", model)
        assert make_backbone(tiny_backbone(), model).limit == 127
