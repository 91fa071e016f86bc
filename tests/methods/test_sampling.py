"""Methods that sample, against their formulas written out, on the sets and points that they drew themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from families import tiny
from reference import rivals

import rationales
from methods.test_every_method_images import PICTURES, model_of, network
from rationales.errors import OptionError
from rationales.methods import build
from rationales.methods.support.feature_groups import feature_groups
from rationales.models.batch.rows import fold, normal, uniform
from rationales.models.text.tokens import TextInput

TEXTS = ["The soup was bad.", "Dull.", "Nobody laughed at the joke, not even he who told it."]
TARGET = torch.tensor([2, 0, 1])


@pytest.fixture(scope="module")
def words():
    """A model in float64 and three texts of different length in one batch."""
    module, tokenizer = tiny("bert")
    model = rationales.load(module.double(), tokenizer)
    return model, model.batch(model.encode([TextInput(text) for text in TEXTS]))


@pytest.fixture(scope="module")
def pixels():
    model = model_of(network().double(), baselines=("mean",))
    return model, model.batch(model.encode([model.read(picture, None) for picture in PICTURES]))


def scores(model, batch, method, **options):
    kind = "text" if batch.grid is None else "image"
    with model.frozen():
        return build(method, options, kind).scores(batch, TARGET).scores


def games(model, batch, cell=0):
    """For each row its game (what a set of kept units is worth, by the plain batch) and its number of players."""
    groups = feature_groups(batch, cell)

    def game_of(row):
        known = {}
        index = torch.nonzero(groups.real[row]).flatten()

        def game(chosen):
            if chosen not in known:
                kept = torch.zeros(groups.real.shape[1], dtype=batch.dtype)
                kept[index[list(chosen)]] = 1
                keep = batch.ones()
                keep[row] = groups.spread(kept)
                with model.frozen(), torch.no_grad():
                    alone = batch.take([row])
                    keep = keep[row : row + 1, : alone.size[1]]
                    known[chosen] = float(alone.logits(keep).softmax(-1)[0, TARGET[row]])
            return known[chosen]

        return game

    return [(game_of(row), int(groups.count[row])) for row in range(batch.size[0])]


def orders_of(batch, row, count, orders, cell=0):
    groups, rank = feature_groups(batch, cell), torch.tensor([row])
    ranks = [groups.order(batch, rank, torch.tensor([[number]]))[0, 0] for number in range(orders)]
    return [rank.argsort()[:count].tolist() for rank in ranks]


class TestShapleySampling:
    def test_equals_the_algorithm_on_the_same_orders(self, words):
        model, batch = words
        actual = scores(model, batch, "shapley-sampling", orders=3)
        for row, (game, count) in enumerate(games(model, batch)):
            expected = rivals.shapley_from_orders(game, orders_of(batch, row, count, 3))
            assert actual[row, :count].tolist() == pytest.approx(expected.tolist(), abs=1e-9)
            assert not actual[row, count:].any()

    @pytest.mark.parametrize("units_per_step", [2, 3, 100])
    def test_units_of_a_step_share_what_it_adds(self, words, units_per_step):
        model, batch = words
        actual = scores(model, batch, "shapley-sampling", orders=3, units_per_step=units_per_step)
        for row, (game, count) in enumerate(games(model, batch)):
            expected = rivals.shapley_from_orders(game, orders_of(batch, row, count, 3), units_per_step)
            assert actual[row, :count].tolist() == pytest.approx(expected.tolist(), abs=1e-9)
            change = game(frozenset(range(count))) - game(frozenset())
            assert float(actual[row].sum()) == pytest.approx(change, abs=1e-9)
            assert not actual[row, count:].any()

    def test_adds_up_on_pictures_and_every_pixel_has_its_cells_score(self, pixels):
        model, batch = pixels
        actual = scores(model, batch, "shapley-sampling", orders=2, cell=8).view(3, 32, 32)
        cells = actual[:, ::8, ::8]
        assert torch.equal(actual, cells.repeat_interleave(8, 1).repeat_interleave(8, 2))
        for row, (game, count) in enumerate(games(model, batch, 8)):
            assert count == 16
            change = game(frozenset(range(16))) - game(frozenset())
            assert float(cells[row].sum()) == pytest.approx(change, abs=1e-9)
            expected = rivals.shapley_from_orders(game, orders_of(batch, row, count, 2, 8))
            assert cells[row].flatten().tolist() == pytest.approx(expected.tolist(), abs=1e-9)

    def test_every_word_is_first_as_often_as_another(self, words):
        """Within five standard deviations of a fair draw."""
        _, batch = words
        groups, orders = feature_groups(batch), 5000
        count = int(groups.count[2])
        first = groups.order(batch, torch.tensor([2]), torch.arange(orders)[:, None])[:, 0].argmin(-1)
        share = torch.bincount(first, minlength=count) / orders
        assert len(share) == count
        assert (share - 1 / count).abs().max() < 5 * (1 / count * (1 - 1 / count) / orders) ** 0.5


class TestKernelShap:
    def test_all_sets_give_the_exact_values(self, words):
        """Five units have 30 sets between nothing and everything."""
        model, batch = words
        actual = scores(model, batch, "kernel-shap", samples=30)
        assert [count for _, count in games(model, batch)[:2]] == [5, 2]
        for row, (game, count) in enumerate(games(model, batch)[:2]):
            assert actual[row, :count].tolist() == pytest.approx(rivals.shapley(game, count).tolist(), abs=1e-9)

    @pytest.mark.parametrize("samples", [100, 101])
    def test_equals_the_regression_on_the_same_sets(self, words, samples):
        model, batch = words
        method = build("kernel-shap", {"samples": samples})
        actual = scores(model, batch, "kernel-shap", samples=samples)
        groups = feature_groups(batch)
        game, count = games(model, batch)[2]
        kept = method.kept(batch, groups, torch.tensor([2]), torch.arange(samples))[:, 0]
        sets = [frozenset(torch.nonzero(kept_set).flatten().tolist()) for kept_set in kept]
        assert all(0 < len(chosen) < count for chosen in sets)
        assert sets[1] == frozenset(range(count)) - sets[0]
        expected = rivals.kernel_shap(game, sets, count, [1.0] * samples)
        assert actual[2, :count].tolist() == pytest.approx(expected.tolist(), abs=1e-8)

    def test_sets_are_drawn_by_the_kernel(self, words):
        """The sizes of many sets follow the kernel times the number of sets of each size."""
        _, batch = words
        groups = feature_groups(batch)
        count, samples = int(groups.count[2]), 20_000
        method = build("kernel-shap", {"samples": 100})
        sizes = method.kept(batch, groups, torch.tensor([2]), torch.arange(samples))[:, 0].sum(-1)
        share = np.array([1 / (size * (count - size)) for size in range(1, count)])
        frequencies = np.bincount(sizes.numpy(), minlength=count)[1:count] / samples
        assert np.abs(frequencies - share / share.sum()).max() < 5 * 0.5 / samples**0.5

    def test_fewer_samples_than_words_still_add_up(self, words):
        model, batch = words
        actual = scores(model, batch, "kernel-shap", samples=4)
        for row, (game, count) in enumerate(games(model, batch)):
            change = game(frozenset(range(count))) - game(frozenset())
            assert float(actual[row].sum()) == pytest.approx(change, abs=1e-9)

    def test_cells_behind_padding(self, pixels):
        """Only four cells are real, and none of them is the first: their values are exact all the same."""
        model, batch = pixels
        real = torch.zeros(32, 32, dtype=torch.bool)
        real[8:24, 8:24] = True
        encoded = model.encode([model.read(picture, None) for picture in PICTURES])
        batch = model.batch([replace(kept_set, real=real) for kept_set in encoded])
        actual = scores(model, batch, "kernel-shap", samples=20, cell=8).view(3, 32, 32)
        game, count = games(model, batch, 8)[0]
        assert count == 4
        assert actual[0, 8:24:8, 8:24:8].flatten().tolist() == pytest.approx(rivals.shapley(game, 4).tolist(), abs=1e-9)
        assert not actual[:, ~real].any()


class TestLime:
    @pytest.mark.parametrize(
        "options", [{}, {"kernel": 0.0, "ridge": 1e-6}, {"min_share": 0.1, "max_share": 0.4, "following": 2}]
    )
    def test_equals_the_regression_on_the_same_sets(self, words, options):
        model, batch = words
        options = {"samples": 80} | options
        method = build("lime", options)
        actual = scores(model, batch, "lime", **options)
        groups = feature_groups(batch)
        for row, (game, count) in enumerate(games(model, batch)):
            kept = method.kept(batch, groups, torch.tensor([row]), torch.arange(80))[:, 0, :count]
            sets = [frozenset(torch.nonzero(kept_set).flatten().tolist()) for kept_set in kept]
            assert sets[0] == frozenset(range(count))
            expected = rivals.lime(game, sets, count, options.get("kernel", 0.25), options.get("ridge", 1.0))
            assert actual[row, :count].tolist() == pytest.approx(expected.tolist(), abs=1e-7)
            assert not actual[row, count:].any()

    def test_the_paper_replaces_a_few_words_and_the_three_after_each(self, words):
        """Of 40 words 2 to 5 are picked, each with the next three, as far as there are any."""
        module, tokenizer = tiny("bert")
        model = rationales.load(module, tokenizer)
        batch = model.batch(model.encode([TextInput("bread " * 40)]))
        method = build("lime", {"preset": "paper"})
        assert (method.samples, method.kernel, method.ridge) == (50, 0.0, 0.0)
        hidden = ~method.kept(batch, feature_groups(batch), torch.tensor([0]), torch.arange(500))[:, 0]
        assert not hidden[0].any()
        picked = set()
        for row in hidden[1:].tolist():
            runs = "".join("x" if kept_set else "." for kept_set in row).split(".")
            assert all(len(run) >= 4 for run in runs[:-1] if run)
            picked.add(sum(row))
        assert min(picked) >= 2  # the last two words, which nothing follows
        assert max(picked) == 20

    def test_the_smallest_solution_where_words_outnumber_samples(self, words):
        model, batch = words
        actual = scores(model, batch, "lime", samples=6, ridge=0.0)
        nearly = scores(model, batch, "lime", samples=6, ridge=1e-9)
        assert torch.allclose(actual, nearly, atol=1e-5)

    def test_cells_have_no_next_one(self, pixels):
        with pytest.raises(OptionError, match="following is for texts"):
            scores(*pixels, "lime", following=3)


class TestNoise:
    """The same draws, the formulas by hand, row by row without the batch's own loop."""

    def gradient(self, model, batch, row, point, output):
        alone = batch.take([row])
        embedded = point[None].clone().requires_grad_()
        with model.frozen():
            logits = alone.logits_from(embedded)[0]
            probability = logits.softmax(-1)[TARGET[row]]
            value = logits[TARGET[row]] if output == "logit" else (probability / (1 - probability)).log()
            return torch.autograd.grad(value, embedded)[0][0]

    def sample_noise(self, batch, row, samples):
        """(samples, *read) noise relative to the strength of what is read."""
        alone = batch.take([row])
        read, inside = alone.input_embeddings()[0], alone.unit_region()[0].expand_as(alone.input_embeddings()[0])
        keys = fold(fold(alone.rows.key.repeat(samples), torch.arange(samples)), 0)
        return read, normal(keys, read.shape, read.dtype) * read[inside].square().mean().sqrt() * inside

    @pytest.mark.parametrize("kind", ["words", "pixels"])
    @pytest.mark.parametrize("output", ["logit", "log-odds"])
    def test_smooth_grad(self, kind, output, request):
        model, batch = request.getfixturevalue(kind)
        actual = scores(model, batch, "smooth-grad", samples=4, noise=0.3, output=output)
        for row in range(3):
            read, noise = self.sample_noise(batch, row, 4)
            noisy_gradients = torch.stack(
                [self.gradient(model, batch, row, read + 0.3 * sample, output) for sample in noise]
            )
            mean = noisy_gradients.mean(0)
            expected = batch.take([row]).to_units(mean[None], "norm")[0]
            assert torch.allclose(actual[row, : len(expected)], expected, atol=1e-10)

    @pytest.mark.parametrize("kind", ["words", "pixels"])
    @pytest.mark.parametrize("output", ["logit", "log-odds"])
    def test_gradient_shap(self, kind, output, request):
        model, batch = request.getfixturevalue(kind)
        actual = scores(model, batch, "gradient-shap", samples=4, noise=0.2, output=output)
        for row in range(3):
            alone = batch.take([row])
            read, noise = self.sample_noise(batch, row, 4)
            empty, total = alone.all_replaced()[0], torch.zeros_like(read)
            for sample in range(4):
                position = uniform(fold(alone.rows.key, sample, 1), 1)[0, 0]
                difference = read + 0.2 * noise[sample] - empty
                total += difference * self.gradient(model, batch, row, empty + position * difference, output) / 4
            expected = alone.to_units(total[None], "sum")[0]
            assert torch.allclose(actual[row, : len(expected)], expected, atol=1e-10)

    def test_gradient_shap_comes_near_integrated_gradients(self, words):
        model, batch = words
        actual = scores(model, batch, "gradient-shap", samples=400, noise=0.0)
        expected = scores(model, batch, "integrated-gradients")
        assert (actual - expected).abs().max() < 0.1 * expected.abs().max()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("integrated-gradients", {"steps": 0}),
        ("smooth-grad", {"samples": 0}),
        ("smooth-grad", {"noise": -0.1}),
        ("gradient-shap", {"samples": 0}),
        ("occlusion", {"window": 2, "stride": 3}),
        ("occlusion", {"stride": 2}),
        ("lime", {"samples": 1}),
        ("lime", {"min_share": 0.5, "max_share": 0.2}),
        ("lime", {"ridge": -1.0}),
        ("kernel-shap", {"samples": 1}),
        ("shapley-sampling", {"orders": 0}),
        ("shapley-sampling", {"units_per_step": 0}),
        ("saliency", {"reduce": "max"}),
        ("saliency", {"output": "logits"}),
    ],
)
def test_options_that_make_no_sense_are_told(method, options):
    with pytest.raises(OptionError):
        build(method, options)
