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
from rationales.models.image.feature_maps import feature_maps_of
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


def probabilities(module, layers, target=1):
    """The winning probabilities of the outputs of these layers and of the pixels, not divided by their sums."""
    model = model_of(module)
    with model.frozen():
        batch = model.batch(model.encode([model.read(scene(), None)]))
        features = [feature_maps_of("excitation-backprop", batch, layer)[-1] for layer in layers]

        def logit(values):
            return batch.forward_from(Piece(ZERO, ZERO, 0, 1), values)[:, target]

        return winning_probabilities(module, logit, batch.values, features)


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
        other_logits = torch.cat([logits[:target], logits[target + 1 :]])
        value = logits[target] - (other_logits.logsumexp(0) if output == "log-odds" else 0)
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

    def test_every_layer_of_a_linear_bottleneck(self):
        """The smallest of its outputs, which are negative, excites nothing, and all others by what they exceed it."""
        module = positive_biases(LinearBottleneck().double())
        with torch.no_grad():
            pixels = model_of(module).encode([model_of(module).read(scene(), None)])[0].pixels[None]
            stem = module.stem(pixels).relu()
            narrow = module.narrow(stem)
            last = module.wide(narrow).relu()
        assert narrow.min() < 0 < narrow.max()
        first = last.flatten() * module.head.weight[1].detach().clamp(min=0).repeat_interleave(SIDE * SIDE // 4)
        at_narrow = carried_back(first / first.sum(), narrow.flatten(), matrix_of(module.wide, narrow.shape[1:]))
        at_stem = carried_back(at_narrow, stem.flatten(), matrix_of(module.narrow, stem.shape[1:]))
        at_pixels = carried_back(at_stem, pixels.flatten(), matrix_of(module.stem, pixels.shape[1:]))
        actual = probabilities(module, ["relu", "narrow"])
        for expected, probability in zip((first / first.sum(), at_narrow, at_pixels), actual, strict=True):
            assert torch.allclose(probability.flatten(), expected, atol=1e-10)
        unwatched = probabilities(module, [])[0]  # no hook copies the outputs
        assert torch.allclose(unwatched.flatten(), at_pixels, atol=1e-10)

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


class LinearBottleneck(nn.Module):
    """Two outputs without an activation between two layers that have one; one ReLU for both."""

    def __init__(self):
        super().__init__()
        self.stem, self.narrow = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Conv2d(4, 2, 1)
        self.wide, self.relu, self.head = nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Linear(4, 3)

    def forward(self, pixels):
        return self.head(self.relu(self.wide(self.narrow(self.relu(self.stem(pixels))))).mean((2, 3)))


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
    @pytest.mark.parametrize(
        ("network", "layers"),
        [(Residual, ["stem_norm", "relu", "pool"]), (Bottleneck, ["stem", "last.0", "last.2"])],
    )
    def test_no_layer_loses_anything_where_inputs_decide_what_is_active(self, network, layers):
        """Without a positive bias an active neuron has an excited input, so that one of its inputs wins.

        The layers are such that all probability goes through them.
        """
        module = positive_biases(network().double())
        with torch.no_grad():
            for submodule in module.modules():
                if isinstance(submodule, nn.BatchNorm2d):
                    submodule.running_mean.zero_()
                if getattr(submodule, "bias", None) is not None:
                    submodule.bias.zero_()
        if network is Bottleneck:
            module.expand = _without_hardswish(module.expand)
        for probability in probabilities(module, layers):
            assert (probability >= 0).all()
            assert float(probability.sum()) == pytest.approx(1, abs=1e-9)

    def test_what_is_active_by_its_bias_alone_loses_its_probability(self):
        """Two neurons of equal probability, of which the second has no positive weight: half is lost below them."""
        module = nn.Sequential(nn.Conv2d(3, 1, 1), nn.ReLU(), nn.Conv2d(1, 2, 1), nn.ReLU(), nn.Flatten(),
                               nn.Linear(2 * SIDE * SIDE, 3)).double()  # fmt: skip
        with torch.no_grad():
            for layer, weight, bias in ((0, [[0.0] * 3], [1.0]), (2, [[1.0], [-1.0]], [0.0, 2.0])):
                module[layer].weight.copy_(torch.tensor(weight)[..., None, None])
                module[layer].bias.copy_(torch.tensor(bias))
            module[5].weight.fill_(1.0)
        above, below, _ = probabilities(module, ["3", "1"])
        assert float(above.sum()) == pytest.approx(1)
        assert float(below.sum()) == pytest.approx(0.5)

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


NO_OPERATIONS = {
    "clone": torch.clone,
    "contiguous": lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
    "flattened": lambda x: x.flatten().view(x.shape),
    "padded": nn.ZeroPad2d(0),
    "padded-and-cut": lambda x: nn.functional.pad(x, (1, 1, 1, 1))[:, :, 1:-1, 1:-1],
    "times-one": lambda x: x * 1.0,
    "times-minus-one": lambda x: -1 * (-1.0 * x),
    "over-one": lambda x: x / torch.ones(()),
    "plus-zero": lambda x: x + 0.0,
    "in-place": lambda x: x.mul_(1.0).add_(0.0),
    "dropout": nn.Dropout(0.5).eval(),
}


class TestNothingDone:
    @pytest.mark.parametrize("network", [Residual, Bottleneck, LinearBottleneck])
    @pytest.mark.parametrize("no_operation", NO_OPERATIONS.values(), ids=list(NO_OPERATIONS))
    def test_functions_that_change_no_value_change_no_score(self, no_operation, network):
        """Behind every convolution, norm and pooling, and on the pixels."""
        module = positive_biases(network().double())
        expected = probabilities(module, [])[0]
        for submodule in module.modules():
            if isinstance(submodule, (nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d, nn.AvgPool2d)):
                submodule.register_forward_hook(lambda _module, _arguments, output: no_operation(output))
        module.register_forward_pre_hook(lambda _module, arguments: (no_operation(arguments[0].clone()),))
        assert expected.any()
        assert torch.allclose(probabilities(module, [])[0], expected, atol=1e-12)

    def test_a_layer_is_forgotten_when_its_output_is_overwritten(self):
        """The norm behind the sum is not folded into the convolution, whose outputs are no longer there."""

        class Overwriting(LinearBottleneck):
            def __init__(self, in_place):
                super().__init__()
                self.in_place, self.norm = in_place, nn.BatchNorm2d(2)

            def forward(self, pixels):
                stem = self.relu(self.stem(pixels))
                narrow, second = self.narrow(stem), self.narrow(stem.flip(2))
                total = narrow.add_(second) if self.in_place else narrow + second
                return self.head(self.relu(self.wide(self.norm(total))).mean((2, 3)))

        results = []
        for in_place in (False, True):
            with torch.random.fork_rng():
                torch.manual_seed(0)
                results.append(probabilities(positive_biases(Overwriting(in_place).double().eval()), [])[0])
        assert torch.equal(*results)


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
