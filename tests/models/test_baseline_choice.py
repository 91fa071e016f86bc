"""Baselines chosen by asking the model what each of them tells it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import rationales
from rationales.models.baseline_choice import CANDIDATES, CHOSEN, Choice, choose, informativeness
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
    assert torch.allclose(informativeness(full, alone), torch.tensor(wanted))


def test_what_a_model_is_sure_of_is_not_chosen():
    result = rationales.explain(model(), picture(), method="random")
    (note,) = [one for one in result.notes if one.kind == "baselines"]
    taken = result.baseline.split(", ")
    assert len(taken) == CHOSEN
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
    values = informativeness(torch.tensor([[0.9, 0.8, 0.7]]), torch.tensor([[[0.9, 0.9, 0.9], [0.0, 0.0, 0.0]]]))
    assert values.tolist() == [pytest.approx([0.95, 0.0])]


def test_least_first():
    answers = {"black": 0.9, "white": 0.6, "mean": 0.7, "blur-10": 0.8, "blur-20": 0.95, "noise": 0.99}
    order = iter([torch.tensor([[0.0, 1.0]]), torch.tensor([[p, 1 - p] for p in answers.values()])])
    (choice,) = choose([torch.zeros(3, 4, 4)], lambda _n, _name: torch.zeros(3, 4, 4), lambda _pixels: next(order))
    assert choice == Choice(tuple(sorted(choice.told, key=lambda one: one[1])))
    assert choice.names == tuple(name for name, _ in choice.told[:3])
