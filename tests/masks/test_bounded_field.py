"""Masks whose parameters are keeps of cells: equal to the papers' formulas, bounded, and of the requested area."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import perturbation

from rationales.errors import OptionError
from rationales.masks.bounded_field import (
    EDGE_WIDTH,
    KERNEL_RADIUS,
    TEMPERATURE,
    area_reference,
    area_term,
    bounded_keep,
    cell_terms,
    mean_area_term,
    shifted,
    smooth_maximum,
)
from rationales.masks.settings import MaskSettings
from rationales.models.batch.rows import Part


def grid_batch(height, width, masks=1, real=None):
    """What the functions ask of a batch of pictures."""
    units = torch.ones(masks, height * width, dtype=torch.bool) if real is None else real
    return SimpleNamespace(
        grid=(height, width),
        pixel_grid=(height, width),
        parts=(Part(0, height * width, (height, width)),),
        masks=masks,
        size=(masks, height * width),
        rows=SimpleNamespace(real=units),
        dtype=torch.float64,
        device=torch.device("cpu"),
    )


def line_batch(units):
    position = torch.arange(units, dtype=torch.float64)[None]
    rows = SimpleNamespace(real=torch.ones(1, units, dtype=torch.bool), position=position)
    return SimpleNamespace(
        grid=None,
        pixel_grid=None,
        parts=(Part(0, units, None),),
        masks=1,
        size=(1, units),
        rows=rows,
        dtype=torch.float64,
        device=position.device,
    )


def settings_of(**arguments):
    return MaskSettings(mask_weight=1.0, **{"field": "upsampled", "cell": 3, **arguments})


def random_cells(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("blur", [0.0, 0.5])
def test_upsampling_is_bilinear_and_blurred(blur):
    """On a grid whose last cells are cut."""
    cells = random_cells(3, 4)
    keep = bounded_keep(grid_batch(8, 11), settings_of(blur=blur), cells.flatten()[None])
    assert np.allclose(keep.view(8, 11), perturbation.upsampled(cells.numpy(), (8, 11), 3, 3 * blur))


def test_smooth_maximum_is_the_papers():
    cells, sigma = random_cells(4, 5), 0.8
    values = smooth_maximum(cells.flatten()[None], torch.ones(1, 20, dtype=torch.float64), (4, 5), sigma)
    expected = perturbation.smooth_maximum(cells.numpy(), sigma, KERNEL_RADIUS * sigma, TEMPERATURE)
    assert np.allclose(values.view(4, 5), expected)


def test_cells_that_do_not_exist_have_no_say():
    """The right half is padding: whatever its cells are, the left half stays."""
    real = torch.zeros(6, 12, dtype=torch.bool)
    real[:, :6] = True
    batch = grid_batch(6, 12, real=real.flatten()[None])
    for field in ("upsampled", "max-convolution"):
        first, second = random_cells(1, 8), random_cells(1, 8)
        second.view(2, 4)[:, 2:] = 0.9
        keeps = [bounded_keep(batch, settings_of(field=field), cells).view(6, 12)[:, :6] for cells in (first, second)]
        assert torch.allclose(keeps[0], keeps[1])


def test_l1_and_total_variation_are_the_papers():
    cells = random_cells(3, 4)
    weights = settings_of(l1_weight=0.2, tv_weight=0.7, tv_power=3.0)
    value = cell_terms(cells.flatten()[None], grid_batch(8, 11), weights)
    expected = 0.2 * cells.sum() + 0.7 * perturbation.total_variation(cells.numpy(), 3.0)
    assert value.item() == pytest.approx(float(expected))
    on_a_line = cell_terms(cells.flatten()[None], line_batch(12), weights)
    line = 0.2 * cells.sum() + 0.7 * perturbation.total_variation(cells.flatten().numpy()[None], 3.0)
    assert on_a_line.item() == pytest.approx(float(line))


@pytest.mark.parametrize("area", [0.125, 0.25, 0.5])
def test_the_penalty_of_an_area_is_the_papers_where_values_are_apart(area):
    """Eight values, each farther from the next than the width of the edge."""
    values = torch.linspace(0, 1, 8, dtype=torch.float64)[torch.tensor([3, 0, 7, 5, 1, 6, 2, 4])]
    assert values.sort().values.diff().min() > 4 * EDGE_WIDTH
    value = area_term(values[None], torch.ones(1, 8, dtype=torch.bool), area)
    assert value.item() == pytest.approx(perturbation.area_penalty(values.numpy(), area), abs=0.03)


def test_the_mean_of_a_mask_is_compared_with_its_area():
    """Of three units, two of which exist: (0.7 - 0.5)^2."""
    keep, real = torch.tensor([[0.6, 0.8, 1.0]]), torch.tensor([[True, True, False]])
    assert mean_area_term(keep, real, 0.5).item() == pytest.approx(0.04)


@given(st.integers(2, 60), st.floats(0.05, 0.95), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_the_nearest_mask_of_an_area_has_it(units, area, seed):
    keep = torch.rand(1, units, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    assert area_reference(keep, torch.ones(1, units, dtype=torch.bool), area).mean().item() == pytest.approx(
        area, abs=1e-3
    )


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 4), st.sampled_from(["upsampled", "max-convolution"]))
@settings(max_examples=30, deadline=None)
def test_keeps_stay_between_0_and_1(height, width, cell, field):
    batch, cells = grid_batch(height, width), random_cells(1, -(-height // cell) * -(-width // cell))
    keep = bounded_keep(batch, settings_of(field=field, cell=cell), cells)
    assert keep.shape == (1, height * width)
    assert 0 <= keep.min() <= keep.max() <= 1 + 1e-9


def test_a_constant_mask_prefers_no_unit():
    reference = area_reference(torch.full((1, 10), 0.7), torch.ones(1, 10, dtype=torch.bool), 0.3)
    assert torch.allclose(reference, torch.full((1, 10), 0.3), atol=1e-3)


def test_a_shift_moves_a_mask_down_and_right():
    keep = torch.zeros(1, 4, 5)
    keep[0, 1, 2] = 1
    moved = shifted(keep.flatten(1), torch.tensor([[1, 2]]), (4, 5)).view(4, 5)
    assert moved[2, 4] == 1
    assert moved.sum() == 1
    line = shifted(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[5, 1]]), None)
    assert line.tolist() == [[0.0, 0.0, 1.0]]


def test_l1_needs_a_bounded_field():
    with pytest.raises(OptionError, match="l1_weight and tv_weight need field=upsampled"):
        MaskSettings(l1_weight=0.1)
