"""Who plays: words one by one, pixels cell by cell."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from rationales.errors import OptionError
from rationales.methods.support.feature_groups import feature_groups
from rationales.models.batch.rows import Part


def grid(height, width, real=None):
    units = height * width
    real = torch.ones(1, units, dtype=torch.bool) if real is None else real.view(1, units)
    return SimpleNamespace(
        pixel_grid=(height, width), parts=(Part(0, units, (height, width)),),
        rows=SimpleNamespace(real=real, key=torch.tensor([5])), size=(1, units),
        device=real.device, dtype=torch.float32,
    )  # fmt: skip


def test_on_a_line_every_unit_plays_for_itself():
    real = torch.tensor([[True, True, False], [True, True, True]])
    team = feature_groups(SimpleNamespace(pixel_grid=None, rows=SimpleNamespace(real=real)))
    values = torch.rand(4, 2, 3)
    assert team.count.tolist() == [2, 3]
    assert torch.equal(team.spread(values), values)


@pytest.mark.parametrize(
    ("size", "cell", "shape"),
    [((224, 224), 0, (14, 14)), ((32, 32), 8, (4, 4)), ((10, 7), 4, (3, 2)), ((5, 5), 9, (1, 1))],
)
def test_on_a_grid_cells_play_and_their_pixels_share_their_value(size, cell, shape):
    team = feature_groups(grid(*size), cell)
    assert team.shape == shape
    assert int(team.count[0]) == shape[0] * shape[1]
    side = cell or 16
    spread = team.spread(torch.arange(shape[0] * shape[1])).view(size)
    for row in range(size[0]):
        for column in range(0, size[1], 3):
            assert int(spread[row, column]) == (row // side) * shape[1] + column // side


def test_cells_that_are_all_padding_do_not_play_and_come_last():
    real = torch.zeros(8, 8, dtype=torch.bool)
    real[:4, :] = True
    real[4, 7] = True
    batch = grid(8, 8, real)
    team = feature_groups(batch, 4)
    assert team.real.tolist() == [[True, True, False, True]]
    for number in range(20):
        assert int(team.order(batch, torch.tensor([0]), torch.tensor([[number]]))[0, 0, 2]) == 3


def test_a_cell_has_a_side():
    with pytest.raises(OptionError, match="side of a cell"):
        feature_groups(grid(4, 4), -1)
