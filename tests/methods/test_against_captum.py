"""The methods that captum has as well, against captum: on pixels, and on words through `inputs_embeds`."""

from __future__ import annotations

import warnings

import pytest
import torch
from families import tiny
from torch import nn

import rationales
from methods.test_every_method_images import PICTURES, model_of, network
from rationales.methods import build
from rationales.models.text.tokens import TextInput

attr = pytest.importorskip("captum.attr")

TARGET = torch.tensor([2, 0, 1])
TEXT = "I did not like the soup, but the bread wasn't bad at all!"


@pytest.fixture(autouse=True)
def _quiet():
    """captum warns that it sets hooks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def pictures(module=None, dtype=torch.float64, baselines=("black", "mean")):
    """A network, its pictures in one batch, and the pixels themselves."""
    model = model_of((module or network()).to(dtype), baselines=baselines)
    batch = model.batch(model.encode([model.read(picture, None) for picture in PICTURES]))
    return model, batch, batch.values.clone()


def plain(module, activation=nn.ReLU):
    """The network with modules that captum knows in place of its ReLUs."""
    return nn.Sequential(*[activation() if isinstance(layer, (nn.ReLU, nn.ReLU6)) else layer for layer in module])


def ours(model, batch, method, **options):
    with model.frozen():
        actual = build(method, options, "text" if batch.grid is None else "image").scores(batch, TARGET[: batch.inputs])
    return actual.scores


def pixels_of(attribution, reduce):
    return (attribution.abs() if reduce == "norm" else attribution).sum(1).flatten(1)


def over_baselines(batch, attribute):
    """What `attribute(pixels, baseline, target)` gives for each row, the baselines in order."""
    rows = zip(batch.baseline_values.chunk(batch.views), strict=True)
    return torch.cat([attribute(batch.values.clone(), empty, TARGET) for (empty,) in rows])


class TestPixels:
    @pytest.mark.parametrize("reduce", ["sum", "norm"])
    def test_saliency(self, reduce):
        model, batch, pixels = pictures()
        expected = pixels_of(attr.Saliency(model.module).attribute(pixels, TARGET, abs=False), reduce)
        assert torch.allclose(ours(model, batch, "saliency", reduce=reduce), expected.repeat(2, 1), atol=1e-12)

    @pytest.mark.parametrize("reduce", ["sum", "norm"])
    def test_input_x_gradient(self, reduce):
        model, batch, pixels = pictures()
        expected = pixels_of(attr.InputXGradient(model.module).attribute(pixels, TARGET), reduce)
        assert torch.allclose(ours(model, batch, "input-x-gradient", reduce=reduce), expected.repeat(2, 1), atol=1e-12)

    @pytest.mark.parametrize("reduce", ["sum", "norm"])
    @pytest.mark.parametrize("output", ["logit", "probability"])
    def test_integrated_gradients(self, reduce, output):
        model, batch, _ = pictures()
        forward = model.module if output == "logit" else lambda pixels: model.module(pixels).softmax(-1)
        method = attr.IntegratedGradients(forward)
        expected = over_baselines(
            batch, lambda pixels, empty, target: pixels_of(method.attribute(pixels, empty, target, n_steps=7), reduce)
        )
        actual = ours(model, batch, "integrated-gradients", steps=7, reduce=reduce, output=output)
        assert torch.allclose(actual, expected, atol=1e-10)

    @pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.ELU, nn.Sigmoid, nn.Softplus, nn.LeakyReLU])
    def test_deep_lift(self, activation):
        """Without pooling, where captum's rule takes one row's gradient for all; see test_rules for that."""
        parts = [layer for layer in network() if not isinstance(layer, nn.MaxPool2d)]
        model, batch, _ = pictures(plain(nn.Sequential(*parts), activation))
        method = attr.DeepLift(model.module)
        expected = over_baselines(
            batch, lambda pixels, empty, target: pixels_of(method.attribute(pixels, empty, target), "sum").detach()
        )
        assert torch.allclose(ours(model, batch, "deep-lift"), expected, atol=1e-10)

    def test_guided_backpropagation(self):
        model, batch, pixels = pictures(plain(network()))
        module = model.module
        expected = pixels_of(attr.GuidedBackprop(module).attribute(pixels, TARGET), "sum")
        actual = ours(model, batch, "guided-backpropagation", reduce="sum")
        assert torch.allclose(actual, expected.repeat(2, 1), atol=1e-12)
        assert not torch.allclose(actual, ours(model, batch, "saliency", reduce="sum"), atol=1e-3)

    @pytest.mark.parametrize("layer", ["0", "4", "5"])
    def test_grad_cam(self, layer):
        model, batch, pixels = pictures(plain(network()))
        module = model.module
        method = attr.LayerGradCam(module, module[int(layer)])
        maps = method.attribute(pixels, TARGET, relu_attributions=True)
        expected = attr.LayerAttribution.interpolate(maps, pixels.shape[2:], "bilinear").flatten(1).detach()
        assert torch.allclose(ours(model, batch, "grad-cam", layer=layer), expected.repeat(2, 1), atol=1e-12)
        if layer == "5":
            assert torch.equal(ours(model, batch, "grad-cam"), ours(model, batch, "grad-cam", layer=layer))

    def test_occlusion(self):
        """32 pixels, windows of 8 every 4: captum, too, averages over the windows that cover a pixel."""
        model, batch, _ = pictures(dtype=torch.float32)
        method = attr.Occlusion(lambda pixels: model.module(pixels).softmax(-1))
        with torch.no_grad():
            expected = over_baselines(
                batch,
                lambda pixels, empty, target: method.attribute(
                    pixels, (3, 8, 8), strides=(3, 4, 4), baselines=empty, target=target
                )[:, 0].flatten(1),
            )
        assert torch.allclose(ours(model, batch, "occlusion", window=8, stride=4), expected, atol=1e-6)


class TestWords:
    """captum is given embeddings from outside; ours are replaced on their way through the model."""

    def prepared(self):
        module, tokenizer = tiny("bert")
        model = rationales.load(module.double(), tokenizer)
        batch = model.batch(model.encode([TextInput(TEXT)]))
        encoding = tokenizer(TEXT, return_tensors="pt")
        table = module.get_input_embeddings().weight.detach()
        words, owner = table[encoding["input_ids"]], batch.owner[0]
        empty = words.clone()
        empty[0, owner < batch.size[1]] = table[tokenizer.pad_token_id]
        masks = {name: encoding[name] for name in ("attention_mask", "token_type_ids")}

        def forward(embedded):
            expanded_masks = {name: value.expand(len(embedded), -1) for name, value in masks.items()}
            return module(inputs_embeds=embedded, **expanded_masks).logits

        def to_words(attribution, reduce):
            tokens = (attribution.abs() if reduce == "norm" else attribution).sum(-1)[0]
            return torch.stack([tokens[owner == unit].sum() for unit in range(batch.size[1])])[None]

        return model, batch, forward, words, empty, to_words

    @pytest.mark.parametrize("reduce", ["sum", "norm"])
    def test_gradients(self, reduce):
        model, batch, forward, words, empty, to_words = self.prepared()
        target = int(TARGET[0])
        with model.frozen():
            expected = {
                "saliency": attr.Saliency(forward).attribute(words, target, abs=False),
                "input-x-gradient": attr.InputXGradient(forward).attribute(words, target),
                "integrated-gradients": attr.IntegratedGradients(forward).attribute(words, empty, target, n_steps=50),
            }
        for method, attribution in expected.items():
            actual = ours(model, batch, method, reduce=reduce)
            assert torch.allclose(actual, to_words(attribution, reduce), atol=1e-9), method

    def test_the_paper_preset_is_fifty_steps_from_the_padding_token(self):
        model, batch, forward, words, empty, to_words = self.prepared()
        with model.frozen():
            expected = attr.IntegratedGradients(forward).attribute(words, empty, 2, n_steps=50)
        assert torch.allclose(ours(model, batch, "integrated-gradients", preset="paper"), to_words(expected, "sum"))

    def test_occlusion(self):
        model, batch, forward, words, empty, _ = self.prepared()
        tokens = batch.owner[0]
        features = torch.where(tokens < batch.size[1], tokens, torch.full_like(tokens, batch.size[1]))[None, :, None]
        method = attr.FeatureAblation(lambda embedded: forward(embedded).softmax(-1))
        with model.frozen(), torch.no_grad():
            expected = method.attribute(words, empty, 2, feature_mask=features.expand_as(words))
        per_word = torch.stack([expected[0, tokens == unit][0, 0] for unit in range(batch.size[1])])[None]
        assert torch.allclose(ours(model, batch, "occlusion", window=1), per_word, atol=1e-10)
