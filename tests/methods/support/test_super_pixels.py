"""Super-pixels: the same for the same picture, apart for different ones, and features of the sampling methods."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("skimage")

from methods.test_every_method_images import PICTURES, model_of, network
from models.image.test_model import SIDE, detector, scene
from reference import rivals
from skimage import segmentation

from rationales.errors import OptionError
from rationales.methods import build
from rationales.methods.support.feature_groups import feature_groups
from rationales.methods.support.quickshift import quickshift
from rationales.methods.support.super_pixels import super_pixels
from rationales.pipeline.explain import explain

KINDS = ["quickshift", "slic"]
SAMPLING = ["lime", "kernel-shap", "shapley-sampling"]
QUICK = {"lime": {"samples": 80}, "kernel-shap": {"samples": 80}, "shapley-sampling": {"orders": 2}}


def batch_of(pictures=PICTURES, **arguments):
    model = model_of(network().double(), baselines=("mean",), **arguments)
    return model, model.batch(model.encode([model.read(picture, None) for picture in pictures]))


def divided(picture, kind, count, real=None):
    """(H, W): the super-pixels of one picture."""
    real = torch.ones(picture.shape[:2], dtype=torch.bool) if real is None else real
    return super_pixels(torch.from_numpy(picture).permute(2, 0, 1)[None], real[None], kind, count)[0]


@pytest.mark.parametrize("kind", KINDS)
class TestSegments:
    def test_no_pixel_of_the_square_shares_a_segment_with_one_outside(self, kind):
        labels = divided(scene(9, 13, side=10), kind, 196)
        inside = torch.zeros(SIDE, SIDE, dtype=torch.bool)
        inside[9:19, 13:23] = True
        assert not {*labels[inside].tolist()} & {*labels[~inside].tolist()}
        assert sorted(labels.unique().tolist()) == list(range(int(labels.max()) + 1))

    def test_the_range_of_the_pixels_plays_no_part(self, kind):
        picture = scene()
        assert torch.equal(divided(picture, kind, 100), divided((picture / 255 - 0.45) / 0.25, kind, 100))

    def test_padding_belongs_to_no_segment(self, kind):
        real = torch.zeros(SIDE, SIDE, dtype=torch.bool)
        real[:, : SIDE // 2] = True
        labels = divided(scene(), kind, 100, real)
        assert not labels[~real].any()
        assert sorted(labels[real].unique().tolist()) == list(range(int(labels.max()) + 1))


def test_quickshift_is_lime_s_at_224_pixels():
    picture = np.kron(scene(), np.ones((7, 7, 1))).astype(np.uint8)
    low, high = picture.min(), picture.max()
    expected = segmentation.quickshift((picture - low) / (high - low), kernel_size=4, max_dist=200, ratio=0.2, rng=0)
    labels = divided(picture, "quickshift", 0).numpy()
    assert labels.max() + 1 == len(np.unique(expected))
    assert len(np.unique(labels * (expected.max() + 1) + expected)) == labels.max() + 1  # the same partition


@pytest.mark.parametrize(("kernel_size", "max_distance", "ratio"), [(1.0, 4.0, 1.0), (1.3, 50.0, 0.2), (2.0, 6.0, 0.5)])
def test_our_quickshift_equals_that_of_scikit_image(kernel_size, max_distance, ratio):
    generator = np.random.default_rng(3)
    noisy = np.clip(scene() / 255 + generator.normal(scale=0.02, size=(SIDE, SIDE, 3)), 0, 1)
    pictures = [noisy[:20, :29], generator.random((20, 29, 3)), np.full((20, 29, 3), 0.3)]
    expected = [
        segmentation.quickshift(picture, kernel_size=kernel_size, max_dist=max_distance, ratio=ratio, rng=0)
        for picture in pictures
    ]
    stacked = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
    assert np.array_equal(quickshift(stacked, kernel_size, max_distance, ratio).numpy(), np.stack(expected))


@pytest.mark.parametrize("channels", [1, 3])
def test_quickshift_without_scikit_image_is_the_same(channels, monkeypatch):
    picture = scene()[..., :channels]
    expected = divided(picture, "quickshift", 0)
    monkeypatch.setattr("rationales.methods.support.super_pixels.find_spec", lambda _name: None)
    assert torch.equal(divided(picture, "quickshift", 0), expected)


@pytest.mark.parametrize("kind", KINDS)
class TestGroups:
    def test_every_picture_has_its_own(self, kind):
        _, batch = batch_of()
        groups = feature_groups(batch, 4, kind)
        assert len({int(count) for count in groups.count}) > 1
        values = torch.arange(groups.real.shape[1]).expand(3, -1)
        for row, picture in enumerate(groups.spread(values)):
            _, alone = batch_of(PICTURES[row : row + 1])
            assert torch.equal(picture, feature_groups(alone, 4, kind).member[0])
            assert torch.equal(groups.spread(values[[row]], torch.tensor([row]))[0], picture)

    @pytest.mark.parametrize("method", SAMPLING)
    def test_alone_as_in_a_batch_and_one_score_in_a_segment(self, kind, method):
        model, batch = batch_of()
        target, options = torch.tensor([2, 0, 1]), QUICK[method] | {"segments": kind, "cell": 6}
        groups = feature_groups(batch, 6, kind)
        with model.frozen():
            together = build(method, options, "image").scores(batch, target).scores
            for row in range(3):
                _, alone = batch_of(PICTURES[row : row + 1])
                single = build(method, options, "image").scores(alone, target[row : row + 1]).scores[0]
                assert torch.allclose(together[row], single, atol=1e-9)
                for number in range(int(groups.count[row])):
                    assert len(single[groups.member[row] == number].unique()) == 1

    def test_shapley_values_equal_the_algorithm_on_the_same_orders(self, kind):
        model, batch = batch_of()
        groups, target = feature_groups(batch, 8, kind), [2, 0, 1]
        options = {"orders": 2, "cell": 8, "segments": kind}
        with model.frozen(), torch.no_grad():
            actual = build("shapley-sampling", options, "image").scores(batch, torch.tensor(target)).scores
            for row in range(3):
                count = int(groups.count[row])

                def game(chosen, row=row):
                    kept = torch.isin(groups.member[row], torch.tensor(sorted(chosen), dtype=torch.long))
                    keep = batch.ones()
                    keep[row] = kept.to(batch.dtype)
                    return float(batch.logits(keep).softmax(-1)[row, target[row]])

                numbers = torch.tensor([row])
                orders = [groups.order(batch, numbers, torch.tensor([[number]]))[0, 0].argsort()[:count].tolist()
                          for number in range(2)]  # fmt: skip
                expected = rivals.shapley_from_orders(game, orders)
                for number in range(count):
                    first = actual[row][groups.member[row] == number][0]
                    assert float(first) == pytest.approx(float(expected[number]), abs=1e-9)


@pytest.mark.parametrize("method", SAMPLING)
def test_the_square_is_found_to_the_pixel(method):
    """A cell of a grid cuts its border; a super-pixel does not."""
    options = {"segments": "quickshift"} | ({"orders": 4} if method == "shapley-sampling" else {"samples": 400})
    result = explain(detector(), scene(9, 13, side=10), target="red", method=method, options=options)
    truth = np.zeros((SIDE, SIDE), dtype=bool)
    truth[9:19, 13:23] = True
    best = np.argsort(-result.scores, kind="stable")[: truth.sum()]
    assert truth.flatten()[best].mean() > 0.9


def test_words_have_no_super_pixels():
    import rationales

    with pytest.raises(OptionError, match="segments=slic divides an image"):
        rationales.explain(rationales.load(), "A good film.", method="lime", options={"segments": "slic"})
