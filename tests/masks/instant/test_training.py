"""A masker learns where a model's evidence lies, from texts without labels."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from families import tiny
from methods.keyword import keyword_model
from methods.maskers import KEYWORDS, QUICK, SPARSE, keyword_masker, sentences, text_batch

import rationales
from rationales.errors import DataError, InputError, ModelError, OptionError
from rationales.masks.instant import distillation, training
from rationales.masks.instant.training import TrainSettings, train, validation_loss
from rationales.masks.optimizer import keep_logit
from rationales.masks.settings import CLAUSES, ONE_MASK

FEW_STEPS = replace(CLAUSES, steps=12, warmup_steps=6)  # of the optimised fields that the masker is trained to predict
BRIEF = TrainSettings(steps=3, inputs=4, width=16, layers=1, heads=2, validations=1)
TEXTS = ["The bread wasn't bad at all!", "Dull soup.", "She said nothing; he laughed.", "A brilliant joke, suddenly."]
LONG = " ".join(["Every morning the baker carried twelve loaves up the hill;"] * 8)  # several segments


@pytest.fixture(scope="module")
def keyword_classifier():
    return rationales.load(*keyword_model(*KEYWORDS))


def small(**arguments):
    return rationales.load(*tiny("bert", **arguments))


def train_briefly(model, texts, settings=BRIEF, **arguments):
    return train(model, texts, settings, FEW_STEPS, **arguments)


def keeps(masker, model, texts, target):
    """For each text its words and their keeps."""
    with model.frozen():
        encoded = model.encode([model.read(text, None) for text in texts])
        batch = model.batch(encoded)
        start = masker(batch, torch.tensor([target] * len(texts)))
        kept = batch.gather(keep_logit(batch, masker.card.objective, *start).sigmoid())
    return [
        ([unit.text for unit in encoded_text.units], keep) for encoded_text, keep in zip(encoded, kept, strict=True)
    ]


class TestKeywords:
    """The model looks for two words and nothing else."""

    def test_are_found_in_sentences_it_has_not_seen(self, keyword_classifier):
        unseen = [text for text in sentences(120, seed=9) if all(word in text.split() for word in KEYWORDS)]
        assert len(unseen) > 40
        keyword_keeps, other_keeps = [], []
        for words, keep in keeps(keyword_masker(), keyword_classifier, unseen, target=1):
            is_keyword = torch.tensor([word in KEYWORDS for word in words])
            keyword_keeps += keep[is_keyword].tolist()
            other_keeps += keep[~is_keyword].tolist()
        assert np.mean(np.array(keyword_keeps) > 0.8) > 0.95
        assert (
            np.mean(np.array(other_keeps) > 0.5) < 0.15
        )  # some share a piece with "jo-ke": "wal-ke-d" is evidence, too

    def test_speak_against_the_other_class(self, keyword_classifier):
        """Asked for `absent`, which the model does not predict, the mask leaves them out."""
        text = "the river was calm and the bridge was old and the joke was not good at all"
        ((words, keep),) = keeps(keyword_masker(), keyword_classifier, [text], target=0)
        assert all(keep[words.index(word)] < 0.5 for word in KEYWORDS)

    def test_are_worth_the_training(self, keyword_classifier):
        unseen = sentences(40, seed=11)
        start = train(keyword_classifier, sentences(40), replace(QUICK, steps=1, learning_rate=1e-9), SPARSE)
        assert (
            validation_loss(keyword_masker(), keyword_classifier, unseen)
            < validation_loss(start, keyword_classifier, unseen) - 0.5
        )

    def test_the_card_says_how_it_was_made(self, keyword_classifier):
        card = keyword_masker().card
        assert card.training["texts"] + card.training["held_out"] == 400
        assert card.training["steps"] == QUICK.steps
        assert card.objective.sparsity == 4.0
        assert card.labels == ("absent", "found")


class TestDigest:
    USUAL = ([*TEXTS, " "], BRIEF, FEW_STEPS)

    def test_it_is_in_the_card_and_can_be_had_without_training(self):
        assert train_briefly(small(), TEXTS).card.digest == training.training_digest(small(), *self.USUAL)

    @pytest.mark.parametrize("changed", ["texts", "settings", "objective", "model"])
    def test_it_depends_on_all_that_decides_the_result(self, changed):
        texts, settings, objective = self.USUAL
        others = {
            "texts": (texts[1:], settings, objective),
            "settings": (texts, replace(settings, seed=1), objective),
            "objective": (texts, settings, replace(objective, sparsity=3.0)),
        }
        model = small(seed=1) if changed == "model" else small()
        digest = training.training_digest(model, *others.get(changed, self.USUAL))
        assert digest != training.training_digest(small(), *self.USUAL)


class TestRepeatable:
    def test_same_seed_same_bits(self):
        first, second, other_seed = (
            train_briefly(small(), TEXTS, replace(BRIEF, seed=seed)).network.state_dict() for seed in (3, 3, 4)
        )
        assert all(torch.equal(first[name], second[name]) for name in first)
        assert any(not torch.equal(first[name], other_seed[name]) for name in first)

    def test_global_randomness_is_neither_read_nor_moved(self):
        torch.manual_seed(1)
        before = torch.random.get_rng_state()
        first = train_briefly(small(), TEXTS).network.state_dict()
        assert torch.equal(before, torch.random.get_rng_state())
        torch.manual_seed(2)
        second = train_briefly(small(), TEXTS).network.state_dict()
        assert all(torch.equal(first[name], second[name]) for name in first)

    def test_the_order_and_repetitions_of_texts_that_are_one_bucket_do_not_stop_it(self):
        masker = train_briefly(small(), [*TEXTS, *TEXTS, "", "  "])
        assert masker.card.training["texts"] + masker.card.training["held_out"] == len(TEXTS)

    def test_works_where_gradients_are_switched_off(self):
        model = small()
        expected = train_briefly(model, TEXTS).network.state_dict()
        for switch in (torch.no_grad, torch.inference_mode):
            with switch():
                actual = train_briefly(model, TEXTS).network.state_dict()
            assert all(torch.equal(expected[name], actual[name]) for name in expected)


class TestInterrupted:
    SETTINGS = replace(BRIEF, steps=7, inputs=2, validations=3)

    def interrupted(self, state, steps, **arguments):
        calls = []

        def interrupt(share):
            calls.append(share)
            if len(calls) == steps:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.run(progress=interrupt, resume=state, **arguments)

    def run(self, objective=FEW_STEPS, settings=SETTINGS, **arguments):
        """Six texts, one of them held out: a pass over the others has three steps."""
        return train(small(), [*TEXTS, "Nobody laughed.", "It is a fine day."], settings, objective, **arguments)

    @pytest.mark.parametrize("steps", [2, 4, 5])  # in the first pass, at the end of it, in the second
    @pytest.mark.parametrize("mask_weight", [0.0, 1.0])
    def test_training_goes_on_as_if_it_had_not_been(self, tmp_path, monkeypatch, steps, mask_weight):
        monkeypatch.setattr(training, "SAVE_SECONDS", -1.0)  # after every step
        objective, state = replace(FEW_STEPS, mask_weight=mask_weight), tmp_path / "m.progress"
        self.interrupted(state, steps, objective=objective)
        done = []
        resumed = self.run(objective, progress=done.append, resume=state)
        straight = self.run(objective)
        assert not state.exists()
        assert done[0] == pytest.approx(steps / 7)  # the step in which it was interrupted is repeated
        assert resumed.card == straight.card
        for name, value in straight.network.state_dict().items():
            assert torch.equal(resumed.network.state_dict()[name], value)

    def test_fields_that_were_optimised_are_not_optimised_again(self, tmp_path, monkeypatch):
        monkeypatch.setattr(training, "SAVE_SECONDS", -1.0)
        self.interrupted(tmp_path / "state", 5)
        counts = []
        plain = distillation.target_field

        def counted(batch, target, objective):
            counts.append(batch.inputs)
            return plain(batch, target, objective)

        monkeypatch.setattr(distillation, "target_field", counted)
        self.run(resume=tmp_path / "state")
        assert sum(counts) == 1  # the held-out text

    def test_the_state_of_another_training_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(training, "SAVE_SECONDS", -1.0)
        self.interrupted(tmp_path / "state", 3)
        with pytest.raises(OptionError, match="another model, other texts or other settings; delete it"):
            self.run(settings=replace(self.SETTINGS, seed=1), resume=tmp_path / "state")


class TestTheModel:
    def test_is_left_as_it_was(self):
        module, tokenizer = tiny("bert")
        module.train()
        next(module.parameters()).requires_grad_(False)
        weights = copy.deepcopy(module.state_dict())
        gradient_flags = [weight.requires_grad for weight in module.parameters()]
        train_briefly(rationales.load(module, tokenizer), TEXTS)
        assert all(submodule.training for submodule in module.modules())
        assert [weight.requires_grad for weight in module.parameters()] == gradient_flags
        assert all(weight.grad is None for weight in module.parameters())
        assert not any(submodule._forward_hooks for submodule in module.modules())
        assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())

    def test_is_left_as_it_was_after_an_exception(self):
        module, tokenizer = tiny("gpt2")
        module.train()

        def stop(_share):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train_briefly(rationales.load(module, tokenizer), TEXTS, progress=stop)
        assert all(submodule.training for submodule in module.modules())
        assert module.config.pad_token_id is None
        assert not any(submodule._forward_hooks for submodule in module.modules())

    def test_may_be_several_explained_together(self):
        modules = [tiny("bert", seed=seed)[0] for seed in (0, 1)]
        model = rationales.load(modules, tiny("bert")[1])
        masker = train_briefly(model, [*TEXTS, LONG])
        with model.frozen():
            batch = text_batch(model, [LONG])
            w, _ = masker(batch, torch.tensor([0]))
        assert w.shape == (batch.masks, batch.size[1])
        assert batch.masks < batch.size[0]

    @pytest.mark.parametrize("labels", [{"labels": 1}, {"labels": 3, "problem_type": "multi_label_classification"}])
    def test_may_answer_yes_or_no(self, labels):
        model = small(**labels)
        masker = train_briefly(model, TEXTS)
        assert all(torch.isfinite(keep).all() for _, keep in keeps(masker, model, TEXTS, target=0))

    def test_without_gradients_is_refused(self):
        class Blocked(torch.nn.Module):
            def __init__(self, module):
                super().__init__()
                self.module, self.config = module, module.config

            def get_input_embeddings(self):
                return self.module.get_input_embeddings()

            def forward(self, input_ids, attention_mask):
                with torch.no_grad():
                    return self.module(input_ids=input_ids, attention_mask=attention_mask)

        module, tokenizer = tiny("bert")
        with pytest.raises(ModelError, match="no gradients"):
            train_briefly(rationales.load(Blocked(module), tokenizer), TEXTS)

    def test_that_gives_nan_is_reported_with_the_text(self):
        module, tokenizer = tiny("bert")
        with torch.no_grad():
            module.classifier.weight.fill_(float("nan"))
        with pytest.raises(InputError, match=r"NaN.*for .The bread"):
            train_briefly(rationales.load(module, tokenizer), TEXTS)


class TestTheData:
    @pytest.mark.parametrize("texts", [[], ["", " \n"]])
    def test_must_hold_something(self, texts):
        with pytest.raises(DataError, match="no texts to train a masker on"):
            train_briefly(small(), texts)

    def test_may_be_one_text(self):
        masker = train_briefly(small(), TEXTS[:1])
        assert masker.card.training["held_out"] == 0
        assert np.isfinite(masker.card.training["held_out_loss"])

    def test_may_be_longer_than_the_model_reads(self):
        model = small()
        masker = train_briefly(model, [LONG, *TEXTS], replace(BRIEF, tokens=32))
        ((words, keep),) = keeps(masker, model, [LONG], target=0)
        assert len(words) == len(keep) == 88
        assert torch.isfinite(keep).all()

    def test_may_be_pairs(self):
        model = small()
        masker = train_briefly(model, [(text, "Nobody laughed.") for text in TEXTS])
        ((words, keep),) = keeps(masker, model, [("The soup", "was bad")], target=1)
        assert len(words) == len(keep) == 4

    def test_a_text_that_is_none_is_told_at_once(self):
        with pytest.raises(InputError, match="an input is a text"):
            train_briefly(small(), ["a soup", 3])


class TestTheCourse:
    def test_is_told(self):
        shares, validations = [], []
        train_briefly(
            small(),
            TEXTS,
            replace(BRIEF, steps=10, validations=5),
            progress=shares.append,
            on_validation=validations.append,
        )
        assert shares == pytest.approx([(step + 1) / 10 for step in range(10)])
        assert [validation.step for validation in validations] == [2, 4, 6, 8, 10]
        assert validations[0].best
        assert min(validation.loss for validation in validations if validation.best) == min(
            validation.loss for validation in validations
        )

    def test_the_best_state_is_kept(self):
        """A rate that ruins the network in the end: what comes out is what was best on the way."""
        validations = []
        masker = train_briefly(
            small(),
            TEXTS,
            replace(BRIEF, steps=12, validations=12, learning_rate=0.5),
            on_validation=validations.append,
        )
        best = min(validations, key=lambda validation: validation.loss)
        assert masker.card.training["best_step"] == best.step
        assert masker.card.training["held_out_loss"] == pytest.approx(best.loss, abs=1e-6)

    def test_may_end_by_the_clock(self):
        masker = train_briefly(small(), TEXTS, replace(BRIEF, steps=10**9, minutes=0.005))
        assert 1 <= masker.card.training["steps"] < 10**6

    def test_may_go_for_masks_of_every_size(self):
        model = small()
        masker = train(model, TEXTS, BRIEF, replace(ONE_MASK, mask_weight=0.0, level_weight=1.0))
        assert all(((keep > 0) & (keep < 1)).all() for _, keep in keeps(masker, model, TEXTS, target=0))

    @pytest.mark.parametrize(
        "wrong",
        [
            {"steps": 0},
            {"minutes": -1.0},
            {"other_target_share": 1.0},
            {"width": 10, "heads": 4},
            {"learning_rate": "fast"},
            {"held_out": 0},
        ],
    )
    def test_settings_that_make_no_sense(self, wrong):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            TrainSettings(**wrong)


@pytest.mark.gpu
def test_what_was_trained_on_a_card_predicts_the_same_on_the_processor(tmp_path):
    module, tokenizer = tiny("bert")
    card = rationales.load(module, tokenizer, device="cuda")
    before = torch.cuda.get_rng_state()
    path = str(train(card, [*TEXTS, LONG], BRIEF).save(tmp_path / "m"))
    assert torch.equal(before, torch.cuda.get_rng_state())
    options = {"masker": path}
    there = rationales.explain(card, [*TEXTS, LONG], method="marc-instant", options=options)
    again = rationales.explain(card, [*TEXTS, LONG], method="marc-instant", options=options)
    assert all(np.array_equal(first.scores, second.scores) for first, second in zip(there, again, strict=True))
    here = rationales.load(*tiny("bert"))
    for text, first in zip([*TEXTS, LONG], there, strict=True):
        alone = rationales.explain(here, text, method="marc-instant", target=first.target, options=options)
        assert np.allclose(first.scores, alone.scores, atol=2e-3)
