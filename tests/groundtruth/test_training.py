"""Small trainings end to end: a model learns the plant, is shown to rely on it, and tells when it does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("PIL")

from rationales.data import Example
from rationales.errors import DataError, ModelError, OptionError
from rationales.evaluation.scores.attribution import attribute
from rationales.groundtruth import find_plant, image_example, modify, split
from rationales.groundtruth.encoded_examples import encode_images, encode_texts
from rationales.groundtruth.explainable import Inherent, image_model, near_rate, selection_rate, word_model
from rationales.groundtruth.metrics import (
    Case,
    attribution_by_label,
    attribution_on_distractors,
    attribution_on_region,
    attribution_share,
    selection_quality,
)
from rationales.groundtruth.networks.rationale_models import RationaleModel, SelectionSettings
from rationales.groundtruth.networks.recurrent import AttentionLSTM
from rationales.groundtruth.networks.resnet import ResNet
from rationales.groundtruth.networks.transformer import TextTransformer
from rationales.groundtruth.networks.vocabulary import word_tokenizer
from rationales.groundtruth.plants.regions import units_in_region
from rationales.groundtruth.training import EncodedSplits, Recipe, count_correct, train
from rationales.methods import build

NOUNS = ["bread", "sea", "owl", "film", "heart", "cup", "hill", "door", "song", "lamp"]
VERBS = ["has", "sees", "wants", "likes", "keeps", "finds"]


def sentences(count, seed=0):
    """Random sentences with four articles each, two in each half."""
    rng = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        words = []
        for _ in range(4):
            words += [str(rng.choice(["the", "a", "an"])), str(rng.choice(NOUNS)), str(rng.choice(VERBS))]
        examples.append(Example(f"s{number}", " ".join(words), str(rng.choice(["no", "yes"]))))
    return examples


def planted_texts(plant, count=500):
    splits = split(sentences(count))
    modified = [modify(members, find_plant(plant)) for members in (splits.train, splits.val, splits.test)]
    tokenizer = word_tokenizer(example.text for example in modified[0].examples)
    return (
        modified,
        tokenizer,
        EncodedSplits(*(encode_texts(data.examples, data.labels, tokenizer) for data in modified)),
    )


def planted_pictures(count=160, side=32):
    rng = np.random.default_rng(0)
    images = []
    for number in range(count):
        soft = np.kron(rng.integers(40, 216, (4, 4, 3)), np.ones((side // 4, side // 4, 1)))
        images.append(image_example(f"p{number}", soft.astype(np.uint8), "ab"[number % 2]))
    splits = split(images)
    modified = [
        modify(members, find_plant("noise", {"share": 0.1})) for members in (splits.train, splits.val, splits.test)
    ]
    return modified, EncodedSplits(*(encode_images(data.examples, data.labels) for data in modified))


def cases(model, modified, method, count=40):
    planted_examples = modified.planted[:count]
    encoded = model.encode(
        [model.read(planted.example.raw_input(), planted.example.name) for planted in planted_examples]
    )
    attributions = attribute(
        model, encoded, method, [modified.labels.index(planted.example.label) for planted in planted_examples]
    )
    result = []
    for planted, attribution, encoded_input in zip(planted_examples, attributions, encoded, strict=True):
        regions = (
            [
                units_in_region(region, encoded_input.units, planted.example.text)
                for region in (planted.region, planted.distractors)
            ]
            if model.kind == "text"
            else [planted.region.flatten(), planted.distractors.flatten()]
        )
        result.append(Case(attribution.scores, *regions, planted.example.label, planted.example.name))
    return result


class TestTexts:
    def test_attention_learns_articles_and_every_claim_can_be_checked(self):
        (train_data, _, test), tokenizer, data = planted_texts("articles")
        trained = train(lambda: AttentionLSTM(len(tokenizer), test.labels, 16, 16), data, Recipe(10, batch_size=32))
        assert trained.reached_target
        assert trained.reliance(train_data.bound).relies
        model = word_model(trained.module, tokenizer)
        for method in (Inherent(), build("integrated-gradients"), build("occlusion", {"window": 1})):
            share = attribution_on_region(cases(model, test, method))
            assert share.attribution.low > share.area.mean  # four of twelve words
        chance = attribution_on_region(cases(model, test, build("random")))
        assert chance.attribution.low < chance.area.mean < chance.attribution.high

    def test_a_transformer_learns_where_to_look(self):
        """CN: only the articles of the first half tell; leaving out one word at a time finds these, not the others."""
        (train_data, _, test), tokenizer, data = planted_texts("cn")
        recipe = Recipe(20, learning_rate=2e-3, batch_size=32)
        trained = train(lambda: TextTransformer(len(tokenizer), test.labels, 32, 1, 2, 64), data, recipe)
        assert trained.reached_target
        assert trained.reliance(train_data.bound).relies
        scored = cases(word_model(trained.module, tokenizer), test, build("occlusion", {"window": 1}))
        assert (
            attribution_on_region(scored).attribution.low
            > attribution_on_region(scored).area.mean
            > attribution_on_distractors(scored).attribution.high
        )

    @pytest.mark.parametrize("learning", ["reinforce", "hardkuma"])
    def test_rationale_models_select_the_plant_at_the_wanted_rate(self, learning):
        (train_data, _, test), tokenizer, data = planted_texts("articles")
        settings = SelectionSettings(learning, rate=1 / 3)
        trained = train(
            lambda: RationaleModel(len(tokenizer), test.labels, settings, 16, 16),
            data,
            Recipe(30, min_epochs=12, learning_rate=4e-3, batch_size=32),
            seed=2,
            stop_condition=near_rate(1 / 3, 0.1),
        )
        assert trained.reached_target, trained.failure
        assert trained.reliance(train_data.bound).relies
        scored = cases(word_model(trained.module, tokenizer), test, Inherent(), 60)
        quality = selection_quality(scored, [case.scores > 0 for case in scored])
        assert quality.selection_rate.mean == pytest.approx(selection_rate(trained.module, data.test), abs=0.06)
        assert quality.precision.low > 0.5  # one in three by chance


def grain_learned(**options):
    """Planted pictures, and a small network that has learned to tell them."""
    parts, data = planted_pictures()
    trained = train(
        lambda: ResNet(2, (1, 1), 8),
        data,
        Recipe(25, learning_rate=3e-3, batch_size=32),
        epoch_data=lambda number: encode_images(parts[0].redraw(number).examples, parts[0].labels),
        **options,
    )
    assert trained.reached_target, trained.failure
    return parts, trained


class TestPictures:
    def test_a_network_learns_noise_and_the_methods_are_told_apart(self):
        (train_data, _, test), trained = grain_learned()
        assert trained.reliance(train_data.bound).relies
        model = image_model(trained.module, 32, test.labels)
        chance, gradient = (
            attribution_by_label(cases(model, test, build(name, kind="image"))) for name in ("random", "saliency")
        )
        for label, share in chance.items():
            assert share.attribution.mean == pytest.approx(share.area.mean, abs=0.03)
            assert share.area.mean == pytest.approx(test.area)
            assert gradient[label].attribution.mean != pytest.approx(share.attribution.mean, abs=1e-3)

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA card")
    def test_steps_in_half_precision_learn_it_too(self):
        _, trained = grain_learned(half_precision=True)
        assert all(weight.dtype == torch.float32 and weight.is_contiguous() for weight in trained.module.parameters())

    def test_pictures_of_several_sizes_are_told(self):
        images = [image_example(str(side), np.zeros((side, side, 3), np.uint8), "a") for side in (8, 9)]
        with pytest.raises(DataError, match="load_images"):
            encode_images(images, ("a", "b"))


class Linear(nn.Module):
    """Reads the mean colour, which tells nothing."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, pixels):
        return self.layer(pixels.mean((-2, -1)))


class TestTrain:
    def test_a_model_that_never_gets_there_says_why(self):
        _, data = planted_pictures(80)
        trained = train(Linear, data, Recipe(3))
        assert not trained.reached_target
        assert "in 3 epochs was" in trained.failure
        assert "not above the 97%" in trained.failure
        assert not trained.reliance(0.9).relies
        best = max(epoch.accuracy for epoch in trained.history)
        assert count_correct(trained.module, data.val) / len(data.val) == best  # the best epoch comes back

    def test_the_same_seed_gives_the_same_model_and_leaves_the_global_state(self):
        _, data = planted_pictures(80)
        before = torch.random.get_rng_state()
        first, second, third = (train(Linear, data, Recipe(2), seed=seed).module.layer.weight for seed in (1, 1, 2))
        assert torch.equal(first, second)
        assert not torch.equal(first, third)
        assert torch.equal(before, torch.random.get_rng_state())
        halved = train(Linear, data, Recipe(2), seed=1, device="cpu", half_precision=True).module.layer.weight
        plain = train(Linear, data, Recipe(2), seed=1, device="cpu").module.layer.weight
        assert torch.equal(plain, halved)  # a matter of cards alone

    def test_what_is_told_on_the_way(self):
        _, data = planted_pictures(80)
        shares, epochs = [], []
        train(
            Linear,
            data,
            Recipe(3),
            progress=shares.append,
            on_epoch=lambda epoch, module: epochs.append((epoch, module)),
        )
        assert shares == pytest.approx([1 / 3, 2 / 3, 1])
        assert [epoch.number for epoch, _ in epochs] == [1, 2, 3]
        assert not epochs[0][1].training

    def test_a_further_condition_can_keep_it_from_stopping(self):
        _, _, data = planted_texts("trigger", 120)
        recipe = Recipe(12, learning_rate=1e-2, batch_size=16)
        trained = train(
            lambda: TextTransformer(60, ("no", "yes"), 16, 1, 2, 64), data, recipe, stop_condition=lambda *_: False
        )
        assert not trained.reached_target
        assert "further condition" in trained.failure

    def test_a_diverging_training_is_told(self):
        _, data = planted_pictures(80)

        class Broken(Linear):
            def forward(self, pixels):
                return super().forward(pixels) * float("nan")

        with pytest.raises(ModelError, match="diverged in epoch 1"):
            train(Broken, data, Recipe(2))

    def test_batches_hold_every_text_once_and_like_lengths_together(self):
        rng = np.random.default_rng(0)
        examples = [Example(str(index), "the sea " * int(rng.integers(1, 30)), "no") for index in range(300)]
        encoded_texts = encode_texts(examples, ("no", "yes"), word_tokenizer(["the sea"]))
        order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
        batches = list(encoded_texts.batches(16, order))
        assert sorted(torch.cat(batches).tolist()) == list(range(300))
        spread = np.mean([float(encoded_texts.lengths[batch].float().std()) for batch in batches if len(batch) > 1])
        assert spread < 0.3 * float(encoded_texts.lengths.float().std())
        middles = [float(encoded_texts.lengths[batch].float().mean()) for batch in batches]
        assert middles != sorted(middles)

    @pytest.mark.parametrize(
        "wrong", [{"epochs": 0}, {"target_accuracy": 1.5}, {"learning_rate": 0.0}, {"batch_size": 0}]
    )
    def test_mistakes_in_a_recipe_are_told(self, wrong):
        with pytest.raises(OptionError):
            Recipe(**wrong)

    def test_texts_that_do_not_fit_are_told(self):
        words = word_tokenizer(["the sea"], max_length=4)
        with pytest.raises(DataError, match="has 6 tokens, the model takes 4; cut texts first"):
            encode_texts([Example("one", "the sea the sea the sea", "no")], ("no", "yes"), words)
        with pytest.raises(DataError, match="must be one of no, yes"):
            encode_texts([Example("one", "the sea", "perhaps")], ("no", "yes"), words)
        with pytest.raises(DataError, match="no examples to train"):
            encode_texts([], ("no", "yes"), words)


def test_a_scorer_that_knows_the_plant_reaches_1_on_every_plant():
    """The measure itself: scores that are the region, for texts and for pictures."""
    (train_data, _, _), _ = planted_pictures(60)
    for planted in train_data.planted[:5]:
        assert attribution_share(planted.region.flatten().astype(float), planted.region.flatten()) == 1.0
