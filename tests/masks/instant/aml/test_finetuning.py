"""fAML: many inputs at once give what one after the other gives, and the network itself stays as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from families import tiny
from methods.aml_maskers import LOSSES, untrained_aml_masker
from methods.maskers import text_batch
from reference import aml as reference

import rationales
from rationales.errors import OptionError
from rationales.masks.instant.aml import finetuning
from rationales.masks.instant.aml.example_metrics import measure_examples
from rationales.masks.instant.aml.finetuning import FinetuneSettings, finetune, select_checkpoint
from rationales.masks.instant.aml.input_deltas import TUNED, InputDeltas, tuned_weights

TEXTS = [
    "Dull.",
    "I did not like the soup, but the bread wasn't bad at all!",
    "Every morning the baker carried twelve loaves up the hill; " * 6,
    "She said nothing; he laughed, and nobody else in the room understood why.",
]


@pytest.fixture
def model():
    return rationales.load(*tiny("bert"))


@pytest.fixture
def masker(model):
    return untrained_aml_masker(model, "own")


def test_tuning_all_is_what_a_deep_copy_per_input_does(model, masker):
    with model.frozen():
        batch = text_batch(model, TEXTS)
        target = batch.predict().argmax(-1)
        result = finetune(masker, batch, target, FinetuneSettings(steps=4, tune="all", learning_rate=1e-3))
        copies = [(batch.take([number]), target[number : number + 1]) for number in range(len(TEXTS))]
        maps, losses = reference.finetune_copies(masker, *zip(*copies, strict=True), steps=4, learning_rate=1e-3)
    assert torch.allclose(result.losses.T, torch.tensor(losses), atol=2e-4)
    for number, single in enumerate(maps):
        assert torch.allclose(result.maps[-1, number, : len(single)], single, atol=1e-3)
    assert (result.losses[-1] < result.losses[0]).all()


@pytest.mark.parametrize("tune", TUNED)
@pytest.mark.parametrize("losses", [LOSSES, replace(LOSSES, mask="hard"), replace(LOSSES, replacement="random")])
def test_together_equals_one_after_the_other(model, tune, losses):
    masker, settings = untrained_aml_masker(model, "own", losses), FinetuneSettings(steps=3, tune=tune)
    with model.frozen():
        batch = text_batch(model, TEXTS)
        target = torch.tensor([0, 1, 2, 0])
        together = finetune(masker, batch, target, settings)
        for number in range(len(TEXTS)):
            alone = finetune(masker, batch.take([number]), target[number : number + 1], settings)
            width = alone.maps.shape[-1]
            assert torch.allclose(together.losses[:, number], alone.losses[:, 0], atol=1e-3)
            assert torch.allclose(together.maps[:, number, :width], alone.maps[:, 0], atol=2e-3)


@pytest.mark.parametrize("tune", TUNED)
def test_in_groups_that_fit_memory_the_result_is_the_same(model, masker, tune, monkeypatch):
    with model.frozen():
        batch, target = text_batch(model, TEXTS), torch.tensor([0, 1, 2, 0])
        settings = FinetuneSettings(steps=2, tune=tune)
        together = finetune(masker, batch, target, settings)
        monkeypatch.setattr(finetuning, "available_bytes", lambda _: 100 * tuned_weights(masker.network, tune, 4))
        shares = []
        grouped = finetune(masker, batch, target, settings, shares.append)
    assert torch.allclose(together.maps, grouped.maps, atol=1e-3)
    assert shares == sorted(shares)
    assert shares[-1] <= 1


def test_the_network_and_its_prediction_token_stay_as_they_were(model, masker):
    before = {name: value.clone() for name, value in masker.network.state_dict().items()}
    with model.frozen():
        finetune(masker, text_batch(model, TEXTS[:2]), torch.tensor([0, 1]), FinetuneSettings(steps=2))
    assert all(torch.equal(value, before[name]) for name, value in masker.network.state_dict().items())
    assert not any(module._forward_hooks for module in masker.network.modules())


@pytest.mark.parametrize("tune", TUNED)
def test_the_number_of_tuned_weights_is_counted(masker, tune):
    deltas = InputDeltas(masker.network, 1, tune, 4)
    biases = sum(module.bias is None for module in deltas.full)
    assert biases == 0
    assert sum(weight.numel() for weight in deltas.parameters()) == tuned_weights(masker.network, tune, 4)


def test_the_selected_checkpoint_is_at_least_as_good_as_the_last(model, masker):
    with model.frozen():
        batch = text_batch(model, TEXTS)
        target = batch.predict().argmax(-1)
        result = finetune(masker, batch, target, FinetuneSettings(steps=5, tune="head"))
        maps, step = select_checkpoint(result, batch, target, "comprehensiveness")
        selected, last = measure_examples(batch, torch.stack([maps, result.maps[-1]]), target, "comprehensiveness")
    assert (selected >= last).all()
    assert all(torch.equal(maps[number], result.maps[step[number], number]) for number in range(len(TEXTS)))


def test_no_steps_is_the_pretrained_map(model, masker):
    with model.frozen():
        batch, target = text_batch(model, TEXTS), torch.tensor([0, 1, 2, 0])
        result = finetune(masker, batch, target, FinetuneSettings(steps=0))
        assert torch.allclose(result.maps[0], masker.attributions(batch, target), atol=1e-6)


@pytest.mark.parametrize("wrong", [{"steps": -1}, {"tune": "some"}, {"rank": 0}, {"learning_rate": -1.0}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        FinetuneSettings(**wrong)
