"""Mixtures of MaRC and Grad-CAM, and closed regions that are filled."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("skimage")
import picture_frontier


def test_a_hole_is_raised_to_the_lowest_pixel_around_it_and_a_bay_is_not():
    """All ways from the first hole to the edge lead over 5; from the second, one leads over 0."""
    hole = torch.tensor([[5.0, 5, 5, 5], [5, 0, 3, 5], [5, 5, 5, 5], [0, 0, 0, 0]])
    bay = torch.tensor([[5.0, 5, 5, 5], [5, 0, 4, 5], [5, 0, 5, 5], [0, 0, 0, 0]])
    surrounded = hole.clone()
    surrounded[1, 1:3] = 5.0
    scores = torch.stack([hole, bay]).flatten(1)
    assert torch.equal(picture_frontier.filled(scores, (4, 4)), torch.stack([surrounded, bay]).flatten(1))


def test_mixtures_add_standard_scores():
    """(0, 2) and (0, 6) have the standard scores -1 and 1 over root 2 each: twice these, for the weight 1."""
    rows = picture_frontier.mixtures(torch.tensor([[0.0, 2.0]]), torch.tensor([[0.0, 6.0]]), (1, 2), [0.0, 1.0])
    assert list(rows)[2:] == ["grad-cam", "marc, closed regions filled"]
    assert rows["z(marc) + 0 z(grad-cam)"].tolist()[0] == pytest.approx([-(0.5**0.5), 0.5**0.5])
    assert rows["z(marc) + 1 z(grad-cam)"].tolist()[0] == pytest.approx([-(2**0.5), 2**0.5])
    assert rows["grad-cam"].tolist() == [[0.0, 6.0]]


def test_without_data_nothing_is_run(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["picture_frontier", "--quick"])
    picture_frontier.main()
    assert "skipped" in capsys.readouterr().out
