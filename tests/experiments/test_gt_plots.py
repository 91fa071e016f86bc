"""Figures of the ground-truth experiments: nothing is cut off or printed over."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from rationales.experiments.ground_truth.reporting.plots import LABEL_DISTANCE, grid, label_line_ends

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("columns", [1, 3])
def test_a_long_caption_stays_inside(tmp_path, columns):
    caption = (
        "blue: this, orange: that, grey: whatever else was asked for; green: the best that anything could reach " * 2
    )
    path = grid(
        tmp_path / "figure.png",
        {"row": "title"},
        ["column"] * columns,
        lambda axes, row, column: axes.plot([0, 1], [0, 1]),
        x="x",
        y="",
        caption=caption.strip(),
    )
    pixels = np.asarray(Image.open(io.BytesIO(path.read_bytes())).convert("L"))
    for border in (pixels[:, :2], pixels[:, -2:], pixels[:2], pixels[-2:]):
        assert (border == 255).all()


class Axes:
    """Remembers what is written where."""

    def __init__(self):
        self.written = {}

    def annotate(self, name, position, **_):
        self.written[name] = position


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_names_stand_apart_in_the_order_of_their_lines(heights):
    axes = Axes()
    label_line_ends(axes, [(str(number), (0.5, up)) for number, up in enumerate(heights)], height=1.0)
    positions = [axes.written[str(number)][1] for number in np.argsort(heights, kind="stable")]
    assert (np.diff(positions) >= LABEL_DISTANCE - 1e-9).all()
    assert all(axes.written[str(number)][1] >= up for number, up in enumerate(heights))
