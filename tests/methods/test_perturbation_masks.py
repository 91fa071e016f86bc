"""Meaningful and extremal perturbation: the engine of MaRC with other masks, against literal loops on one picture."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("skimage")

from models.image.test_model import SIDE, preprocess, scene
from reference import perturbation

from methods.test_every_method_images import PICTURES, RedMinusBlue, detector, model_of, network
from rationales.errors import OptionError
from rationales.masks.objective import at_area
from rationales.masks.optimize import optimize
from rationales.methods import build
from rationales.methods.mask.meaningful_perturbation import circle_start
from rationales.models.image.loading import from_module
from rationales.pipeline.explain import explain

CELL = 8


@pytest.mark.parametrize("game", ["deletion", "preservation", "hybrid"])
def test_meaningful_perturbation_is_a_literal_loop_of_adam(game):
    """One picture on one baseline; torch's own Adam, one term after the other.

    The picture has no area of one colour: there the maxima of the network's pooling are equal, and rounding decides
    which of them gets the gradient.
    """
    module = network().double()
    model = model_of(module, baselines=("black",))
    noise = np.random.default_rng(0).integers(-20, 20, PICTURES[0].shape)
    encoded = model.encode([model.read((PICTURES[0] + noise).clip(0, 255).astype(np.uint8), None)])
    options = {"game": game, "steps": 6, "cell": CELL, "jitter": 0.0, "start": "uniform", "tv_weight": 0.05}
    with model.frozen():
        batch = model.batch(encoded)
        scores = build("meaningful-perturbation", options, "image").scores(batch, torch.tensor([1])).scores
        pixels, baseline = batch.values[0].double(), batch.baseline_values[0].double()
    side = SIDE // CELL
    start = {"deletion": 0.0, "preservation": 1.0, "hybrid": 0.5}[game]
    cells = torch.full((side, side), start, dtype=torch.float64, requires_grad=True)
    resample = _matrix(side)
    optimizer = torch.optim.Adam([cells], lr=0.1)
    for _ in range(6):
        optimizer.zero_grad()
        keep = (resample @ cells.flatten()).view(SIDE, SIDE)
        loss = 1e-4 * cells.sum()
        for first, second in ((cells[1:], cells[:-1]), (cells[:, 1:], cells[:, :-1])):
            loss = loss + 0.05 * ((first - second).abs() ** 3).sum()
        if game != "preservation":
            loss = loss + module((1 - keep) * pixels[None] + keep * baseline[None]).softmax(-1)[0, 1]
        if game != "deletion":
            loss = loss - module(keep * pixels[None] + (1 - keep) * baseline[None]).softmax(-1)[0, 1]
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            cells.clamp_(0, 1)
    expected = (resample @ cells.detach().flatten()).numpy()
    assert np.ptp(expected) > 0.05  # the mask has a shape
    assert np.allclose(scores[0].numpy(), expected, atol=1e-5)  # keeps end 1e-6 before 0 and 1, evidence 5e-6


@functools.cache
def _matrix(side, blur=0.625 * CELL):
    """(pixels, cells): the literal up-sampling and blur of every cell by itself."""
    columns = []
    for number in range(side * side):
        cells = np.zeros(side * side)
        cells[number] = 1
        columns.append(perturbation.upsampled(cells.reshape(side, side), (SIDE, SIDE), CELL, blur).flatten())
    return torch.from_numpy(np.stack(columns, 1))


@pytest.mark.parametrize("game", ["deletion", "preservation", "hybrid"])
def test_extremal_perturbation_is_a_literal_loop_of_adam(game):
    """Eq. 4 on one picture and one baseline: log-odds less the area's penalty, whose weight grows a hundredfold twice.

    The squared difference between mean and area is added to it, a hundred times.
    The smooth maximum of Eq. 6 and 7 is written out over all pairs of cells; at the end the logits are shifted until
    their mean is the area, by bisection.
    """
    steps, area, module = 6, 0.3, network().double()
    model = model_of(module, baselines=("black",))
    noise = np.random.default_rng(0).integers(-20, 20, PICTURES[0].shape)
    encoded = model.encode([model.read((PICTURES[0] + noise).clip(0, 255).astype(np.uint8), None)])
    options = {"game": game, "steps": steps, "cell": CELL, "areas": str(area), "width": 0.5, "area_weight": 2.0}
    with model.frozen():
        batch = model.batch(encoded)
        scores = build("extremal-perturbation", options, "image").scores(batch, torch.tensor([1])).scores
        pixels, baseline = batch.values[0].double(), batch.baseline_values[0].double()
    side = SIDE // CELL
    position = torch.cartesian_prod(torch.arange(side), torch.arange(side)).double()
    squares = (position[:, None] - position).square().sum(-1)  # (cells, cells)
    kernel, near = torch.exp(-squares / (2 * 0.5**2)), squares <= (3 * 0.5) ** 2
    resample = _matrix(side, 0.0)
    cells = torch.ones(side * side, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([cells], lr=0.05)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 + math.cos(math.pi * step / steps)) / 2
        optimizer.zero_grad()
        keep = _literal_keep(cells, kernel, near, resample)
        q = _bisected(lambda q, keep=keep: torch.sigmoid((keep.detach() - q) / 0.03).mean() > area)
        reference = torch.sigmoid((keep.detach() - q) / 0.03)
        weight = 2 * 1e-4 ** max(0.0, 1 - step / (0.5 * steps))
        loss = weight * ((keep - reference).square().mean() + 100 * (keep.mean() - area) ** 2)
        mask = keep.view(SIDE, SIDE)
        for visible, sign, played in ((mask, -1, game != "deletion"), (1 - mask, 1, game != "preservation")):
            if played:
                p = module(visible * pixels[None] + (1 - visible) * baseline[None]).softmax(-1)[0, 1]
                loss = loss + sign * (p.log() - (1 - p).log())
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            cells.clamp_(0, 1)
    z = torch.logit(_literal_keep(cells.detach(), kernel, near, resample).clamp(1e-6, 1 - 1e-6))
    expected = torch.sigmoid(z - _bisected(lambda q: torch.sigmoid(z - q).mean() > area, 40.0))
    assert np.ptp(expected.numpy()) > 0.05  # the mask has a shape
    assert np.allclose(scores[0].numpy(), expected.numpy(), atol=1e-4)


def _literal_keep(cells, kernel, near, resample):
    """(pixels,): the smooth maximum over neighbouring cells, up-sampled."""
    values = kernel * cells
    share = torch.where(near, 20 * values, -torch.inf).softmax(1)
    return resample @ (share * values).sum(1)


def _bisected(too_large, reach=2.0):
    """The number at which a mean that falls with it is no longer too large."""
    low, high = -reach, reach
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if too_large(middle) else (low, middle)
    return (low + high) / 2


def optimised_areas(area, **options):
    """The mean of every optimised mask before it is shifted to its area, and the share of its units above one half."""
    model = model_of(network(), baselines=("mean",))
    method = build("extremal-perturbation", {"steps": 120, "cell": 4, "width": 0.5, **options}, "image")
    with model.frozen():
        batch = model.batch(model.encode([model.read(picture, None) for picture in PICTURES[:2]]))
        keep = optimize(batch, torch.tensor([0, 1]), method.settings(area)).keep
    return keep.mean(1).numpy(), (keep > 0.5).double().mean(1).numpy()


@pytest.mark.parametrize("area", [0.1, 0.3])
@pytest.mark.parametrize("game", ["deletion", "preservation", pytest.param("hybrid", marks=pytest.mark.slow)])
def test_extremal_perturbation_meets_its_area_within_one_percent(area, game):
    """By the penalty alone, whatever its logits are shifted by at last; with the edges of 8 x 8 soft cells."""
    means, above_half = optimised_areas(area, game=game)
    assert means == pytest.approx(area, abs=0.01)
    assert above_half == pytest.approx(area, abs=0.03)


def test_without_the_penalty_the_area_is_not_met():
    means, above_half = optimised_areas(0.1, area_weight=1e-6, steps=60)
    assert np.abs(means - 0.1).max() > 0.1
    assert np.abs(above_half - 0.1).max() > 0.1


@pytest.mark.parametrize(("area_weight", "noted"), [(1000.0, 0), (1e-6, 1)])
def test_a_mask_that_is_far_from_its_area_is_noted(area_weight, noted):
    options = {"areas": "0.3", "steps": 120, "cell": 4, "width": 0.5, "area_weight": area_weight}
    model = model_of(network(), baselines=("mean",))
    for result in explain(model, PICTURES[:1], method="extremal-perturbation", options=options):
        notes = [note for note in result.notes if note.kind == "area"]
        assert len(notes) == noted
        assert all("and was shifted to 30.0%" in note.message for note in notes)


def test_a_shift_of_the_logits_gives_any_area():
    model = model_of(network())
    encoded = model.encode([model.read(picture, None) for picture in PICTURES])
    with model.frozen():
        batch = model.batch(encoded)
    z = torch.randn(batch.masks, batch.size[1], generator=torch.Generator().manual_seed(0))
    moved = at_area(z, batch, 0.2)
    assert moved.sigmoid().mean(1).tolist() == pytest.approx([0.2] * 3, abs=1e-3)
    assert torch.allclose((z - moved).std(1), torch.zeros(3), atol=1e-5)


def test_several_areas_are_averaged():
    model, one_area = model_of(network()), {"steps": 10, "cell": 4}
    masks = [
        explain(model, PICTURES[0], method="extremal-perturbation", options={**one_area, "areas": areas}).scores
        for areas in ("0.1", "0.4", "0.1,0.4")
    ]
    assert np.allclose((masks[0] + masks[1]) / 2, masks[2], atol=1e-6)


@pytest.mark.parametrize("method", ["meaningful-perturbation", "extremal-perturbation"])
def test_a_blur_replaces_pixels_whatever_baselines_the_model_has(method):
    options = {"steps": 8, "cell": 4} | ({"areas": "0.3"} if method.startswith("extremal") else {})
    blurring = explain(model_of(network(), baselines=("blur-10",)), PICTURES, method=method, options=options)
    options["baseline"] = "blur-10"
    several = explain(model_of(network(), baselines=("black", "white")), PICTURES, method=method, options=options)
    for expected, actual in zip(blurring, several, strict=True):
        assert np.allclose(actual.scores, expected.scores, atol=1e-4)
        assert actual.scores.std() > 0


@pytest.mark.parametrize("areas", ["", "0", "1", "0.1;0.2", "many"])
def test_areas_are_shares(areas):
    with pytest.raises(OptionError, match="areas are numbers between 0 and 1"):
        build("extremal-perturbation", {"areas": areas}, "image")


def test_the_first_circle_is_the_smallest_that_takes_the_target_away():
    """A red square in the middle needs a small circle, one in a corner a large one."""
    model = detector()
    settings = build("meaningful-perturbation", {"cell": 2}, "image").settings()
    areas = []
    for top, left in ((11, 11), (1, 1)):
        encoded = model.encode([model.read(scene(top, left), None)])
        with model.frozen():
            batch = model.batch(encoded)
            w, _ = circle_start(batch, torch.tensor([model.labels.index("red")]), settings)
        areas.append(float(w.mean()))
    assert 0 < areas[0] < areas[1] <= 1


def test_one_side_is_shown_in_one_game_and_both_in_the_hybrid():
    counts = {}
    for game in ("deletion", "preservation", "hybrid"):
        module, rows = RedMinusBlue().eval(), []
        model = from_module(module, preprocess, ["sea", "flag"], "colours", ["black"])
        encoded = model.encode([model.read(PICTURES[0], None)])
        options = {"game": game, "steps": 4, "start": "uniform", "cell": 8}
        with model.frozen():
            batch = model.batch(encoded)
            handle = module.register_forward_pre_hook(lambda _, inputs, rows=rows: rows.append(len(inputs[0])))
            build("meaningful-perturbation", options, "image").scores(batch, torch.tensor([1]))
            handle.remove()
        counts[game] = sum(rows)
    assert counts == {"deletion": 4, "preservation": 4, "hybrid": 8}
