"""Baselines chosen by asking the model what each of them tells it."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch
from torch import nn

import rationales
from rationales.models.batch.rows import content_key
from rationales.models.image.baseline_choice import (
    BASELINE_COUNT,
    CANDIDATES,
    PATCH,
    PLAIN_COLOURS,
    ROWS_PER_IMAGE,
    PlainPredictions,
    choices_of,
    choose_plain,
    informativeness,
    patch_mask,
    remaining_decision,
)
from rationales.models.image.baselines import baseline
from rationales.models.image.loading import from_module
from rationales.models.image.model import AUTOMATIC

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
    array = np.random.default_rng(seed).integers(150, 256, (SIDE, SIDE, 3))
    return array.astype(np.uint8)


def test_informativeness_by_hand():
    full = torch.tensor([[0.9, 0.1], [0.5, 0.5]])
    alone = torch.tensor([[[0.9, 0.1], [0.0, 1.0], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]]])
    # the shared part of the decision and the largest probability, averaged
    expected = [
        [(1.0 + 0.9) / 2, (0.1 + 1.0) / 2, (0.6 + 0.5) / 2],
        [(0.5 + 1.0) / 2, (1.0 + 0.5) / 2, (0.7 + 0.8) / 2],
    ]
    assert torch.allclose(informativeness(full, alone, alone), torch.tensor(expected))
    # in patches the first baseline shares less and the second more of the decision: the larger share counts
    patched = torch.tensor([[[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]]])
    expected[0][1], expected[1][2] = (0.9 + 1.0) / 2, (1.0 + 0.8) / 2
    assert torch.allclose(informativeness(full, alone, patched), torch.tensor(expected))


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
    array = np.full((SIDE, SIDE, 3), 80, dtype=np.uint8)
    array[5, 5] = 255
    auto_model = from_module(Grain(), to_tensor, ["plain", "grain"], "grain", None)
    (encoded,) = auto_model.encode([auto_model.read(array, None)])
    informativeness_by_name = dict(encoded.baseline_choice.informativeness)
    assert informativeness_by_name["white"] > 0.9
    assert "white" not in encoded.baseline_choice.names
    assert "mean" in encoded.baseline_choice.names


def test_about_half_of_a_picture_lies_under_patches_and_they_are_always_the_same():
    for height, width in ((224, 224), (37, 80), (3, 5)):
        array = patch_mask(height, width)
        assert array.shape == (height, width)
        assert torch.equal(array, patch_mask(height, width))
        assert torch.equal(array[:PATCH, :PATCH], array[0, 0].expand_as(array[:PATCH, :PATCH]))
    assert float(patch_mask(224, 224).float().mean()) == pytest.approx(0.5, abs=0.1)


def test_what_a_model_is_sure_of_is_not_chosen():
    result = rationales.explain(model(), picture(), method="occlusion")
    (note,) = [candidate for candidate in result.notes if candidate.kind == "baselines"]
    chosen_names = result.baseline.split(", ")
    assert "black" in chosen_names
    assert "white" not in chosen_names  # it is sure of `bright` there, as in the picture
    assert all(name in note.message for name in CANDIDATES)
    assert "name baselines" in note.message


def test_named_baselines_are_taken_as_they_are():
    result = rationales.explain(model(["white"]), picture(), method="random")
    assert result.baseline == "white"
    assert not [candidate for candidate in result.notes if candidate.kind == "baselines"]


def test_the_choice_does_not_depend_on_company_or_seed():
    auto_model = model()
    pictures = [picture(seed) for seed in range(11)]  # more than are asked at once
    for method in ("occlusion", "random"):
        together = rationales.explain(auto_model, pictures, method=method)
        for number in (0, 8, 10):
            alone = rationales.explain(auto_model, pictures[number], method=method, seed=3)
            assert alone.baseline == together[number].baseline


def test_a_batch_made_of_other_encodings_chooses_then():
    named, auto_model = model(["black"]), model()
    encoded = named.encode([named.read(picture(), None)])
    assert encoded[0].baseline_choice is None
    assert auto_model.baselines == AUTOMATIC
    assert auto_model.batch(encoded).views == BASELINE_COUNT


def test_the_model_is_left_as_it_was():
    auto_model = model()
    auto_model.module.train()
    auto_model.encode([auto_model.read(picture(), None)])
    assert auto_model.module.training
    assert auto_model.module.slope.requires_grad


def test_several_labels_at_once():
    """Probabilities that do not sum to 1 still give a number between 0 and 1."""
    alone = torch.tensor([[[0.9, 0.9, 0.9], [0.0, 0.0, 0.0]]])
    values = informativeness(torch.tensor([[0.9, 0.8, 0.7]]), alone, alone)
    assert values.tolist() == [pytest.approx([0.95, 0.0])]


def answering(*views):
    """A choice for one picture of class 1, given the probabilities of class 0 for all candidates in all four ways."""
    predictions = [torch.tensor([[[p, 1 - p] for p in view]]) for view in views]
    (choice,) = choices_of(torch.tensor([[0.0, 1.0]]), *predictions)
    return choice


def test_the_least_telling_come_first():
    # in a choice of two what is there and how sure the model is add up to 1, unless more than half is there
    choice = answering(*[[0.9, 0.6, 0.4, 0.3, 0.95, 0.85]] * 4)
    assert [round(value, 3) for _, value in choice.informativeness] == [0.5, 0.5, 0.5, 0.5, 0.6, 0.7]
    assert [name for name, _ in choice.informativeness] == ["blur-20", "black", "noise", "white", "mean", "blur-10"]
    assert choice.fitting == ("blur-20", "black", "noise")  # odds of 1/19, 1/9 and 3/17; 2/3 is more than e² times 1/19
    assert choice.names == ("blur-20", "black", "noise")
    assert "left out: with them more of the decision is left: white 0.50, mean 0.60" in choice.message


def test_where_fewer_fit_they_are_taken_again():
    choice = answering(*[[0.1, 0.1, 0.1, 0.1, 0.2, 0.99]] * 4)
    assert choice.fitting == ("noise",)
    assert choice.names == ("noise",) * BASELINE_COUNT
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
    assert len(set(answering(*[[math.nan] * 6] * 4).names)) == BASELINE_COUNT


def test_what_is_left_by_hand():
    full = torch.tensor([[0.8, 0.2]])
    views = torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[0.0, 1.0]]])  # shared: 0.7 and 0.2
    expected = (np.log(0.7 / 0.3) + np.log(0.2 / 0.8)) / 2
    assert remaining_decision(full, views).tolist() == [[pytest.approx(expected, abs=1e-6)]]


def test_a_plain_picture_is_told_by_noise_alone():
    """To a model that looks for grain every flat baseline is as plain as the picture; noise takes that away."""
    auto_model = from_module(Grain(), to_tensor, ["plain", "grain"], "grain", None)
    encoded = auto_model.encode([auto_model.read(np.full((SIDE, SIDE, 3), 80, dtype=np.uint8), None)])
    assert encoded[0].baseline_choice.names == ("noise",) * BASELINE_COUNT
    batch = auto_model.batch(encoded)
    assert batch.views == BASELINE_COUNT
    first, second, third = batch.baseline_values
    assert not torch.equal(first, second)  # drawn anew each time
    assert not torch.equal(second, third)
    assert torch.equal(auto_model.batch(encoded).baseline_values, batch.baseline_values)
    result = rationales.explain(auto_model, np.full((SIDE, SIDE, 3), 80, dtype=np.uint8), method="occlusion")
    assert result.baseline == "noise"


class Counting(nn.Module):
    """A convolution and a mean; counts the images that go through it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        with torch.no_grad():
            for weight in self.parameters():
                weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
        self.rows = 0

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        self.rows += len(pixels)
        return 5 * self.layers(pixels)

    def rows_of(self, function) -> int:
        before = self.rows
        function()
        return self.rows - before


def counting_model():
    return from_module(Counting().eval(), to_tensor, list("abcd"), "counting", None)


def slow_choices(auto_model, encoded):
    """The choices as the module's docstring says them, one image and one candidate at a time."""
    hidden = patch_mask(SIDE, SIDE)

    def predict(pixels):
        with torch.no_grad():
            return auto_model.module(pixels[None]).softmax(-1)[0]

    for image in encoded:
        key = content_key(0, image.source.pixels.tobytes())
        candidates = {
            name: baseline(name, image.pixels, auto_model.mean_colour, key, image.real) for name in CANDIDATES
        }
        views = {
            "alone": lambda pixels: pixels,
            "patched": lambda pixels, mean=candidates["mean"]: torch.where(hidden, pixels, mean),
            "over": lambda pixels, image=image: torch.where(hidden, pixels, image.pixels),
            "around": lambda pixels, image=image: torch.where(hidden, image.pixels, pixels),
        }
        predictions = [torch.stack([predict(view(candidates[name])) for name in CANDIDATES]) for view in views.values()]
        yield choices_of(predict(image.pixels)[None], *(values[None] for values in predictions))[0]


def test_the_batched_choice_equals_the_slow_one():
    auto_model = counting_model()
    encoded = auto_model.encode([auto_model.read(picture(seed), None) for seed in range(6)])
    for image, expected in zip(encoded, slow_choices(auto_model, encoded), strict=True):
        assert image.baseline_choice.names == expected.names
        assert image.baseline_choice.fitting == expected.fitting
        by_name = dict(image.baseline_choice.informativeness)
        assert by_name == {name: pytest.approx(value, abs=1e-5) for name, value in expected.informativeness}


class TestPlainColours:
    """A method that uses no baselines: its rationale is checked on the plain colour that tells the model least."""

    def test_the_model_is_asked_about_them_once_and_again_after_training(self):
        auto_model = counting_model()
        sources = [auto_model.read(picture(seed), None) for seed in range(2)]
        auto_model.encode(sources)
        known = auto_model.module.rows_of(lambda: auto_model.encode(sources))
        assert known == 2 * (1 + ROWS_PER_IMAGE)
        assert auto_model.module.rows_of(lambda: auto_model.encode(sources, plain_baseline=True)) == 2
        with torch.no_grad():
            auto_model.module.layers[0].weight.mul_(-1)
            auto_model.module.layers[0].weight[0, 0, 0, 0] = 3.0
        assert auto_model.module.rows_of(lambda: auto_model.encode(sources)) == known + 2 * len(PLAIN_COLOURS)

    def test_the_colour_is_the_least_informative_by_hand(self):
        full = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
        alone = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
        first, second = choose_plain(full, PlainPredictions(alone, alone))
        # (shared + largest) / 2 for black, white, mean: 0.95, 0.55, 0.55, of which white shares less; 0.55, 0.85, 0.55
        assert first.names == ("white",)
        assert second.names == ("black",)
        assert [name for name, _ in first.informativeness] == ["white", "mean", "black"]

    @pytest.mark.parametrize("method", ["grad-cam", "saliency", "random"])
    def test_results_say_so(self, method):
        result = rationales.explain(counting_model(), picture(), method=method)
        assert result.baseline in PLAIN_COLOURS
        (note,) = [note for note in result.notes if note.kind == "baselines"]
        assert note.message.startswith("the method uses no baseline")

    def test_probabilities_are_those_of_that_colour(self):
        auto_model = counting_model()
        for pixels in (picture(), picture(1)[:10]):  # the second is squashed
            result = rationales.explain(auto_model, pixels, method="grad-cam")
            named = from_module(auto_model.module, to_tensor, list("abcd"), "counting", [result.baseline])
            same = rationales.explain(named, pixels, method="grad-cam")
            assert np.array_equal(result.scores, same.scores)
            assert result.rule == same.rule
            for name, by_label in result.probabilities.items():
                assert by_label == pytest.approx(same.probabilities[name], abs=2e-6)

    def test_few_rows_go_through_the_model(self):
        auto_model = counting_model()
        explain = functools.partial(rationales.explain, auto_model, picture(), method="grad-cam")
        explain()
        # the image, Grad-CAM, at most four selections with their complements
        assert auto_model.module.rows_of(explain) <= 1 + 1 + 8

    def test_methods_that_are_compared_have_the_same_baselines(self):
        both = rationales.compare(counting_model(), picture(), methods=["occlusion", "saliency"])
        assert len({rationale.baseline for rationale in both.rationales}) == 1
        assert rationales.explain(counting_model(), picture(), method="saliency", plain_baseline=False).baseline == (
            both.rationales[0].baseline
        )
