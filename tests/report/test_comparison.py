"""The comparison of methods on one input: metrics by hand, and a grid of images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import rationales
from rationales.rationale import Curve
from rationales.report.comparison import comparison_table, curve_areas


@pytest.fixture(scope="module")
def rationale():
    model = rationales.load(lambda texts: [0.9 if "bad" in text else 0.2 for text in texts], labels=["no", "yes"])
    return rationales.explain(model, "A bad film", method="loo-empty", curve=True)


def test_areas_by_hand(rationale):
    """p = .8 in full. Alone .2, .6, .8 at shares 0, .5, 1: losses .6, .2, 0, area .5 x (.4 + .1) = .25.

    Without: .8, .2, .2: losses 0, .6, .6, area .5 x (.3 + .6) = .45.
    """
    curve = Curve((0.0, 0.5, 1.0), (3, 2, 1), {"yes": (0.2, 0.6, 0.8)}, {"yes": (0.8, 0.2, 0.2)})
    known = replace(rationale, curve=curve, probabilities={**rationale.probabilities, "full": {"no": 0.2, "yes": 0.8}})
    assert curve_areas(known) == pytest.approx((0.25, 0.45))
    assert curve_areas(replace(rationale, curve=None)) is None


def test_columns_without_values_are_left_out(rationale):
    headings, rows = comparison_table([rationale, rationale], ["a", "b"])
    assert "sufficiency ↓" in headings
    without, shorter = comparison_table([replace(rationale, curve=None)] * 2, ["a", "b"])
    assert "sufficiency ↓" not in without
    assert len(shorter[0]) == len(rows[0]) - 2


def test_images_are_compared_in_one_grid(tmp_path):
    import torch
    from torch import nn

    torch.manual_seed(0)
    module = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(12, 2))
    pixels = lambda image: torch.from_numpy(np.asarray(image.resize((16, 16)), np.float32) / 255).movedim(-1, 0)  # noqa: E731
    model = rationales.load(module, pixels, labels=["a", "b"])
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8))
    comparison = rationales.compare(model, picture, ["saliency", {"name": "random", "title": "<i>"}], curve=True)
    page = comparison.to_html()
    lead = page[page.index('class="lead"') : page.index("</header>")]
    assert lead.count("<img ") == 5, "the image, and two for each method"
    assert "<i>" not in lead
    comparison.to_png(tmp_path / "grid.png")
    with Image.open(tmp_path / "grid.png") as image:
        assert image.width > 3 * 180
