"""Windows that slide: on a line as each row would have them alone, on a grid as squares."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from rationales.methods.support.sliding_windows import Windows
from rationales.models.batch.rows import Part


def line(*lengths):
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return batch_of(real, Part(0, real.shape[1], None))


def grid(height, width):
    real = torch.ones(1, height * width, dtype=torch.bool)
    return batch_of(real, Part(0, height * width, (height, width)))


def batch_of(real, *parts):
    return SimpleNamespace(parts=parts, rows=SimpleNamespace(real=real), size=tuple(real.shape), device=real.device)


@pytest.mark.parametrize(("width", "stride"), [(1, 1), (3, 1), (3, 2), (5, 5), (100, 1)])
def test_every_row_has_the_windows_it_would_have_alone(width, stride):
    lengths = (1, 4, 13, 30)
    windows = Windows(line(*lengths), width, stride)
    everyone = torch.arange(len(lengths))
    covered = windows.hidden(everyone, torch.arange(int(windows.counts.max())))
    for row, units in enumerate(lengths):
        starts = [0]
        while starts[-1] + width < units:
            starts.append(starts[-1] + stride)
        expected = [[start <= unit < start + width for unit in range(units)] for start in starts]
        assert int(windows.counts[row]) == len(starts)
        assert covered[: len(starts), row, :units].tolist() == expected
        assert not covered[len(starts) :, row].any()
        assert covered[:, row, :units].any(0).all()


@pytest.mark.parametrize(("side", "stride"), [(1, 1), (3, 2), (4, 4), (50, 3)])
def test_on_a_grid_they_are_squares_and_cover_it(side, stride):
    high, wide = 7, 10
    windows = Windows(grid(high, wide), side, stride)
    count = int(windows.counts[0])
    covered = windows.hidden(torch.tensor([0]), torch.arange(count))[:, 0].view(count, high, wide)

    def starts(length):
        covered = [0]
        while covered[-1] + side < length:
            covered.append(covered[-1] + stride)
        return covered

    corners = [(top, left) for top in starts(high) for left in starts(wide)]
    assert len(corners) == count
    for window, (top, left) in zip(covered, corners, strict=True):
        expected = torch.zeros(high, wide, dtype=torch.bool)
        expected[top : top + side, left : left + side] = True
        assert torch.equal(window, expected)
    assert covered.any(0).all()


def test_rows_may_have_windows_of_their_own():
    lengths, widths = (6, 30, 13), (1, 5, 2)
    windows = Windows(line(*lengths), torch.tensor(widths), 1)
    together = windows.hidden(torch.arange(3), torch.arange(int(windows.counts.max())))
    for row, (units, width) in enumerate(zip(lengths, widths, strict=True)):
        alone = Windows(line(units), width, 1)
        count = int(alone.counts[0])
        assert int(windows.counts[row]) == count
        assert torch.equal(together[:count, row, :units], alone.hidden(torch.tensor([0]), torch.arange(count))[:, 0])
