"""The comparison of methods on one input: metrics by hand, and a grid of images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import rationales
from rationales.errors import OptionError
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


@pytest.fixture(scope="module")
def image_model():
    torch.manual_seed(0)
    module = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(12, 2))

    def pixels(image):
        return torch.from_numpy(np.asarray(image.resize((16, 16)), np.float32) / 255).movedim(-1, 0)

    return rationales.load(module, pixels, labels=["a", "b"])


def noise(height, width):
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8))


METHODS = ["saliency", {"name": "random", "title": "<i>"}]


def test_images_are_compared_in_one_grid(image_model, tmp_path):
    comparison = rationales.compare(image_model, noise(16, 16), METHODS, curve=True)
    page = comparison.to_html()
    lead = page[page.index('class="lead"') : page.index("</header>")]
    assert lead.count("<img ") == 5, "the image, and two for each method"
    assert "<i>" not in lead
    with Image.open(comparison.to_png(tmp_path / "grid.png")) as image:
        assert image.width > 3 * 180


def test_several_images_have_a_row_each(image_model, tmp_path):
    images = [noise(16, 12), noise(12, 24), noise(16, 16)]
    comparisons = rationales.compare(image_model, images, METHODS, names=["1", "2", "<b>"])
    alone = rationales.compare(image_model, images[1], METHODS, names="2")
    assert [comparison.rationales[0].name for comparison in comparisons] == ["1", "2", "<b>"]
    np.testing.assert_allclose(comparisons[1].rationales[0].scores, alone.rationales[0].scores, rtol=1e-5)
    page = rationales.picture_grid(comparisons, tmp_path / "grid.html").read_text(encoding="utf-8")
    assert page.count("<img ") == 3 * 5
    assert "<b>&lt;b&gt;</b>" in page
    with (
        Image.open(rationales.picture_grid(comparisons, tmp_path / "grid.png")) as flat,
        Image.open(rationales.picture_grid(comparisons, tmp_path / "cut.png", cutouts=True)) as tall,
    ):
        assert flat.width == tall.width
        assert flat.height < tall.height


def test_a_grid_that_cannot_be_drawn_is_refused(image_model, rationale, tmp_path):
    comparison = rationales.compare(image_model, noise(16, 16), METHODS)
    other_methods = rationales.compare(image_model, noise(16, 16), ["random", "saliency"])
    texts = replace(comparison, rationales=(rationale, rationale))
    for comparisons, name, message in (
        ([], "grid.png", "no comparison"),
        ([comparison, other_methods], "grid.png", "same methods"),
        ([texts], "grid.png", "shows images"),
        ([comparison], "grid.gif", "not grid.gif"),
    ):
        with pytest.raises(OptionError, match=message):
            rationales.picture_grid(comparisons, tmp_path / name)
