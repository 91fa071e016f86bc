"""Class activation maps: equal to their formulas, and right about layers that are reused or overwritten."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("PIL")
pytest.importorskip("captum")

import captum.attr
from methods.test_against_captum import TARGET, Outputs, ours, pictures, plain
from methods.test_every_method_images import network
from models.image.test_model import SIDE, preprocess, scene
from reference import cams

from rationales.errors import OptionError
from rationales.models.image.loading import from_module
from rationales.pipeline.explain import explain

CAMS = ["grad-cam", "grad-cam-plus-plus", "score-cam", "guided-grad-cam"]


def maps_and_gradients(module, layer, pixels, target, output):
    """(C, h, w) twice for one picture, and the explained output."""
    features = module[: layer + 1](pixels[None]).detach().requires_grad_()
    value = Outputs(module[layer + 1 :], output)(features)[0, target]
    return features.detach()[0], torch.autograd.grad(value, features)[0][0], float(value.detach())


@pytest.mark.parametrize("output", ["logit", "log-odds"])
@pytest.mark.parametrize("layer", [2, 5])
def test_grad_cam_plus_plus_is_the_papers_formula(layer, output):
    model, batch, pixels = pictures(plain(network()))
    actual = ours(model, batch, "grad-cam-plus-plus", layer=str(layer), output=output)
    for number, target in enumerate(TARGET.tolist()):
        maps, gradients, value = maps_and_gradients(model.module, layer, pixels[number], target, output)
        expected = cams.grad_cam_plus_plus(maps, gradients, value, (SIDE, SIDE)).flatten()
        assert expected.any()
        assert torch.allclose(actual[number], expected, atol=1e-10)


@pytest.mark.parametrize("output", ["probability", "log-odds"])
def test_score_cam_is_the_papers_algorithm(output):
    model, batch, pixels = pictures(plain(network()))
    actual = ours(model, batch, "score-cam", layer="5", output=output)
    network_outputs = Outputs(model.module, output)
    for row in range(batch.size[0]):
        number, baseline = row % 3, batch.baseline_values[row]

        def explained(picture, target=int(TARGET[number])):
            return float(network_outputs(picture[None])[0, target])

        with torch.no_grad():
            maps = model.module[:6](pixels[number][None])[0]
            expected = cams.score_cam(maps, explained, pixels[number], baseline, (SIDE, SIDE))
        assert torch.allclose(actual[row], expected.flatten(), atol=1e-10)


def test_guided_grad_cam_is_captums():
    model, batch, pixels = pictures(plain(network()))
    module = model.module
    method = captum.attr.GuidedGradCam(Outputs(module), module[5])
    expected = method.attribute(pixels, TARGET, interpolate_mode="bilinear").sum(1).flatten(1)
    assert expected.any()
    assert torch.allclose(ours(model, batch, "guided-grad-cam", reduce="sum"), expected.repeat(2, 1), atol=1e-12)


class Reusing(nn.Module):
    """One ReLU for the maps, in place, and for the pooled features behind them."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 6, 3, padding=1), nn.Linear(4, 3)
        self.second, self.hidden = nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.Linear(8, 4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, pixels):
        maps = self.relu(self.second(self.relu(self.first(pixels))))
        return self.last(self.relu(self.hidden(maps.mean((2, 3)))))


class Separate(Reusing):
    """The same network with a ReLU for every place, none of them in place."""

    def __init__(self):
        super().__init__()
        self.relu_of_maps = nn.ReLU()

    def forward(self, pixels):
        maps = self.relu_of_maps(self.second(self.first(pixels).relu()))
        return self.last(self.hidden(maps.mean((2, 3))).relu())


@pytest.mark.parametrize("method", CAMS)
class TestLayers:
    def models(self):
        with torch.random.fork_rng():
            torch.manual_seed(5)
            reusing, separate = Reusing().eval(), Separate().eval()
            separate.load_state_dict(reusing.state_dict())
        return [from_module(module, preprocess, ["a", "b", "c"], "m", baselines=["mean"])
                for module in (reusing, separate)]  # fmt: skip

    def test_a_relu_that_is_used_three_times_and_overwrites_its_input(self, method):
        """The last of its outputs that are maps is found, not the pooled features that it gives at last."""
        first, second = (explain(model, scene(), method=method, target="a").scores for model in self.models())
        assert first.any()
        assert np.allclose(first, second, atol=1e-6)

    def test_a_layer_whose_output_is_overwritten_keeps_its_values(self, method):
        first, second = (
            explain(model, scene(), method=method, target="b", options={"layer": "first"}).scores
            for model in self.models()
        )
        assert first.any()
        assert np.allclose(first, second, atol=1e-6)

    def test_a_layer_that_does_not_exist_is_answered_with_those_that_do(self, method):
        with pytest.raises(OptionError, match=r"no layer 'third'.*first, relu, second"):
            explain(self.models()[0], scene(), method=method, options={"layer": "third"})
        with pytest.raises(OptionError, match=r"'hidden' gives \(1, 4\).*first, relu, second"):
            explain(self.models()[0], scene(), method=method, options={"layer": "hidden"})


@pytest.mark.parametrize("method", ["grad-cam", "grad-cam-plus-plus", "guided-grad-cam"])
class TestZeroMaps:
    def notes(self, module, method, **arguments):
        model = from_module(module, preprocess, ["a", "b", "c"], "network", baselines=["mean"])
        results = explain(model, [scene(), scene(seed=1)], method=method, **arguments)
        return [[note for note in result.notes if note.kind == "zero-map"] for result in results]

    @pytest.mark.parametrize(("factor", "zero"), [(1.0, False), (1e-4, False), (1e-12, True)])
    def test_a_map_that_is_rounding_beside_the_output_is_noted(self, method, factor, zero):
        """The last layer decides how much of the output the maps explain; log-odds are log 2 without it."""
        module = network()
        with torch.no_grad():
            module[-1].weight.mul_(factor)
            module[-1].bias.mul_(factor)
        for input_notes in self.notes(module, method, target=["a", "b"], options={"layer": "5"}):
            assert len(input_notes) == zero
            assert all("at the layer 5 nothing speaks for the class" in note.message for note in input_notes)

    def test_a_class_that_all_maps_speak_against_is_noted_and_no_other(self, method):
        module = network()
        with torch.no_grad():
            module[-1].weight.copy_(torch.tensor([[-1.0], [1.0], [1.0]]))
        first, second = self.notes(module, method, target=["a", "b"], options={"output": "logit"})
        assert (len(first), len(second)) == (1, 0)
