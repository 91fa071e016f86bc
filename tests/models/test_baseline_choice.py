"""Baselines chosen by asking the model what each of them tells it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import rationales
from rationales.models.baseline_choice import (
    CANDIDATES,
    CHOSEN,
    PATCH,
    choose,
    informativeness,
    patches,
    remaining,
)
from rationales.models.image import AUTOMATIC
from rationales.models.image_loading import from_module

SIDE = 16


class Bright(nn.Module):
    """Sure of `bright` where the mean is high, sure of `dark` where it is low: black and white both tell it much."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(20.0))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        mean = pixels.mean((1, 2, 3))
        return self.slope * torch.stack([0.5 - mean, mean - 0.5], 1)


def to_tensor(image):
    return torch.from_numpy(np.asarray(image.resize((SIDE, SIDE)), dtype=np.float32) / 255).permute(2, 0, 1)


def model(baselines=None):
    return from_module(Bright(), to_tensor, ["dark", "bright"], "bright", baselines)


def picture(seed=0):
    drawn = np.random.default_rng(seed).integers(150, 256, (SIDE, SIDE, 3))
    return drawn.astype(np.uint8)


def test_informativeness_by_hand():
    full = torch.tensor([[0.9, 0.1], [0.5, 0.5]])
    alone = torch.tensor([[[0.9, 0.1], [0.0, 1.0], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]]])
    # the shared part of the decision and the largest probability, averaged
    wanted = [[(1.0 + 0.9) / 2, (0.1 + 1.0) / 2, (0.6 + 0.5) / 2], [(0.5 + 1.0) / 2, (1.0 + 0.5) / 2, (0.7 + 0.8) / 2]]
    assert torch.allclose(informativeness(full, alone, alone), torch.tensor(wanted))
    # in patches the first baseline shares less and the second more of the decision: the larger share counts
    patched = torch.tensor([[[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]]])
    wanted[0][1], wanted[1][2] = (0.9 + 1.0) / 2, (1.0 + 0.8) / 2
    assert torch.allclose(informativeness(full, alone, patched), torch.tensor(wanted))


class Grain(nn.Module):
    """Sure of `grain` where neighbouring pixels differ by more than half of the range anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(40.0))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        steps = pixels.diff(dim=-1).abs().amax((1, 2, 3)) - 0.5
        return self.slope * torch.stack([-steps, steps], 1)


def test_a_baseline_whose_edges_the_model_takes_for_its_cause_is_not_chosen():
    """A dark picture with a grain: white alone has none, but wherever it stands beside anything there is an edge."""
    drawn = np.full((SIDE, SIDE, 3), 80, dtype=np.uint8)
    drawn[5, 5] = 255
    own = from_module(Grain(), to_tensor, ["plain", "grain"], "grain", None)
    (one,) = own.encode([own.read(drawn, None)])
    told = dict(one.chosen.told)
    assert told["white"] > 0.9
    assert "white" not in one.chosen.names
    assert "mean" in one.chosen.names


def test_about_half_of_a_picture_lies_under_patches_and_they_are_always_the_same():
    for height, width in ((224, 224), (37, 80), (3, 5)):
        drawn = patches(height, width)
        assert drawn.shape == (height, width)
        assert torch.equal(drawn, patches(height, width))
        assert torch.equal(drawn[:PATCH, :PATCH], drawn[0, 0].expand_as(drawn[:PATCH, :PATCH]))
    assert float(patches(224, 224).float().mean()) == pytest.approx(0.5, abs=0.1)


def test_what_a_model_is_sure_of_is_not_chosen():
    result = rationales.explain(model(), picture(), method="random")
    (note,) = [one for one in result.notes if one.kind == "baselines"]
    taken = result.baseline.split(", ")
    assert "black" in taken
    assert "white" not in taken  # it is sure of `bright` there, as in the picture
    assert all(name in note.message for name in CANDIDATES)
    assert "name baselines" in note.message


def test_named_baselines_are_taken_as_they_are():
    result = rationales.explain(model(["white"]), picture(), method="random")
    assert result.baseline == "white"
    assert not [one for one in result.notes if one.kind == "baselines"]


def test_the_choice_does_not_depend_on_company_or_seed():
    own = model()
    pictures = [picture(seed) for seed in range(11)]  # more than are asked at once
    together = rationales.explain(own, pictures, method="random")
    for number in (0, 8, 10):
        assert rationales.explain(own, pictures[number], method="random", seed=3).baseline == together[number].baseline


def test_a_batch_made_of_other_encodings_chooses_then():
    named, own = model(["black"]), model()
    encoded = named.encode([named.read(picture(), None)])
    assert encoded[0].chosen is None
    assert own.baselines == AUTOMATIC
    assert own.batch(encoded).views == CHOSEN


def test_the_model_is_left_as_it_was():
    own = model()
    own.module.train()
    own.encode([own.read(picture(), None)])
    assert own.module.training
    assert own.module.slope.requires_grad


def test_several_labels_at_once():
    """Probabilities that do not sum to 1 still give a number between 0 and 1."""
    alone = torch.tensor([[[0.9, 0.9, 0.9], [0.0, 0.0, 0.0]]])
    values = informativeness(torch.tensor([[0.9, 0.8, 0.7]]), alone, alone)
    assert values.tolist() == [pytest.approx([0.95, 0.0])]


def answering(*views):
    """A choice for one picture of class 1, given the probabilities of class 0 for all candidates in all four ways."""
    shown = torch.tensor([[p, 1 - p] for own in views for p in own])
    order = iter([torch.tensor([[0.0, 1.0]]), shown])
    (choice,) = choose([torch.zeros(3, 4, 4)], lambda _n, _name: torch.zeros(3, 4, 4), lambda _pixels: next(order))
    return choice


def test_the_least_telling_come_first():
    # in a choice of two what is there and how sure the model is add up to 1, unless more than half is there
    choice = answering(*[[0.9, 0.6, 0.4, 0.3, 0.95, 0.85]] * 4)
    assert [round(value, 3) for _, value in choice.told] == [0.5, 0.5, 0.5, 0.5, 0.6, 0.7]
    assert [name for name, _ in choice.told] == ["blur-20", "black", "noise", "white", "mean", "blur-10"]
    assert choice.fitting == ("blur-20", "black", "noise")  # odds of 1/19, 1/9 and 3/17; 2/3 is more than e² times 1/19
    assert choice.names == ("blur-20", "black", "noise")
    assert "left out: with them more of the decision is left: white 0.50, mean 0.60" in choice.message


def test_where_fewer_fit_they_are_taken_again():
    choice = answering(*[[0.1, 0.1, 0.1, 0.1, 0.2, 0.99]] * 4)
    assert choice.fitting == ("noise",)
    assert choice.names == ("noise",) * CHOSEN
    choice = answering(*[[0.1, 0.1, 0.99, 0.1, 0.2, 0.98]] * 4)
    assert choice.names == ("mean", "noise", "mean")


def test_what_takes_all_of_the_decision_away_always_fits():
    """Odds of a thousandth and of a hundredth differ by more than the gap, and both are nothing."""
    choice = answering(*[[0.999, 0.99, 0.98, 0.97, 0.96, 0.2]] * 4)
    assert choice.fitting == ("black", "white", "mean", "blur-10", "blur-20")
    # but one that is so only on the picture has not taken it away
    choice = answering(*[[0.999, 0.9, 0.5, 0.5, 0.5, 0.5]] * 2, *[[0.999, 0.99, 0.9, 0.5, 0.5, 0.5]] * 2)
    assert choice.fitting == ("black",)


def test_a_model_without_numbers_is_for_others_to_report():
    assert len(set(answering(*[[math.nan] * 6] * 4).names)) == CHOSEN


def test_what_is_left_by_hand():
    full = torch.tensor([[0.8, 0.2]])
    views = torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[0.0, 1.0]]])  # shared: 0.7 and 0.2
    wanted = (np.log(0.7 / 0.3) + np.log(0.2 / 0.8)) / 2
    assert remaining(full, views).tolist() == [[pytest.approx(wanted, abs=1e-6)]]


def test_a_plain_picture_is_told_by_noise_alone():
    """To a model that looks for grain every flat baseline is as plain as the picture; noise takes that away."""
    own = from_module(Grain(), to_tensor, ["plain", "grain"], "grain", None)
    encoded = own.encode([own.read(np.full((SIDE, SIDE, 3), 80, dtype=np.uint8), None)])
    assert encoded[0].chosen.names == ("noise",) * CHOSEN
    batch = own.batch(encoded)
    assert batch.views == CHOSEN
    first, second, third = batch.empty
    assert not torch.equal(first, second)  # drawn anew each time
    assert not torch.equal(second, third)
    assert torch.equal(own.batch(encoded).empty, batch.empty)
    result = rationales.explain(own, np.full((SIDE, SIDE, 3), 80, dtype=np.uint8), method="random")
    assert result.baseline == "noise"
