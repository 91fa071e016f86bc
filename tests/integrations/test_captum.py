"""MaRC keeps what captum expects of an attribution: shapes, tuples, forms of targets and baselines, several inputs."""

from __future__ import annotations

import pytest
import torch
from quadrants import Quadrants, bright_images
from torch import nn

from rationales.errors import ModelError, OptionError

pytest.importorskip("captum")
from captum.attr import Attribution, FeatureAblation, NoiseTunnel
from captum.metrics import sensitivity_max

from rationales.integrations.captum import MaRC

QUICK = {"steps": 20}


class Weighted(nn.Module):
    """Logits (0, sum of weight x feature, ...): feature 2 decides for class 1, feature 4 for class 2."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)
        with torch.no_grad():
            self.linear.weight.zero_()
            self.linear.bias.zero_()
            self.linear.weight[1, 2] = self.linear.weight[2, 4] = 6.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def test_it_is_an_attribution_of_captum():
    method = MaRC(Weighted())
    assert isinstance(method, Attribution)
    assert not method.has_convergence_delta()
    assert not method.multiplies_by_inputs
    assert method.get_name() == "MaRC"


@pytest.mark.parametrize("shape", [(3,), (3, 6), (3, 5, 4), (2, 3, 8, 8), (2, 1, 8, 4), (2, 2, 3, 4, 4)])
def test_attributions_have_the_shape_and_the_type_of_the_inputs(shape):
    inputs = torch.rand(shape, dtype=torch.float64)
    scores = MaRC(lambda x: x.reshape(len(x), -1).sum(1), **QUICK).attribute(inputs)
    assert scores.shape == inputs.shape
    assert scores.dtype == torch.float64
    assert bool(((scores >= 0) & (scores <= 1)).all())


@pytest.mark.parametrize(
    ("target", "features"),
    [
        (1, [2, 2]),
        (torch.tensor(2), [4, 4]),
        (torch.tensor([1, 2]), [2, 4]),
        ([2, 1], [4, 2]),
        ([(1,), (2,)], [2, 4]),
        (-1, [4, 4]),
    ],
)
def test_every_form_of_target_selects_its_class(target, features):
    scores = MaRC(Weighted(), **QUICK).attribute(torch.ones(2, 6), target=target)
    assert scores.argmax(1).tolist() == features


@pytest.mark.parametrize("target", [(1, 2), [(1, 2), (1, 2)]])
def test_a_tuple_selects_from_an_output_of_several_axes(target):
    def two_positions(x):
        return torch.stack([Weighted()(x.flip(1)), Weighted()(x)], 1)  # (N, 2, 3)

    assert MaRC(two_positions, **QUICK).attribute(torch.ones(2, 6), target=target).argmax(1).tolist() == [4, 4]


def test_without_a_target_the_predicted_class_is_explained():
    inputs = torch.tensor([[0.0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0]])
    assert MaRC(Weighted(), **QUICK).attribute(inputs).argmax(1).tolist() == [2, 4]


@pytest.mark.parametrize("columns", [(), (1,)])
def test_one_output_for_each_input_needs_no_target(columns):
    def single(x):
        return (8 * x[:, 3] - 4).reshape(len(x), *columns)

    assert MaRC(single, **QUICK).attribute(torch.ones(2, 6)).argmax(1).tolist() == [3, 3]


@pytest.mark.parametrize(
    "baselines", [None, 0, 0.0, torch.zeros(1, 6), torch.zeros(2, 6), torch.zeros(6)], ids=lambda value: str(value)[:15]
)
def test_every_form_of_baseline_gives_the_same(baselines):
    expected = MaRC(Weighted(), **QUICK).attribute(torch.ones(2, 6), target=1)
    assert torch.equal(MaRC(Weighted(), **QUICK).attribute(torch.ones(2, 6), baselines, target=1), expected)


def test_a_feature_that_equals_its_baseline_matters_to_nobody():
    baseline = torch.tensor([[0.0, 0, 1, 0, 0, 0]])
    scores = MaRC(Weighted(), **QUICK).attribute(torch.ones(1, 6), baseline, target=1)
    assert float(scores[0, 2]) <= float(scores[0, [0, 1, 3, 5]].max()) + 0.05


def test_several_inputs_are_explained_together_and_come_back_as_a_tuple():
    def both(vector, sequence, image):
        sums = [torch.zeros(len(vector)), 4 * vector[:, 1] + 4 * sequence[:, 2].sum(1) + 0 * image.sum((1, 2, 3))]
        return torch.stack(sums, 1)

    inputs = (torch.ones(2, 3), torch.ones(2, 4, 2), torch.ones(2, 1, 28, 28))
    scores = MaRC(both).attribute(inputs, (0, torch.zeros(1, 4, 2), 0.0), target=1)
    assert isinstance(scores, tuple)
    assert [tensor.shape for tensor in scores] == [tensor.shape for tensor in inputs]
    vector, sequence, image = scores
    assert vector.argmax(1).tolist() == [1, 1]
    assert sequence[:, :, 0].argmax(1).tolist() == [2, 2]
    assert float(image.max()) < 0.1 < float(sequence[0, 2, 0])


def test_a_tuple_of_one_input_comes_back_as_a_tuple():
    (scores,) = MaRC(Weighted(), **QUICK).attribute((torch.ones(2, 6),), target=1)
    assert scores.shape == (2, 6)


def test_further_arguments_follow_their_input():
    def gated(x, gate, scale):
        return torch.stack([torch.zeros(len(x)), (scale * gate * x).sum(1)], 1)

    gates = torch.eye(4)[:3]
    scores = MaRC(gated, **QUICK).attribute(
        torch.ones(3, 4), target=1, additional_forward_args=(gates, 6.0), internal_batch_size=2
    )
    assert scores.argmax(1).tolist() == [0, 1, 2]


def test_a_feature_mask_groups_elements_as_in_captum():
    mask = torch.tensor([[0, 0, 1, 1, 2, 2]])
    scores = MaRC(Weighted(), **QUICK).attribute(torch.ones(2, 6), target=1, feature_mask=mask)
    ablation = FeatureAblation(Weighted()).attribute(torch.ones(2, 6), target=1, feature_mask=mask)
    assert torch.equal(scores[:, ::2], scores[:, 1::2])
    assert torch.equal(scores.argmax(1), ablation.argmax(1))


def test_the_bright_square_of_an_image_is_found_and_channels_share_a_score():
    images = bright_images()
    scores = MaRC(Quadrants()).attribute(images, target=[0, 1, 2])
    assert torch.equal(scores[:, 0], scores[:, 2])
    for number, (top, left) in enumerate([(2, 2), (2, 10), (10, 2)]):
        cause = torch.zeros(16, 16, dtype=torch.bool)
        cause[top : top + 4, left : left + 4] = True
        selected = scores[number, 0] > 0.5
        overlap = (selected & cause).sum() / (selected | cause).sum()
        assert float(overlap) > 0.6


def test_positions_of_a_sequence_have_one_score_each():
    sequence = torch.zeros(2, 7, 4)
    sequence[0, 3, 1] = sequence[1, 5, 0] = 1
    scores = MaRC(lambda embedded: 8 * embedded[:, :, :2].sum(1), **QUICK).attribute(sequence, target=[1, 0])
    assert torch.equal(scores[..., 0], scores[..., 3])
    assert scores[..., 0].argmax(1).tolist() == [3, 5]


def test_alone_equals_in_a_batch_and_the_batch_size_changes_nothing():
    inputs = torch.rand(3, 6, generator=torch.Generator().manual_seed(1))
    method = MaRC(Weighted(), **QUICK)
    together = method.attribute(inputs, target=1)
    alone = torch.cat([method.attribute(row[None], target=1) for row in inputs])
    assert torch.allclose(together, alone, atol=2e-3)
    assert torch.allclose(together, method.attribute(inputs, target=1, internal_batch_size=1), atol=2e-3)


def test_probabilities_instead_of_logits():
    def probabilities(x):
        return Weighted()(x).softmax(-1)

    by_probabilities = MaRC(probabilities, output="probabilities", **QUICK).attribute(torch.ones(1, 6), target=2)
    assert torch.allclose(by_probabilities, MaRC(Weighted(), **QUICK).attribute(torch.ones(1, 6), target=2), atol=2e-3)


def test_the_model_and_the_inputs_are_left_as_they_were():
    model, inputs = Weighted().train(), torch.ones(2, 6, requires_grad=True)
    MaRC(model, **QUICK).attribute(inputs, target=1)
    assert model.training
    assert all(weight.requires_grad and weight.grad is None for weight in model.parameters())
    assert inputs.grad is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": torch.ones(2, 6, dtype=torch.long)}, "token ids"),
        ({"target": 7}, "selects no output"),
        ({"target": [1]}, "1 targets for 2 inputs"),
        ({"target": (1, 2)}, "a number"),
        ({"baselines": torch.zeros(5)}, "does not fit"),
        ({"feature_mask": torch.zeros(1, 5, dtype=torch.long)}, "feature mask"),
        ({"inputs": (torch.ones(2, 6), torch.ones(3, 6))}, "must agree"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(OptionError, match=message):
        MaRC(Weighted()).attribute(**{"inputs": torch.ones(2, 6), "target": 1, **arguments})


def test_a_function_without_a_row_for_each_input_is_reported():
    with pytest.raises(ModelError, match="a row for each"):
        MaRC(lambda x: x.sum()).attribute(torch.ones(2, 6))


def test_what_captum_wraps_around_attributions_goes_around_this_one():
    """NoiseTunnel calls attribute on noisy copies, sensitivity_max compares attributions of nearby inputs."""
    marc, x = MaRC(Weighted(), **QUICK), torch.ones(2, 6)
    torch.manual_seed(0)
    tunnel = NoiseTunnel(marc).attribute(x, nt_type="smoothgrad", nt_samples=3, stdevs=0.1, target=[1, 2])
    assert tunnel.shape == x.shape
    assert tunnel.argmax(1).tolist() == [2, 4]
    change = sensitivity_max(marc.attribute, x, perturb_radius=0.01, n_perturb_samples=2, target=1)
    assert change.shape == (2,)
    assert bool(torch.isfinite(change).all())
