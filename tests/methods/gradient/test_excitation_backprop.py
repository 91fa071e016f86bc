"""Excitation backpropagation: equal to its formula, conserves its sum, and says where it cannot go."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from torch import nn

pytest.importorskip("PIL")

from methods.attention.encoders import vision_model, vision_transformer
from models.image.test_model import preprocess, scene
from reference.excitation import carried_back, matrix_of

from rationales.errors import NotApplicableError
from rationales.methods import build
from rationales.methods.support.winning_probabilities import winning_probabilities
from rationales.models.batch import Piece
from rationales.models.image.efficientnet import EfficientNetLite
from rationales.models.image.loading import from_module
from rationales.pipeline.explain import explain

SIDE = 8
ZERO = torch.zeros(1, dtype=torch.long)


def small_preprocess(image):
    return preprocess(image.resize((SIDE, SIDE)))[:, ::4, ::4].double()


def model_of(module, side=SIDE):
    preprocessing = small_preprocess if side == SIDE else preprocess
    return from_module(module.eval(), preprocessing, ["a", "b", "c"], "network", baselines=["mean"])


def scores(model, pictures, target, **options):
    with model.frozen():
        batch = model.batch(model.encode([model.read(picture, None) for picture in pictures]))
        method = build("excitation-backprop", options, "image")
        return method.scores(batch, torch.tensor(target)).scores, batch.values


def positive_biases(module):
    """Weights of a size that keeps neurons active, and norms that are not those of a fresh network."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(4)
        for submodule in module.modules():
            if isinstance(submodule, nn.BatchNorm2d):
                submodule.weight.normal_(0, 1)  # of either sign
                submodule.running_mean.normal_(0, 0.3)
                submodule.running_var.uniform_(0.5, 2)
                submodule.bias.uniform_(0, 0.3)
            elif isinstance(submodule, (nn.Conv2d, nn.Linear)):
                submodule.weight.normal_(0, 0.5)
                if submodule.bias is not None:
                    submodule.bias.uniform_(-0.1, 0.2)
    return module


class Residual(nn.Module):
    """A stem, a block with a residual sum in place, and a head; one ReLU in place for all."""

    def __init__(self):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.relu, self.pool, self.head = nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Linear(4, 3)

    def forward(self, pixels):
        stem = self.relu(self.stem_norm(self.stem(pixels)))
        block = self.norm(self.conv(stem))
        block += stem
        return self.head(self.pool(self.relu(block)).mean((2, 3)))


def residual():
    return positive_biases(Residual().double().eval())


class TestFormula:
    @pytest.mark.parametrize("output", ["logit", "log-odds"])
    def test_every_layer_of_a_residual_network(self, output):
        """Batch norms are folded, and a neuron of a residual sum has the inputs of both branches."""
        module, target = residual(), 1
        model = model_of(module)
        pixels = scores(model, [scene()], [target], layer="input")[1]
        with torch.no_grad():
            stem = module.stem_norm(module.stem(pixels)).relu()
            pre = module.norm(module.conv(stem)) + stem
            last = pre.relu()
        leaf = last.clone().requires_grad_()
        logits = module.head(module.pool(leaf).mean((2, 3)))[0]
        others = torch.cat([logits[:target], logits[target + 1 :]])
        value = logits[target] - (others.logsumexp(0) if output == "log-odds" else 0)
        gradient = torch.autograd.grad(value, leaf)[0]
        first = last.flatten() * gradient.flatten().clamp(min=0)
        probability = first / first.sum()
        block = matrix_of(lambda x: module.norm(module.conv(x)) - module.norm(module.conv(0 * x)), stem.shape[1:])
        separate = block.clamp(min=0) + torch.eye(stem.numel(), dtype=torch.float64)  # two connections, not their sum
        at_stem = carried_back(probability, stem.flatten(), separate)
        below = matrix_of(lambda x: module.stem_norm(module.stem(x)) - module.stem_norm(module.stem(0 * x)), (3, 8, 8))
        at_pixels = carried_back(at_stem, pixels.flatten(), below).view(3, -1).sum(0)
        actual = scores(model, [scene()], [target], layer="input", output=output)[0][0]
        assert at_pixels.any()
        assert torch.allclose(actual, at_pixels, atol=1e-10)

    def test_contrastive_is_the_difference_to_the_opposite_neuron(self):
        module, target = residual(), 2
        model = model_of(module)
        plain = scores(model, [scene()], [target], layer="input", output="logit")[0]
        contrastive = scores(model, [scene()], [target], layer="input", output="logit", contrastive=True)[0]
        with torch.no_grad():
            module.head.weight.neg_()
        opposite = scores(model, [scene()], [target], layer="input", output="logit")[0]
        assert contrastive.any()
        assert torch.allclose(contrastive, (plain - opposite).clamp(min=0), atol=1e-10)


class Bottleneck(nn.Module):
    """Linear outputs without an activation, as in MobileNetV2, separable convolutions and average pooling."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(inplace=True))
        self.expand = nn.Sequential(nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16), nn.ReLU6(inplace=True),
                                    nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.Hardswish(),
                                    nn.Conv2d(16, 8, 1), nn.BatchNorm2d(8))  # fmt: skip
        self.last = nn.Sequential(nn.Conv2d(8, 16, 1), nn.ReLU(), nn.AvgPool2d(2))
        self.head = nn.Linear(16, 3)

    def forward(self, pixels):
        stem = self.stem(pixels)
        narrow = 0.5 * (stem + self.expand(stem))
        return self.head(torch.flatten(self.last(narrow).mean((2, 3)), 1))


def _without_hardswish(layers):
    return nn.Sequential(*[nn.ReLU() if isinstance(layer, nn.Hardswish) else layer for layer in layers])


class TestConservation:
    @pytest.mark.parametrize("network", [Residual, Bottleneck])
    @pytest.mark.parametrize("layer", ["input", ""])
    def test_scores_add_up_to_one(self, network, layer):
        model = model_of(positive_biases(network().double()))
        pictures = [scene(seed=seed, left=3 * seed) for seed in range(3)]
        result = scores(model, pictures, [0, 1, 2], layer=layer)[0]
        assert (result >= 0).all()
        assert torch.allclose(result.sum(1), torch.ones(3, dtype=torch.float64), atol=1e-9)

    @pytest.mark.parametrize("network", [Residual, Bottleneck])
    def test_no_layer_loses_anything_where_inputs_decide_what_is_active(self, network):
        """Without a positive bias an active neuron has an excited input, so that one of its inputs wins."""
        module = positive_biases(network().double())
        with torch.no_grad():
            for submodule in module.modules():
                if isinstance(submodule, nn.BatchNorm2d):
                    submodule.running_mean.zero_()
                if getattr(submodule, "bias", None) is not None:
                    submodule.bias.zero_()
        if network is Bottleneck:
            module.expand = _without_hardswish(module.expand)
        model = model_of(module)
        with model.frozen():
            batch = model.batch(model.encode([model.read(scene(), None)]))
            (pixels,) = winning_probabilities(
                module, lambda values: batch.forward_from(Piece(ZERO, ZERO, 0, 1), values)[:, 1], batch.values, []
            )
        assert float(pixels.sum()) == pytest.approx(1, abs=1e-9)

    def test_what_is_lost_is_said(self):
        """A neuron that is active by its bias alone has no input that could win."""
        module = nn.Sequential(nn.Conv2d(3, 2, 3, padding=1), nn.ReLU(), nn.Conv2d(2, 2, 1), nn.ReLU(), nn.Flatten(),
                               nn.Linear(2 * SIDE * SIDE, 3))  # fmt: skip
        with torch.no_grad():
            module[0].weight.fill_(0.01)
            module[0].bias.fill_(0.1)
            module[2].weight.copy_(torch.tensor([[1.0, 1.0], [-1.0, -1.0]])[..., None, None])
            module[2].bias.copy_(torch.tensor([0.0, 9.0]))
            module[5].weight.fill_(0.01)
        options = {"layer": "1", "output": "logit"}
        result = explain(model_of(module.double()), scene(), method="excitation-backprop", options=options)
        assert "lost-probability" in [note.kind for note in result.notes]

    def test_the_default_layer_is_no_branch_of_two(self):
        """Half of a block has less probability than the sum behind it; all of it passes the stem."""
        config = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=3
        )
        module = positive_biases(transformers.ResNetForImageClassification(config))
        model = model_of(module, 32)
        with model.frozen():
            batch = model.batch(model.encode([model.read(scene(), None)]))
            feature = build("excitation-backprop", {}, "image")._feature(batch, ZERO)
        assert not feature.name.startswith("resnet.encoder.stages.0.layers.0.layer")  # a branch of the block


class TestWhere:
    def test_stock_networks(self):
        mobile = transformers.MobileNetV2Config(num_labels=3, depth_multiplier=0.5)
        for module in (EfficientNetLite(0, classes=3), transformers.MobileNetV2ForImageClassification(mobile)):
            result = explain(model_of(module, 32), scene(), method="excitation-backprop", target=1)
            assert result.scores.any()
            assert np.isfinite(result.scores).all()

    @pytest.mark.parametrize(
        ("module", "cause"),
        [
            (vision_transformer(), "ViTForImageClassification computes"),
            (transformers.ConvNextForImageClassification(
                transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=3)
            ), "ConvNextForImageClassification computes"),
        ],
        ids=["vit", "convnext"],
    )  # fmt: skip
    def test_networks_that_it_is_not_defined_for_are_refused_by_name(self, module, cause):
        with pytest.raises(NotApplicableError, match=f"excitation-backprop is defined for.*{cause}.*use grad-cam"):
            explain(vision_model(module.eval()), scene(), method="excitation-backprop")
        assert not any(submodule._forward_hooks for submodule in module.modules())

    def test_a_product_of_neurons_is_refused_by_name(self):
        class Gated(Residual):
            def forward(self, pixels):
                stem = self.relu(self.stem(pixels))
                return self.head((stem * self.conv(stem).sigmoid()).relu().mean((2, 3)))

        with pytest.raises(NotApplicableError, match="Gated computes mul of its neurons"):
            explain(model_of(positive_biases(Gated().double())), scene(), method="excitation-backprop")
