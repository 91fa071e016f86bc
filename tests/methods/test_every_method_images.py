"""What must hold for every method on pictures: the same list as for texts, from the same registry."""

from __future__ import annotations

import copy
import functools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("PIL")
pytest.importorskip("skimage")

from models.image.test_model import SIDE, detector, preprocess, scene

from rationales.errors import InputError, ModelError, OptionError
from rationales.methods import METHODS, build
from rationales.models.image.loading import from_module
from rationales.pipeline.explain import explain as explain_any
from rationales.rationale import Grid

CELLS = {"cell": 8}
QUICK = {
    "marc": {"steps": 12, "cell": 4, "initial_w": 0.5, "initial_sigma": 4.0, "learning_rate": 0.1},
    "meaningful-perturbation": {"steps": 10, "cell": 4},
    "extremal-perturbation": {"steps": 8, "areas": "0.2,0.5", "cell": 4},
    "integrated-gradients": {"steps": 8},
    "gradient-shap": {"samples": 5},
    "smooth-grad": {"samples": 5},
    "occlusion": {"window": 8, "stride": 4},
    "rise": {"samples": 60},
    "lime": {"samples": 60} | CELLS,
    "kernel-shap": {"samples": 60} | CELLS,
    "shapley-sampling": {"orders": 2} | CELLS,
    "solvex": {"beams": 2, "passes": 200} | CELLS,
}
GOOD = {"marc": {"steps": 60, "cell": 2}, "meaningful-perturbation": {"steps": 100, "cell": 1}}
GOOD |= {"extremal-perturbation": {"steps": 80, "areas": "0.1,0.2", "cell": 1}}
GOOD |= {"rise": {"samples": 600}}
GOOD |= {"shapley-sampling": {"cell": 4}, "solvex": {"cell": 4, "beams": 1, "passes": 10_000}} | {
    name: {"cell": 4, "samples": samples} for name, samples in (("lime", 500), ("kernel-shap", 1000))
}
TOLERANCE = 2e-3
TEXTS = [name for name, method in METHODS.items() if {"texts", "a masker", "an AML masker"} & {*method.needs}]
INSIDE = [name for name, method in METHODS.items() if "attention" in method.needs]  # this network has none
EVERY = [name for name in METHODS if name not in (*TEXTS, *INSIDE)]
PICTURES = [scene(seed=seed, left=2 * seed, side=6 + 2 * seed) for seed in range(3)]


def network():
    """A convolutional classifier of three classes with what such networks have: strides, pooling, ReLUs in place."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU6(),
            nn.Dropout(0.5),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, 3),
        )
        with torch.no_grad():
            for weight in module.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.4)
    return module.eval()


def model_of(module, **arguments):
    return from_module(module, preprocess, ["a", "b", "c"], "network", **arguments)


def explain(model, pictures, method, **arguments):
    return explain_any(model, pictures, method=method, options=QUICK.get(method, {}), **arguments)


@functools.lru_cache(maxsize=8)
def results_together(method):
    """All pictures in one batch; what several tests compare with is computed once."""
    return explain(model_of(network()), PICTURES, method)


@functools.lru_cache(maxsize=16)
def result_alone(method, number):
    """One picture alone, under a global random state that no test has."""
    model = model_of(network())
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return explain(model, PICTURES[number], method)


# scope: the tests of a method follow each other, so that they share the results above
@pytest.mark.parametrize("method", EVERY, scope="class")
class TestEveryMethod:
    def test_alone_equals_in_a_batch_in_any_order(self, method):
        backwards = explain(model_of(network()), PICTURES[::-1], method)[::-1]
        for number, (mine, theirs) in enumerate(zip(results_together(method), backwards, strict=True)):
            alone = result_alone(method, number)
            assert np.allclose(mine.scores, alone.scores, atol=TOLERANCE)
            assert np.allclose(mine.scores, theirs.scores, atol=TOLERANCE)
            assert mine.target == alone.target
            assert mine.scores.std() > 0

    def test_same_seed_same_bits(self, method):
        second = explain(model_of(network()), PICTURES, method)
        assert all(
            np.array_equal(mine.scores, theirs.scores)
            for mine, theirs in zip(results_together(method), second, strict=True)
        )

    def test_the_budget_changes_nothing(self, method):
        model = model_of(network().double())
        encoded = model.encode([model.read(picture, None) for picture in PICTURES])
        target, built_method = torch.tensor([0, 1, 2]), build(method, QUICK.get(method, {}), "image")
        scores = []
        for budget in (1, 4, 1000):
            with model.frozen():
                batch = model.batch(encoded)
                batch.budget = budget
                scores.append(built_method.scores(batch, target).scores)
        assert torch.allclose(scores[0], scores[2], atol=1e-9)
        assert torch.allclose(scores[1], scores[2], atol=1e-9)

    def test_global_randomness_is_neither_read_nor_moved(self, method):
        model, expected = model_of(network()), result_alone(method, 0)
        torch.manual_seed(1)
        before = torch.random.get_rng_state()
        result = explain(model, PICTURES[0], method)
        assert torch.equal(before, torch.random.get_rng_state())
        assert np.array_equal(result.scores, expected.scores)

    def test_model_is_left_as_it_was(self, method):
        module = network().train()
        module[1].eval()
        module[0].weight.requires_grad_(False)
        weights = copy.deepcopy(module.state_dict())
        flags = [submodule.training for submodule in module.modules()]
        explain(model_of(module), PICTURES, method)
        assert [submodule.training for submodule in module.modules()] == flags
        assert [weight.requires_grad for weight in module.parameters()][:2] == [False, True]
        assert all(weight.grad is None for weight in module.parameters())
        assert not any(_hooks(submodule) for submodule in module.modules())
        assert all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())

    def test_model_is_left_as_it_was_after_an_exception(self, method):
        module = network().train()
        model = model_of(module)
        calls = []
        handle = module[-1].register_forward_hook(lambda *_: _interrupt_later(calls))
        with pytest.raises(KeyboardInterrupt):
            explain(model, PICTURES, method)
        handle.remove()
        assert all(submodule.training for submodule in module.modules())
        assert all(weight.requires_grad for weight in module.parameters())
        assert not any(_hooks(submodule) for submodule in module.modules())

    def test_scores_are_finite_one_per_pixel(self, method):
        for result in results_together(method):
            assert result.units == Grid(SIDE, SIDE)
            assert result.scores.shape == (SIDE * SIDE,)
            assert np.isfinite(result.scores).all()

    def test_padding_has_no_score_and_no_say(self, method):
        """The right half is padding: it stays as it is, and gets 0."""
        model = model_of(network())
        encoded = model.encode([model.read(picture, None) for picture in PICTURES])
        half = torch.zeros(SIDE, SIDE, dtype=torch.bool)
        half[:, : SIDE // 2] = True
        with model.frozen():
            batch = model.batch([replace(encoded_image, real=half) for encoded_image in encoded])
            scores = build(method, QUICK.get(method, {}), "image").scores(batch, torch.tensor([0, 1, 2])).scores
        assert not scores[:, ~half.flatten()].any()
        assert scores[:, half.flatten()].any()

    def test_a_model_that_gives_nan_is_reported_with_the_inputs_name(self, method):
        module = network()
        with torch.no_grad():
            module[-1].weight.fill_(float("nan"))
        with pytest.raises(InputError, match=r"NaN.*second"):
            explain(model_of(module), PICTURES[:1], method, names=["the second"])

    def test_works_where_gradients_are_switched_off(self, method):
        model, expected = model_of(network()), result_alone(method, 0)
        with torch.no_grad():
            assert np.array_equal(explain(model, PICTURES[0], method).scores, expected.scores)
        with torch.inference_mode():
            assert np.array_equal(explain(model, PICTURES[0], method).scores, expected.scores)

    def test_smoothing_brings_neighbours_together(self, method):
        plain, smoothed = result_alone(method, 0), explain(model_of(network()), PICTURES[0], method, smooth=3.0)
        rough = [np.abs(np.diff(result.scores.reshape(SIDE, SIDE))).mean() for result in (plain, smoothed)]
        assert rough[1] < rough[0]

    @pytest.mark.parametrize(("top", "left"), [(6, 14), (20, 3)])
    def test_finds_the_red_square(self, method, top, left):
        """Of the pixels with the highest scores, as many as the square has, most lie in it."""
        if method == "random":
            pytest.skip("random scores find nothing, as they should")
        options = QUICK.get(method, {}) | GOOD.get(method, {})
        result = explain_any(detector(), scene(top, left), target="red", method=method, options=options)
        truth = np.zeros((SIDE, SIDE), dtype=bool)
        truth[top : top + 10, left : left + 10] = True
        best = np.argsort(-result.scores, kind="stable")[: truth.sum()]
        assert truth.flatten()[best].mean() > 0.6

    @pytest.mark.parametrize(("label", "colour"), [("sea", (20, 30, 230)), ("flag", (230, 20, 30))])
    def test_finds_the_square_of_either_class_where_the_first_logit_is_constant(self, method, label, colour):
        """With logits (0, z) the first class is likely where z is low, and its own logit has no gradient."""
        if method == "random":
            pytest.skip("random scores find nothing, as they should")
        picture = scene(11, 11, side=10)
        picture[11:21, 11:21] = colour
        options = QUICK.get(method, {}) | GOOD.get(method, {})
        model = from_module(RedMinusBlue().eval(), preprocess, ["sea", "flag"], "colours")
        result = explain_any(model, picture, method=method, options=options)
        truth = np.zeros((SIDE, SIDE), dtype=bool)
        truth[11:21, 11:21] = True
        best = np.argsort(-result.scores, kind="stable")[: truth.sum()]
        assert result.target == label
        assert result.scores.max() > 0
        assert truth.flatten()[best].mean() > 0.6

    def test_against_another_class_only_what_tells_the_two_apart_counts(self, method):
        """Blue speaks for both classes, and louder than red, which speaks for the first alone."""
        if method == "random":
            pytest.skip("random scores find nothing, as they should")
        picture = scene(4, 4, side=10)
        picture[18:28, 18:28] = (20, 30, 230)
        options = QUICK.get(method, {}) | GOOD.get(method, {})
        model = from_module(RedOrBlue().eval(), preprocess, ["flag", "sea", "other"], "colours")
        result = explain_any(model, picture, target="flag", against="sea", method=method, options=options)
        scores = result.scores.reshape(SIDE, SIDE)
        assert scores[4:14, 4:14].mean() > 2 * scores[18:28, 18:28].mean()
        assert result.question == "flag rather than sea"

    def test_a_model_without_gradients_is_explained_by_methods_that_need_none(self, method):
        module = network()
        model = model_of(Blocked(module))
        if "gradients" in METHODS[method].needs:
            with pytest.raises(ModelError, match=r"no gradients with respect to its input.*use .*occlusion"):
                explain(model, PICTURES[0], method)
        else:
            plain = result_alone(method, 0)
            assert np.allclose(explain(model, PICTURES[0], method).scores, plain.scores, atol=TOLERANCE)


@pytest.mark.parametrize("method", [name for name in EVERY if "gradients" in METHODS[name].needs])
def test_a_model_may_overwrite_what_it_reads(method):
    """Some normalise in place. What is overwritten is a copy, each time."""
    again = explain(model_of(Overwriting(network())), PICTURES, method)
    assert all(
        np.allclose(mine.scores, overwritten.scores, atol=TOLERANCE)
        for mine, overwritten in zip(results_together(method), again, strict=True)
    )


@pytest.mark.parametrize("method", INSIDE)
def test_a_method_for_encoders_says_what_to_use_instead(method):
    with pytest.raises(ModelError, match=rf"{method} needs the attention.*convolutional.*use integrated-gradients"):
        explain(model_of(network()), PICTURES[0], method)


@pytest.mark.parametrize("method", [name for name in TEXTS if name != "marc-instant"])  # it has maskers of images
def test_a_method_for_texts_says_what_to_use_instead(method):
    with pytest.raises(OptionError, match=rf"{method}.*text models only; use (marc|occlusion|lime)"):
        explain(model_of(network()), PICTURES[0], method)


class RedOrBlue(nn.Module):
    """Red is evidence for the first class; blue for the first and the second, and three times as much."""

    def __init__(self):
        super().__init__()
        self.look = nn.Conv2d(3, 2, 5, padding=2)
        with torch.no_grad():
            self.look.weight.zero_()
            self.look.weight[0, 0], self.look.weight[0, 1] = 1 / 25, -1 / 25
            self.look.weight[1, 2], self.look.weight[1, 1] = 1 / 25, -1 / 25
            self.look.bias.fill_(-0.3)

    def forward(self, pixels):
        red, blue = self.look(pixels).relu().flatten(2).sum(2).div(5).unbind(1)
        return torch.stack([red + 3 * blue, 3 * blue, torch.zeros_like(red)], 1)


class RedMinusBlue(RedOrBlue):
    """Logits (0, z): red raises z, blue lowers it."""

    def forward(self, pixels):
        red, blue = self.look(pixels).relu().flatten(2).sum(2).div(5).unbind(1)
        return torch.stack([torch.zeros_like(red), red - blue], 1)


class Overwriting(nn.Module):
    """The same classifier, for pixels that it doubles and halves where they lie."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, pixels):
        return self.module(pixels.mul_(2).div_(2))


class Blocked(nn.Module):
    """A classifier that lets no gradients through."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, pixels):
        return self.module(pixels.detach()).detach()


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
