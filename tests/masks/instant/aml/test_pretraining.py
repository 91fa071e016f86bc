"""pAML: weights chosen by trials, the best checkpoint by the metric, early stopping, and trainings that go on."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from methods.aml_maskers import LOSSES, tiny_backbone
from methods.keyword import keyword_model
from methods.maskers import KEYWORDS, sentences

import rationales
from rationales.errors import DataError, OptionError
from rationales.masks.instant.aml import pretraining
from rationales.masks.instant.aml.pretraining import pretrain, pretrain_for_metrics, training_digest
from rationales.masks.instant.aml.settings import AmlLosses, AmlTraining
from rationales.masks.instant.aml.training import training_run, weight_search
from rationales.masks.instant.aml.training.weight_search import WeightTrial, run_search, sampler_name, suggest

BRIEF = AmlTraining(
    texts=24, validation_texts=6, epochs=3, inputs=12, learning_rate=2e-3, trials=0, trial_texts=12, trial_epochs=1
)
TEXTS = sentences(30)


@pytest.fixture
def model():
    return rationales.load(*keyword_model(*KEYWORDS))


def train(model, settings=BRIEF, **arguments):
    return pretrain(model, TEXTS, settings, LOSSES, backbone=tiny_backbone(width=16), **arguments)


def weights(masker):
    return masker.network.state_dict()


def equal(first, second):
    return all(torch.equal(value, weights(second)[name]) for name, value in weights(first).items())


def test_the_same_seed_gives_the_same_bits_and_global_randomness_is_not_touched(model):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    first = train(model)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(4)
    assert equal(first, train(model))
    assert not equal(first, train(model, replace(BRIEF, seed=1)))


def test_the_explained_model_and_the_given_backbone_stay_as_they_were(model):
    encoder, tokenizer = tiny_backbone(width=16)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    flags = [weight.requires_grad for weight in model.networks[0].module.parameters()]
    pretrain(model, TEXTS, BRIEF, LOSSES, backbone=(encoder, tokenizer))
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert [weight.requires_grad for weight in model.networks[0].module.parameters()] == flags


def test_word_embeddings_of_a_pretrained_backbone_are_frozen(model):
    encoder, tokenizer = tiny_backbone(width=16)
    masker = pretrain(model, TEXTS, BRIEF, LOSSES, backbone=(encoder, tokenizer))
    trained = masker.network.encoder
    assert torch.equal(trained.get_input_embeddings().weight, encoder.get_input_embeddings().weight)
    assert not torch.equal(trained.encoder.layer[0].output.dense.weight, encoder.encoder.layer[0].output.dense.weight)


def test_the_card_says_what_was_done(model):
    card = train(model, data="my texts").card
    assert card.labels == ("absent", "found")
    assert card.losses.replacement == "mask"
    assert card.training["data"] == "my texts"
    assert (card.training["texts"], card.training["validation_texts"], card.training["trials"]) == (24, 6, 0)
    history = card.training["history"]
    assert card.training["value"] == max(history)  # comprehensiveness: higher is better
    assert card.training["best_epoch"] == len(history) - history[::-1].index(max(history))  # of equal ones the last


@pytest.mark.parametrize("metric", ["comprehensiveness", "sufficiency"])
@pytest.mark.parametrize("networks", [1, 8])
def test_networks_with_the_weights_of_the_best_trials_are_trained_and_the_best_is_kept(model, metric, networks):
    settings = replace(
        BRIEF, metric=metric, epochs=2, trials=4, finalists=3, search="random", networks=networks, dropout=False
    )
    masker = train(model, settings)
    training, sign = masker.card.training, -1 if metric == "sufficiency" else 1
    tried = sorted(training["tried_weights"], key=lambda trial: -sign * trial["value"])
    assert len(tried) == training["trials"] == 4
    assert [ended["weights"] for ended in training["trainings"]] == [trial["weights"] for trial in tried[:3]]
    values = [sign * ended["value"] for ended in training["trainings"]]
    best = training["trainings"][values.index(max(values))]
    assert {name: training[name] for name in ("value", "history", "best_epoch")} == {
        name: best[name] for name in ("value", "history", "best_epoch")
    }
    assert {name: getattr(masker.card.losses, name) for name in best["weights"]} == best["weights"]
    alone = train(model, replace(settings, networks=1, finalists=values.index(max(values)) + 1))
    assert all(
        torch.allclose(value, weights(alone)[name], atol=2e-5) for name, value in weights(masker).items()
    )  # the weights are the best network's


def test_the_card_says_what_random_scores_have_and_how_far_apart_scores_are(model):
    training = train(model).card.training
    assert 0 < training["random_value"] < 1
    assert 0 < training["maps"]["mean_score"] < 1
    assert 0 < training["maps"]["score_range"] < 1
    assert training["random_value"] == train(model).card.training["random_value"]


class TestDigest:
    def test_it_is_in_the_card_and_can_be_had_without_training(self, model):
        digest = training_digest(model, [*TEXTS, " ", TEXTS[0]], BRIEF, LOSSES, tiny_backbone(width=16))
        assert train(model).card.digest == digest
        assert train(model, replace(BRIEF, minutes=9, metric="sufficiency")).card.digest == digest

    @pytest.mark.parametrize(
        "change",
        [
            {"texts": TEXTS[1:]},
            {"settings": replace(BRIEF, epochs=2)},
            {"settings": replace(BRIEF, seed=1)},
            {"losses": replace(LOSSES, target="one-hot")},
            {"backbone": tiny_backbone(width=16, seed=1)},
            {"model": rationales.load(*keyword_model(*KEYWORDS), unit="token")},
        ],
    )
    def test_it_depends_on_all_that_decides_the_result(self, model, change):
        usual = {"model": model, "texts": TEXTS, "settings": BRIEF, "losses": LOSSES}
        usual["backbone"] = tiny_backbone(width=16)
        assert training_digest(**usual) == training_digest(**usual)
        assert training_digest(**(usual | change)) != training_digest(**usual)


def test_early_stopping(model):
    masker = train(model, replace(BRIEF, epochs=40, patience=2, learning_rate=1e-9))
    assert masker.card.training["epochs"] == 3  # nothing changes after the first


class TestInterrupted:
    @pytest.mark.parametrize("settings", [BRIEF, replace(BRIEF, trials=2, search="random")])
    @pytest.mark.parametrize("interrupted_after", [1, 3, 6])  # in the search, in the first training, in the second
    def test_training_goes_on_as_if_it_had_not_been(self, model, tmp_path, settings, interrupted_after):
        results = []

        def interrupt(result):
            results.append(result)
            if len(results) == interrupted_after:
                raise KeyboardInterrupt

        state = tmp_path / "state"
        if interrupted_after < settings.trials + settings.epochs * max(1, settings.trials):
            with pytest.raises(KeyboardInterrupt):
                train(model, settings, resume=state, on_epoch=interrupt)
            assert state.exists()
        resumed = train(model, settings, resume=state)
        assert not state.exists()
        assert equal(resumed, train(model, settings))

    def test_what_was_done_is_not_done_again(self, model, tmp_path):
        settings = replace(BRIEF, trials=2, search="random", finalists=1)
        steps = []

        def interrupt(result):
            steps.append((result.phase, result.number))
            if result.phase == "training" and result.number == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(model, settings, resume=tmp_path / "state", on_epoch=interrupt)
        later = []
        train(model, settings, resume=tmp_path / "state", on_epoch=lambda result: later.append(result))
        assert steps == [("search", 1), ("search", 2), ("training", 1), ("training", 2)]
        assert [(result.phase, result.number) for result in later] == [("training", 3)]
        assert later[-1].remaining_seconds == 0

    def test_a_backbone_of_the_same_name_with_other_weights_is_another_training(self, model, tmp_path):
        for number in range(2):
            encoder, tokenizer = tiny_backbone(width=16, seed=number)
            for part in (encoder, tokenizer):
                part.save_pretrained(tmp_path / str(number) / "encoder")

        def run(number, on_epoch=None):
            backbone = tmp_path / str(number) / "encoder"
            pretrain(model, TEXTS, BRIEF, LOSSES, backbone=backbone, resume=tmp_path / "state", on_epoch=on_epoch)

        def interrupt(_result):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(0, interrupt)
        with pytest.raises(OptionError, match="another model, other texts or other settings"):
            run(1)
        run(0)

    def test_the_state_of_another_training_is_refused(self, model, tmp_path):
        def interrupt(result):
            if result.number == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(model, resume=tmp_path / "state", on_epoch=interrupt)
        with pytest.raises(OptionError, match="other settings; delete it"):
            train(model, replace(BRIEF, seed=5), resume=tmp_path / "state")
        (tmp_path / "state").write_text("nonsense")
        with pytest.raises(OptionError, match="not the state of a training"):
            train(model, resume=tmp_path / "state")


class TestRemainingTime:
    """A fake clock: 100 s until the first step, 10 s for an epoch or a trial of one epoch."""

    @pytest.fixture
    def clock(self, monkeypatch):
        clock = SimpleNamespace(now=0.0)
        clock.monotonic = lambda: clock.now
        for module in (pretraining, training_run):
            monkeypatch.setattr(module, "time", clock)
        plain_backbone, plain_epoch = pretraining.make_backbone, training_run.TrainingRun._epoch

        def slow_backbone(*arguments):
            clock.now += 100
            return plain_backbone(*arguments)

        def slow_epoch(*arguments):
            clock.now += 10
            return plain_epoch(*arguments)

        monkeypatch.setattr(pretraining, "make_backbone", slow_backbone)
        monkeypatch.setattr(training_run.TrainingRun, "_epoch", slow_epoch)
        return clock

    @pytest.mark.usefixtures("clock")
    def test_loading_is_not_taken_for_the_speed_of_training(self, model):
        results = []
        train(model, on_epoch=results.append)
        assert [result.remaining_seconds for result in results] == [20, 10, 0]
        assert [result.seconds for result in results] == [110, 120, 130]

    @pytest.mark.usefixtures("clock")
    def test_nor_are_epochs_of_an_interrupted_training(self, model, tmp_path):
        def interrupt(result):
            if result.number == 2:
                raise KeyboardInterrupt

        settings = replace(BRIEF, epochs=4)
        with pytest.raises(KeyboardInterrupt):
            train(model, settings, resume=tmp_path / "state", on_epoch=interrupt)
        results = []
        train(model, settings, resume=tmp_path / "state", on_epoch=results.append)
        assert [(result.number, result.remaining_seconds) for result in results] == [(3, 10), (4, 0)]

    @pytest.mark.usefixtures("clock")
    def test_networks_of_the_best_trials_are_counted(self, model):
        """Two trials of half the texts, one epoch each, and 2 networks of 2 epochs: 5 epochs' worth in 6 steps."""
        results = []
        settings = replace(BRIEF, trials=2, finalists=2, epochs=2, patience=0, search="random")
        train(model, settings, on_epoch=results.append)
        assert [(result.phase, result.network, result.networks) for result in results] == [
            ("search", 1, 1), ("search", 1, 1), ("training", 1, 2), ("training", 1, 2), ("training", 2, 2),
            ("training", 2, 2),
        ]  # fmt: skip
        epochs = [0.5, 1, 2, 3, 4, 5]  # of training, in 10, 20, ... seconds
        expected = [(5 - done) * 10 * (step + 1) / done for step, done in enumerate(epochs)]
        assert [result.remaining_seconds for result in results] == pytest.approx(expected)

    @pytest.mark.usefixtures("clock")
    def test_never_more_than_the_time_limit_leaves(self, model):
        results = []
        train(model, replace(BRIEF, epochs=50, patience=0, minutes=2), on_epoch=results.append)
        assert [result.seconds for result in results] == [110, 120, 130]
        assert [result.remaining_seconds for result in results] == [10, 0, 0]


class TestSearch:
    @staticmethod
    def quality(losses):
        return {"comprehensiveness": -abs(losses.prediction_weight - 0.8) - abs(losses.inverse_weight - 0.3)}

    @pytest.mark.parametrize("sampler", ["random", "tpe"])
    def test_the_best_weights_are_found_and_the_search_goes_on_where_it_was(self, sampler):
        if sampler == "tpe":
            pytest.importorskip("optuna", reason="the extra aml is not installed")
        all_trials, first_trials = [], []
        arguments = {"sampler": sampler, "seed": 0}
        best = run_search(LOSSES, "comprehensiveness", 14, self.quality, trials=all_trials, **arguments)
        run_search(LOSSES, "comprehensiveness", 11, self.quality, trials=first_trials, **arguments)
        resumed = run_search(LOSSES, "comprehensiveness", 14, self.quality, trials=first_trials, **arguments)
        assert first_trials == all_trials
        assert best == resumed
        value = self.quality(best)["comprehensiveness"]
        assert value == max(trial.metrics["comprehensiveness"] for trial in all_trials)
        assert all(0 <= weight <= 1 for trial in all_trials for weight in trial.weights.values())

    def test_lower_is_better_where_it_is(self):
        trials = [WeightTrial({"prediction_weight": 0.1}, {"sufficiency": 0.5}), WeightTrial({}, {"sufficiency": 0.2})]
        assert weight_search.best_trial(trials, "sufficiency") is trials[1]

    def test_without_optuna_the_search_is_random_and_says_so(self, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
        assert sampler_name("auto") == "random"
        with pytest.raises(OptionError, match=r"needs Optuna: pip install 'rationales\[aml\]'; or set search=random"):
            sampler_name("tpe")

    def test_random_suggestions_do_not_depend_on_results(self):
        assert suggest([], "sufficiency", "random", 1) == suggest([], "log-odds", "random", 1)
        assert suggest([], "sufficiency", "random", 1) != suggest([], "sufficiency", "random", 2)

    def test_several_metrics_share_the_trials_of_a_random_search(self, model):
        results = []
        settings = replace(BRIEF, trials=2, epochs=1, search="random", finalists=1)
        maskers = pretrain_for_metrics(
            model, TEXTS, ["sufficiency", "log-odds"], settings, LOSSES, backbone=tiny_backbone(width=16),
            on_epoch=results.append,
        )  # fmt: skip
        assert [result.phase for result in results] == ["search", "search", "training", "training"]
        assert {name: masker.card.training["metric"] for name, masker in maskers.items()} == {
            "sufficiency": "sufficiency",
            "log-odds": "log-odds",
        }
        assert all(masker.card.training["search"] == "random" for masker in maskers.values())


@pytest.mark.parametrize(
    "losses",
    [
        replace(LOSSES, replacement="learned"),
        replace(LOSSES, replacement="omission", mask="hard"),
        replace(LOSSES, replacement="random", inverse_loss="entropy", mask_loss="l1", target="one-hot", merge="max"),
        replace(LOSSES, replacement="unk", mask="hard", inverse_loss="probability"),
    ],
)
def test_every_variant_trains(model, losses):
    masker = pretrain(model, TEXTS, replace(BRIEF, epochs=1), losses, backbone=tiny_backbone(width=16))
    assert masker.card.losses == losses
    if losses.replacement == "learned":
        assert masker.network.mask_vector is not None


def test_a_time_limit_ends_the_training(model):
    masker = train(model, replace(BRIEF, epochs=50, trials=30, search="random", minutes=1e-5))
    assert (masker.card.training["trials"], masker.card.training["epochs"]) == (1, 1)


def test_no_texts_is_an_error(model):
    with pytest.raises(DataError, match="no texts"):
        pretrain(model, [" "], BRIEF, AmlLosses())
