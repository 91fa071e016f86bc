"""What must hold for every method on an image with a text: the same list as for texts and images."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from families import tokenizer_of
from torch import nn

pytest.importorskip("PIL")
pytest.importorskip("skimage")

from models.multimodal.pairs import SIDE, TEXTS, SmallNetwork, preprocess, red_and_word, scene, small_model

import rationales
from rationales.errors import InputError, ModelError, OptionError
from rationales.methods import METHODS, build

CELLS = {"cell": 6}
QUICK = {
    "marc": {"steps": 10, "cell": 4, "warmup_steps": 3},
    "integrated-gradients": {"steps": 6},
    "gradient-shap": {"samples": 4},
    "smooth-grad": {"samples": 4},
    "occlusion": {"window": 8, "stride": 4},
    "lime": {"samples": 50} | CELLS,
    "kernel-shap": {"samples": 50} | CELLS,
    "shapley-sampling": {"orders": 2} | CELLS,
    "solvex": {"beams": 2, "passes": 200} | CELLS,
}
GOOD = {"marc": {"steps": 40, "cell": 2, "warmup_steps": 10}, "occlusion": {"window": 4, "stride": 2}}
GOOD |= {"shapley-sampling": {"cell": 4, "orders": 6}, "solvex": {"cell": 4, "beams": 1, "passes": 10_000}} | {
    name: {"cell": 4, "samples": 400} for name in ("lime", "kernel-shap")
}
TOLERANCE = 2e-3
TEXTS_ONLY = [name for name, method in METHODS.items() if {"texts", "a masker", "an AML masker"} & {*method.needs}]
INSIDE = [name for name, method in METHODS.items() if {"attention", "feature maps", "images"} & {*method.needs}]
INSIDE += ["meaningful-perturbation", "extremal-perturbation"]  # one grid or one line of cells
EVERY = [name for name in METHODS if name not in (*TEXTS_ONLY, *INSIDE)]
PAIRS = [(scene(seed=seed, left=4 * seed, side=4 + 2 * seed), text) for seed, text in enumerate(TEXTS)]


def explain(model, pairs, method, **arguments):
    return rationales.explain(model, pairs, method=method, options=QUICK.get(method, {}), **arguments)


def network_model(module=None):
    return small_model(module, baseline="pad; black, mean")


@pytest.mark.parametrize("method", EVERY)
class TestEveryMethod:
    def test_alone_equals_in_a_batch_in_any_order(self, method):
        model = network_model()
        together = explain(model, PAIRS, method)
        backwards = explain(model, PAIRS[::-1], method)[::-1]
        for pair, mine, theirs in zip(PAIRS, together, backwards, strict=True):
            alone = explain(model, pair, method)
            assert np.allclose(mine.scores, alone.scores, atol=TOLERANCE)
            assert np.allclose(mine.scores, theirs.scores, atol=TOLERANCE)
            assert mine.target == alone.target
            assert mine.text_part.scores.std() > 0
            assert mine.image_part.scores.std() > 0

    def test_same_seed_same_bits_whatever_the_global_state(self, method):
        model = network_model()
        torch.manual_seed(1)
        before = torch.random.get_rng_state()
        first = explain(model, PAIRS, method, seed=7)
        assert torch.equal(before, torch.random.get_rng_state())
        torch.manual_seed(2)
        with torch.no_grad():
            second = explain(model, PAIRS, method, seed=7)
        assert all(np.array_equal(mine.scores, theirs.scores) for mine, theirs in zip(first, second, strict=True))

    def test_the_budget_changes_nothing(self, method):
        model = network_model(SmallNetwork().double().eval())
        encoded = model.encode([model.read(pair, None) for pair in PAIRS])
        target, built_method = torch.tensor([0, 1, 2]), build(method, QUICK.get(method, {}), "image-text")
        scores = []
        for budget in (1, 40, 10_000):
            with model.frozen():
                batch = model.batch(encoded)
                batch.budget = budget
                scores.append(built_method.scores(batch, target).scores)
        assert torch.allclose(scores[0], scores[2], atol=1e-9)
        assert torch.allclose(scores[1], scores[2], atol=1e-9)

    def test_model_is_left_as_it_was(self, method):
        module = SmallNetwork().train()
        module.norm.eval()
        module.words.weight.requires_grad_(False)
        weights = copy.deepcopy(module.state_dict())
        flags = [submodule.training for submodule in module.modules()]
        gradient_flags = [weight.requires_grad for weight in module.parameters()]
        model = network_model(module)
        results = explain(model, PAIRS, method)
        calls = []
        handle = module.classifier.register_forward_hook(lambda *_: _interrupt_later(calls))
        with pytest.raises(KeyboardInterrupt):
            explain(model, PAIRS, method)
        handle.remove()
        assert [submodule.training for submodule in module.modules()] == flags
        assert [weight.requires_grad for weight in module.parameters()] == gradient_flags
        assert all(weight.grad is None for weight in module.parameters())
        assert not any(_hooks(submodule) for submodule in module.modules())
        assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())
        for result in results:
            assert np.isfinite(result.scores).all()
            assert result.scores.shape == (len(result.words) + SIDE * SIDE,)

    def test_padding_has_no_score_and_no_say(self, method):
        """The right half of the picture is padding: it stays as it is, and gets 0; so do words that are not there."""
        model = network_model()
        encoded = model.encode([model.read(pair, None) for pair in PAIRS])
        half = torch.zeros(SIDE, SIDE, dtype=torch.bool)
        half[:, : SIDE // 2] = True
        with model.frozen():
            batch = model.batch([replace(pair, real=half) for pair in encoded])
            target = torch.tensor([0, 1, 2])
            scores = build(method, QUICK.get(method, {}), "image-text").scores(batch, target).scores
        assert not scores[~batch.rows.real].any()
        assert scores[:, : SIDE * SIDE][:, half.flatten()].any()

    def test_a_model_that_gives_nan_is_reported_with_the_inputs_name(self, method):
        module = SmallNetwork().eval()
        with torch.no_grad():
            module.classifier.weight.fill_(float("nan"))
        with pytest.raises(InputError, match=r"NaN.*second"):
            explain(network_model(module), PAIRS[:1], method, names=["the second"])

    @pytest.mark.parametrize("cause", ["words", "picture", "both"])
    def test_finds_the_cause_in_the_words_in_the_picture_or_in_both(self, method, cause):
        """A cause in one part only: nothing in the other part outweighs it. The truth: 'bridge', and a red square."""
        if method == "random":
            pytest.skip("random scores find nothing, as they should")
        weights = {"words": (0.0, 1.0), "picture": (1.0, 0.0), "both": (0.5, 0.5)}[cause]
        model = red_and_word(picture_weight=weights[0], word_weight=weights[1])
        pair = (scene(3, 12, side=8), "the old stone bridge was calm")
        options = QUICK.get(method, {}) | GOOD.get(method, {})
        result = rationales.explain(model, pair, target="found", method=method, options=options)
        words, pixels = result.text_part.scores, result.image_part.scores.reshape(SIDE, SIDE)
        truth = np.zeros((SIDE, SIDE), dtype=bool)
        truth[3:11, 12:20] = True
        if cause != "picture":
            assert words.argmax() == 3
            assert np.delete(words, 3).max() < words[3]
        if cause != "words":
            best = np.argsort(-pixels.flatten(), kind="stable")[: truth.sum()]
            assert truth.flatten()[best].mean() > 0.6

    def test_of_a_class_whose_logit_is_constant_the_cause_is_found(self, method):
        if method == "random":
            pytest.skip("random scores find nothing, as they should")
        module = ConstantLogit().eval()
        model = rationales.load(
            module, (tokenizer_of("bert"), preprocess), labels=["absent", "found"], baseline="pad; mean"
        )
        options = QUICK.get(method, {}) | GOOD.get(method, {})
        result = rationales.explain(model, (scene(), "the old stone bridge"), method=method, options=options)
        assert result.target == "found"
        assert result.text_part.scores.argmax() == 3

    def test_a_model_without_gradients_is_explained_by_methods_that_need_none(self, method):
        module = SmallNetwork().eval()
        model = network_model(Blocked(module))
        if "gradients" in METHODS[method].needs:
            with pytest.raises(ModelError, match=r"no gradients with respect to its input.*use .*occlusion"):
                explain(model, PAIRS[0], method)
        else:
            plain = explain(network_model(module), PAIRS[0], method)
            assert np.allclose(explain(model, PAIRS[0], method).scores, plain.scores, atol=TOLERANCE)


@pytest.mark.parametrize("method", [*TEXTS_ONLY, *INSIDE])
def test_a_method_for_texts_or_images_alone_says_what_to_use_instead(method):
    with pytest.raises(OptionError, match=rf"{method}.*use (marc|occlusion|lime|integrated-gradients|saliency)"):
        explain(network_model(), PAIRS[0], method)


def test_smoothing_stays_within_a_part():
    """However wide: the mean over words is that of words alone."""
    model = network_model()
    plain, smoothed = (explain(model, PAIRS[1], "saliency", smooth=smooth) for smooth in (None, 1e4))
    for original, flat in ((plain.text_part, smoothed.text_part), (plain.image_part, smoothed.image_part)):
        assert np.allclose(flat.scores, original.scores.mean(), rtol=0.02)


class ConstantLogit(nn.Module):
    """Logits (0, z): the keyword and red raise z."""

    def __init__(self):
        super().__init__()
        self.evidence = red_and_word().network.module

    def get_input_embeddings(self):
        return self.evidence.embeddings

    def forward(self, pixel_values, input_ids, attention_mask):
        logits = self.evidence(pixel_values, input_ids, attention_mask)
        return torch.stack([torch.zeros_like(logits[:, 0]), logits[:, 1] - logits[:, 0]], 1)


class Blocked(nn.Module):
    """A classifier that lets no gradients through."""

    def __init__(self, module):
        super().__init__()
        self.module, self.config = module, module.config

    def get_input_embeddings(self):
        return self.module.words

    def forward(self, pixel_values, input_ids, attention_mask):
        with torch.no_grad():
            return self.module(pixel_values, input_ids, attention_mask)


def _hooks(submodule):
    return (
        submodule._forward_hooks
        or submodule._forward_pre_hooks
        or submodule._backward_hooks
        or submodule._backward_pre_hooks
    )


def _interrupt_later(calls):
    """After the first answer, which is the pipeline's own: in the middle of the method's work."""
    calls.append(None)
    if len(calls) > 1:
        raise KeyboardInterrupt
