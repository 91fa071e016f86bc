"""The losses of AML: golden values, the literal equations, and what each variant changes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from families import tiny
from methods.fillers import filler_folder
from methods.maskers import text_batch
from reference import aml as reference

import rationales
from rationales.errors import OptionError
from rationales.masks.instant.aml.losses import (
    LogPredictions,
    attribution_loss,
    encode_prediction,
    inverse_loss,
    prediction_loss,
    total_loss,
)
from rationales.masks.instant.aml.masking import MapProblem, Replacement
from rationales.masks.instant.aml.settings import AmlLosses

TEXTS = ["Dull.", "I did not like the soup, but the bread wasn't bad at all!"]


def predictions(*rows, target):
    p = torch.tensor(rows, dtype=torch.float64)
    return LogPredictions(p.log(), (1 - p[range(len(rows)), target]).log())


class TestGoldenValues:
    def test_prediction_loss_is_a_cross_entropy(self):
        masked = predictions([0.5, 0.25, 0.25], target=[0])
        loss = prediction_loss(masked, torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64))
        assert loss.item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(4))

    def test_inverse_losses(self):
        inverse, target = predictions([0.75, 0.25], target=[0]), torch.tensor([0])
        assert inverse_loss(inverse, target, "log").item() == pytest.approx(math.log(4))  # -log(1/4)
        assert inverse_loss(inverse, target, "probability").item() == pytest.approx(0.75)
        entropy = 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
        assert inverse_loss(inverse, target, "entropy").item() == pytest.approx(-entropy)

    def test_attribution_losses_leave_out_padding(self):
        attribution, real = torch.tensor([[0.5, 0.75, 0.9]]), torch.tensor([[1.0, 1.0, 0.0]])
        assert attribution_loss(attribution, real, "log").item() == pytest.approx((math.log(2) + math.log(4)) / 2)
        assert attribution_loss(attribution, real, "l1").item() == pytest.approx(0.625)

    def test_the_total_weighs_the_three(self):
        masked, inverse = predictions([0.5, 0.5], target=[0]), predictions([0.75, 0.25], target=[0])
        settings = AmlLosses(prediction_weight=1.0, attribution_weight=10.0, inverse_weight=100.0)
        attribution, y = torch.tensor([[0.5]], dtype=torch.float64), torch.tensor([[1.0, 0.0]], dtype=torch.float64)
        total = total_loss(masked, inverse, attribution, torch.ones_like(attribution), y, torch.tensor([0]), settings)
        assert total.item() == pytest.approx(math.log(2) + 10 * math.log(2) + 100 * math.log(4))

    def test_the_target_is_soft_or_one_hot_and_one_hot_for_another_class(self):
        probabilities, target = torch.tensor([[0.75, 0.25], [0.75, 0.25]]), torch.tensor([0, 1])
        assert encode_prediction(probabilities, target, "soft").tolist() == [[0.75, 0.25], [0.0, 1.0]]
        assert encode_prediction(probabilities, target, "one-hot").tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_losses_of_a_text_are_the_literal_equations():
    """Blend, two forward passes and three terms, against loops over the tokens of one text."""
    module, tokenizer = tiny("bert")
    model = rationales.load(module, tokenizer, unit="token")
    embedding = module.get_input_embeddings().weight
    with model.frozen(), torch.no_grad():
        batch = text_batch(model, TEXTS[1:])
        probabilities = batch.predict()
        units = int(batch.rows.real.sum())
        attribution = torch.linspace(0.05, 0.9, units)[None]
        settings = AmlLosses(prediction_weight=0.7, attribution_weight=0.2, inverse_weight=0.4, replacement="mask")
        target = probabilities.argmax(-1)
        loss = MapProblem.of(batch, probabilities, target, settings, None).losses(attribution, settings, 0)

        ids = tokenizer(TEXTS[1])["input_ids"]

        def forward(keep):  # special tokens are kept
            mask = embedding[tokenizer.mask_token_id]
            words = reference.masked_input([1.0, *keep, 1.0], embedding[ids], mask)
            return module(inputs_embeds=torch.stack(words)[None]).logits[0].double().softmax(-1).tolist()

        keep, y = attribution[0].tolist(), probabilities[0].tolist()
        expected = (
            0.7 * reference.prediction_loss(forward(keep), y)
            + 0.2 * reference.attribution_loss(keep)
            + 0.4 * reference.inverse_loss(forward([1 - a for a in keep]), y)
        )
    assert loss.item() == pytest.approx(expected, rel=1e-4)


class TestReplacements:
    """What masked words become; the attribution is hard, so that each case has a plain counterpart."""

    @pytest.fixture
    def model(self):
        return rationales.load(*tiny("bert"))

    def predict(self, model, attribution, **settings):
        with model.frozen():
            batch = text_batch(model, TEXTS)
            target = batch.predict().argmax(-1)
            learned = settings.pop("learned", None)
            replacement = Replacement.of(batch, AmlLosses(**settings), learned)
            return batch, replacement.predictions(attribution(batch), target, 3)

    @staticmethod
    def every_second(batch):
        values = torch.zeros(2, int(batch.rows.unit.max()) + 1)
        values[:, ::2] = 1
        return values

    @pytest.mark.parametrize("name", ["mask", "unk"])
    def test_by_a_token(self, model, name):
        batch, (masked, inverse) = self.predict(model, self.every_second, replacement=name)
        with model.frozen(), torch.no_grad():
            keep = self.every_second(batch)[:, : batch.size[1]]
            for prediction, kept in ((masked, keep), (inverse, 1 - keep)):
                logits = batch.with_baseline(name).logits(kept)
                assert torch.allclose(prediction.log_p, logits.log_softmax(-1), atol=1e-5)

    def test_by_a_learned_vector_which_gets_gradients(self, model):
        vector = torch.zeros(32, requires_grad=True)
        _, (masked, _) = self.predict(model, self.every_second, replacement="learned", learned=vector)
        masked.log_p.sum().backward()
        assert vector.grad.abs().sum() > 0

    def test_by_omission_the_prediction_is_that_of_the_shorter_text(self, model):
        batch, (masked, _) = self.predict(model, self.every_second, replacement="omission", mask="hard")
        with model.frozen(), torch.no_grad():
            logits = batch.logits_deleted(self.every_second(batch)[:, : batch.size[1]] * batch.rows.real)
        assert torch.allclose(masked.log_p, logits.log_softmax(-1), atol=1e-5)

    def test_by_random_words_that_change_from_step_to_step(self, model):
        with model.frozen(), torch.no_grad():
            batch = text_batch(model, TEXTS)
            replacement = Replacement.of(batch, AmlLosses(replacement="random"))
            first, again, later = (
                replacement.predictions(self.every_second(batch), torch.tensor([0, 0]), step)[0].log_p
                for step in (1, 1, 2)
            )
        assert torch.equal(first, again)
        assert not torch.allclose(first, later)

    def test_by_the_word_that_a_language_model_predicts(self, model):
        settings = {"replacement": "context", "filler": str(filler_folder())}
        _, (all_kept, all_replaced) = self.predict(model, lambda batch: self.every_second(batch) * 0 + 1, **settings)
        with model.frozen(), torch.no_grad():
            batch = text_batch(model, TEXTS)
            assert torch.allclose(all_kept.log_p, batch.full_logits().log_softmax(-1), atol=1e-5)
            masked = batch.with_baseline("mask").logits(batch.zeros()).log_softmax(-1)
        assert not torch.allclose(all_replaced.log_p, masked, atol=1e-3)

    def test_a_hard_mask_keeps_words_as_often_as_their_score_says(self, model):
        with model.frozen(), torch.no_grad():
            batch = text_batch(model, ["the soup " * 20])
            units = int(batch.rows.unit.max()) + 1
            replacement = Replacement.of(batch, AmlLosses(mask="hard"))
            keeps = []
            replacement.batch.logits = lambda keep: keeps.append(keep) or torch.zeros(2, batch.size[0], 3)
            for step in range(50):
                replacement.predictions(torch.full((1, units), 0.3), torch.tensor([0]), step)
        masked = torch.stack([keep[0] for keep in keeps])
        assert set(masked.unique().tolist()) == {0.0, 1.0}
        assert masked.mean().item() == pytest.approx(0.3, abs=0.05)
        assert all(torch.equal(keep[0], 1 - keep[1]) for keep in keeps)


@pytest.mark.parametrize(
    "wrong",
    [{"replacement": "omission"}, {"replacement": "context"}, {"mask": "half"}, {"prediction_weight": -1.0},
     dict.fromkeys(("prediction_weight", "attribution_weight", "inverse_weight"), 0.0)],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(OptionError):
        AmlLosses(**wrong)


def test_a_long_text_has_the_mean_prediction_of_its_segments():
    model = rationales.load(*tiny("bert"))
    with model.frozen(), torch.no_grad():
        batch = text_batch(model, ["Every morning the baker carried twelve loaves up the hill; " * 6, TEXTS[0]])
        assert batch.size[0] > batch.inputs
        probabilities = batch.predict()
        settings = replace(AmlLosses(), replacement="mask")
        everything = torch.ones(2, int(batch.rows.unit.max()) + 1)
        target = probabilities.argmax(-1)
        masked, _ = Replacement.of(batch, settings).predictions(everything, target, 0)
        assert torch.allclose(masked.log_p.exp(), probabilities, atol=1e-5)
        not_target = 1 - probabilities.gather(1, target[:, None]).squeeze(1)
        assert torch.allclose(masked.log_not_target.exp(), not_target, atol=1e-5)
