"""Roughness: equal to its slow reference; 4 for a checkerboard, near 0 for a region, chance for noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference.roughness import roughness as slow_roughness

from rationales.masks.field import roughness


def measured(values, grid=None, cell=1):
    """Roughness of one mask, all of whose units are real."""
    keep = torch.as_tensor(values, dtype=torch.float64).reshape(1, -1)
    return roughness(keep, torch.ones_like(keep, dtype=torch.bool), grid, cell).item()


@pytest.mark.parametrize("shape", [(1, 12), (5, 7)])
def test_equals_the_slow_reference_with_units_that_are_not_real(shape):
    random = np.random.default_rng(0)
    keep, real = random.random((3, *shape)), random.random((3, *shape)) > 0.2
    expected = [slow_roughness(keep[i].tolist(), real[i].tolist()) for i in range(3)]
    grid = None if shape[0] == 1 else shape
    flat_keep, flat_real = torch.from_numpy(keep).flatten(1), torch.from_numpy(real).flatten(1)
    assert roughness(flat_keep, flat_real, grid).tolist() == pytest.approx(expected)


def test_a_checkerboard_and_an_alternating_line_have_four():
    """Every unit is 1 from the mean of its neighbours, and 1/2 from the mean of all: 1 / (1/4)."""
    assert measured(np.indices((6, 8)).sum(0) % 2, (6, 8)) == pytest.approx(4)
    assert measured(np.arange(20) % 2) == pytest.approx(4)


def test_a_region_is_smooth_and_a_mask_without_structure_has_none():
    region = np.zeros((20, 20))
    region[5:14, 5:14] = 1
    assert measured(region, (20, 20)) < 0.15
    assert measured(0.5 + 0.01 * (np.indices((6, 8)).sum(0) % 2), (6, 8)) == 0


def test_cells_are_compared_with_cells():
    """A checkerboard of cells of 4 x 4 pixels is smooth from pixel to pixel, and rough from cell to cell."""
    board = np.kron(np.indices((4, 4)).sum(0) % 2, np.ones((4, 4)))
    assert measured(board, (16, 16)) < 1
    assert measured(board, (16, 16), cell=4) == pytest.approx(4)
