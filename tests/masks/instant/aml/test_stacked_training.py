"""Networks that are trained together: the same weights as one after the other, also after an interruption."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from methods.aml_maskers import LOSSES, tiny_backbone
from methods.keyword import keyword_model
from methods.maskers import KEYWORDS, sentences

import rationales
from rationales.masks.instant.aml.attribution_network import AttributionNetwork
from rationales.masks.instant.aml.backbone import make_backbone
from rationales.masks.instant.aml.pretraining import pretrain_for_metrics
from rationales.masks.instant.aml.settings import AmlTraining
from rationales.masks.instant.aml.training.network_stack import NetworkStack, can_be_stacked, stacked_losses
from rationales.masks.instant.aml.training.training_texts import TrainingTexts
from rationales.masks.instant.aml.training.weight_search import WeightTrial, suggest

METRICS = ("comprehensiveness", "sufficiency", "aopc-comprehensiveness")
IN_TURN = AmlTraining(
    texts=24, validation_texts=6, epochs=3, inputs=12, learning_rate=2e-3, trials=0, trial_texts=12, trial_epochs=1,
    dropout=False,
)  # fmt: skip
TOGETHER = replace(IN_TURN, networks=25)
TEXTS = sentences(30)


@pytest.fixture
def model():
    return rationales.load(*keyword_model(*KEYWORDS))


def train(model, settings, metrics=METRICS, **arguments):
    return pretrain_for_metrics(model, TEXTS, metrics, settings, LOSSES, backbone=tiny_backbone(width=16), **arguments)


def largest_difference(first, second):
    states = first.network.state_dict(), second.network.state_dict()
    return max(float((value - states[1][name]).abs().max()) for name, value in states[0].items())


def assert_equal_maskers(first, second, tolerance):
    assert list(first) == list(second)
    for metric in first:
        assert largest_difference(first[metric], second[metric]) <= tolerance
        figures = [maskers[metric].card.training for maskers in (first, second)]
        assert figures[0]["best_epoch"] == figures[1]["best_epoch"]
        assert figures[0]["history"] == pytest.approx(figures[1]["history"], abs=1e-4)


def test_the_weights_are_those_of_one_after_the_other(model):
    assert_equal_maskers(train(model, TOGETHER), train(model, IN_TURN), 2e-5)


def test_a_random_search_gives_the_same_trials(model):
    settings = {"trials": 4, "search": "random", "epochs": 1}
    together = train(model, replace(TOGETHER, networks=3, **settings))
    in_turn = train(model, replace(IN_TURN, **settings))
    assert_equal_maskers(together, in_turn, 2e-5)
    for metric in METRICS:
        assert together[metric].card.losses == in_turn[metric].card.losses
        assert together[metric].card.training["trials"] == 4


def test_every_metric_has_its_own_trials_by_tpe(model):
    pytest.importorskip("optuna", reason="the extra aml is not installed")
    results = []
    maskers = train(model, replace(TOGETHER, trials=7, search="tpe", epochs=1), on_epoch=results.append)
    searched = [(result.metric, result.number) for result in results if result.phase == "search"]
    assert sorted(searched) == sorted((metric, number) for metric in METRICS for number in range(1, 8))
    assert all(masker.card.training["trials"] == 7 for masker in maskers.values())
    assert all(masker.card.training["search"] == "tpe" for masker in maskers.values())
    assert results[-1].remaining_seconds == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("interrupted_after", [2, 5, 15])
def test_an_interrupted_training_goes_on(model, tmp_path, interrupted_after):
    settings, results = replace(TOGETHER, trials=2, search="random"), []

    def interrupt(result):
        results.append(result)
        if len(results) == interrupted_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(model, settings, resume=tmp_path / "state", on_epoch=interrupt)
    later = []
    resumed = train(model, settings, resume=tmp_path / "state", on_epoch=later.append)
    assert not (tmp_path / "state").exists()
    assert_equal_maskers(resumed, train(model, settings), 0.0)
    begun = {result.number for result in later if result.phase == "training"}
    assert begun == {2: {1, 2, 3}, 5: {2, 3}, 15: set()}[interrupted_after]  # two reports of trials, then six an epoch


def test_every_network_stops_on_its_own(model):
    settings = replace(TOGETHER, epochs=12, patience=2)
    together, in_turn = train(model, settings), train(model, replace(settings, networks=1))
    for metric in METRICS:
        assert together[metric].card.training["epochs"] == in_turn[metric].card.training["epochs"]


def test_few_networks_at_once_give_the_same(model):
    settings = replace(TOGETHER, networks=2)
    assert_equal_maskers(train(model, settings), train(model, TOGETHER), 2e-5)


def test_dropout_differs_between_networks(model):
    with model.frozen(), torch.enable_grad():
        backbone = make_backbone(tiny_backbone(width=16), model)
        network = AttributionNetwork(backbone.encoder, 2)
        network.initialise(torch.Generator().manual_seed(0))
        texts = TrainingTexts(model, [model.read(text, None) for text in TEXTS[:4]], backbone, 0)
        group = next(texts.groups())
        stack = NetworkStack(network.requires_grad_(True), 2)
        y = group.probabilities
        stack.eval()
        first, second = stack(group.windows, y, "mean")
        assert torch.equal(first, second)
        assert torch.allclose(first, network.eval()(group.windows, y, "mean"), atol=1e-6)
        stack.train()
        first, second = stack(group.windows, y, "mean")
        assert not torch.allclose(first, second)


def test_losses_and_gradients_are_those_of_each_network(model):
    losses = [replace(LOSSES, prediction_weight=weight, inverse_weight=1 - weight) for weight in (0.2, 0.9)]
    with model.frozen(), torch.enable_grad():
        backbone = make_backbone(tiny_backbone(width=16), model)
        texts = TrainingTexts(model, [model.read(text, None) for text in TEXTS[:5]], backbone, 0)
        group = next(texts.groups())
        problem = group.problem(losses[0], None)
        maps = torch.rand(2, *problem.real.shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
        together = stacked_losses(problem, maps, losses)
        in_turn = torch.stack([problem.losses(map_, loss, 0) for map_, loss in zip(maps, losses, strict=True)])
        assert torch.allclose(together, in_turn, atol=1e-6)
        gradients = [torch.autograd.grad(values.sum(), maps)[0] for values in (together, in_turn)]
        assert torch.allclose(*gradients, atol=1e-6)


def test_masks_with_draws_or_vectors_of_their_own_are_trained_in_turn():
    assert can_be_stacked(LOSSES)
    assert not can_be_stacked(replace(LOSSES, mask="hard"))
    assert not can_be_stacked(replace(LOSSES, replacement="learned"))


def test_suggestions_of_a_round_differ():
    pytest.importorskip("optuna", reason="the extra aml is not installed")
    names = ("prediction_weight", "attribution_weight", "inverse_weight")
    known = [
        WeightTrial(dict.fromkeys(names, number / 12), {"sufficiency": abs(number / 12 - 0.3)}) for number in range(12)
    ]
    suggestions = suggest(known, "sufficiency", "tpe", 0, 5)
    assert len({tuple(weights.values()) for weights in suggestions}) == 5
    assert suggest(known, "sufficiency", "tpe", 0, 5) == suggestions
    assert all(0 <= value <= 1 for weights in suggestions for value in weights.values())
