"""The methods that captum has as well, against captum: on pixels, and on words through `inputs_embeds`."""

from __future__ import annotations

import warnings

import pytest
import torch
from families import tiny
from models.image.test_model import preprocess
from torch import nn

import rationales
from methods.test_every_method_images import PICTURES, network
from rationales.methods import build
from rationales.models.image.loading import from_module
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


def pictures(module=None, dtype=torch.float64, baselines=("black", "mean"), labels=("a", "b", "c")):
    """A network, its pictures in one batch, and the pixels themselves."""
    model = from_module((module or network()).to(dtype), preprocess, labels, "network", baselines=baselines)
    batch = model.batch(model.encode([model.read(picture, None) for picture in PICTURES]))
    return model, batch, batch.values.clone()


def plain(module, activation=nn.ReLU):
    """The network with modules that captum knows in place of its ReLUs."""
    return nn.Sequential(*[activation() if isinstance(layer, (nn.ReLU, nn.ReLU6)) else layer for layer in module])


OUTPUTS = {  # of each class, written as their definitions
    "logit": lambda logits: logits,
    "log-odds": lambda logits: (logits.softmax(-1) / (1 - logits.softmax(-1))).log(),
    "probability": lambda logits: logits.softmax(-1),
}
DEFAULT_AND_LOGIT = pytest.mark.parametrize("options", [{}, {"output": "logit"}], ids=["default", "logit"])


class Outputs(nn.Module):
    """A classifier that returns an output of each class in place of its logit; by default the log-odds."""

    def __init__(self, module, output="log-odds"):
        super().__init__()
        self.module, self.output = module, OUTPUTS[output]

    def forward(self, pixels):
        return self.output(self.module(pixels))


def ours(model, batch, method, target=TARGET, **options):
    with model.frozen():
        actual = build(method, options, "text" if batch.grid is None else "image").scores(batch, target[: batch.inputs])
    return actual.scores


def pixels_of(attribution, reduce):
    return (attribution.abs() if reduce == "norm" else attribution).sum(1).flatten(1)


def over_baselines(batch, attribute):
    """What `attribute(pixels, baseline, target)` gives for each row, the baselines in order."""
    rows = zip(batch.baseline_values.chunk(batch.views), strict=True)
    return torch.cat([attribute(batch.values.clone(), empty, TARGET) for (empty,) in rows])


class TestPixels:
    @DEFAULT_AND_LOGIT
    @pytest.mark.parametrize("reduce", ["sum", "norm"])
    def test_saliency(self, reduce, options):
        model, batch, pixels = pictures()
        method = attr.Saliency(Outputs(model.module, **options))
        expected = pixels_of(method.attribute(pixels, TARGET, abs=False), reduce)
        actual = ours(model, batch, "saliency", reduce=reduce, **options)
        assert torch.allclose(actual, expected.repeat(2, 1), atol=1e-12)

    @DEFAULT_AND_LOGIT
    @pytest.mark.parametrize("reduce", ["sum", "norm"])
    def test_input_x_gradient(self, reduce, options):
        model, batch, pixels = pictures()
        method = attr.InputXGradient(Outputs(model.module, **options))
        expected = pixels_of(method.attribute(pixels, TARGET), reduce)
        actual = ours(model, batch, "input-x-gradient", reduce=reduce, **options)
        assert torch.allclose(actual, expected.repeat(2, 1), atol=1e-12)

    @pytest.mark.parametrize("reduce", ["sum", "norm"])
    @pytest.mark.parametrize("output", ["logit", "log-odds", "probability"])
    def test_integrated_gradients(self, reduce, output):
        model, batch, _ = pictures()
        method = attr.IntegratedGradients(Outputs(model.module, output))
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
        assert torch.allclose(ours(model, batch, "deep-lift", output="logit"), expected, atol=1e-10)

    def test_deep_lift_of_the_log_odds_of_two_classes(self):
        """They are the difference of two logits, and captum's scores for these are subtracted."""
        layers = [layer for layer in network() if not isinstance(layer, nn.MaxPool2d)]
        layers[-1] = nn.Linear(16, 2)
        model, batch, _ = pictures(plain(nn.Sequential(*layers)), labels=("a", "b"))
        target, method = torch.tensor([1, 0, 1]), attr.DeepLift(model.module)
        per_class = [
            over_baselines(
                batch, lambda pixels, empty, _, c=c: pixels_of(method.attribute(pixels, empty, c), "sum").detach()
            )
            for c in (target, 1 - target)
        ]
        actual = ours(model, batch, "deep-lift", target=target)
        assert torch.allclose(actual, per_class[0] - per_class[1], atol=1e-10)

    @DEFAULT_AND_LOGIT
    def test_guided_backpropagation(self, options):
        model, batch, pixels = pictures(plain(network()))
        expected = pixels_of(attr.GuidedBackprop(Outputs(model.module, **options)).attribute(pixels, TARGET), "sum")
        actual = ours(model, batch, "guided-backpropagation", reduce="sum", **options)
        assert torch.allclose(actual, expected.repeat(2, 1), atol=1e-12)
        assert not torch.allclose(actual, ours(model, batch, "saliency", reduce="sum", **options), atol=1e-3)

    @DEFAULT_AND_LOGIT
    @pytest.mark.parametrize("layer", ["0", "4", "5"])
    def test_grad_cam(self, layer, options):
        model, batch, pixels = pictures(plain(network()))
        module = model.module
        method = attr.LayerGradCam(Outputs(module, **options), module[int(layer)])
        maps = method.attribute(pixels, TARGET, relu_attributions=True)
        expected = attr.LayerAttribution.interpolate(maps, pixels.shape[2:], "bilinear").flatten(1).detach()
        actual = ours(model, batch, "grad-cam", layer=layer, **options)
        assert torch.allclose(actual, expected.repeat(2, 1), atol=1e-12)
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

    @DEFAULT_AND_LOGIT
    @pytest.mark.parametrize("reduce", ["sum", "norm"])
    def test_gradients(self, reduce, options):
        model, batch, logits, words, empty, to_words = self.prepared()
        forward = Outputs(logits, **options)
        target = int(TARGET[0])
        with model.frozen():
            expected = {
                "saliency": attr.Saliency(forward).attribute(words, target, abs=False),
                "input-x-gradient": attr.InputXGradient(forward).attribute(words, target),
                "integrated-gradients": attr.IntegratedGradients(forward).attribute(words, empty, target, n_steps=50),
            }
        for method, attribution in expected.items():
            actual = ours(model, batch, method, reduce=reduce, **options)
            assert torch.allclose(actual, to_words(attribution, reduce), atol=1e-9), method

    def test_the_paper_preset_is_fifty_steps_from_the_padding_token_and_explains_the_logit(self):
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
