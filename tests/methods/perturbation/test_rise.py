"""RISE: masks as the paper makes them, sums as it writes them, and memory that does not grow with the samples."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import interpolate

pytest.importorskip("PIL")

from methods.test_against_captum import TARGET, pictures
from models.image.test_model import SIDE

from rationales.errors import OptionError
from rationales.methods import build
from rationales.methods.perturbation import rise
from rationales.models.batch.rows import fold, uniform


def paper_mask(key, number, cells, probability):
    """Section 3.2, for one mask: random bits, up-sampled to (cells + 1) sides of a cell, and cut out."""
    random_numbers = uniform(fold(key[None], torch.tensor([number])), cells**2 + 2)[0]
    side = -(-SIDE // cells)
    top, left = (int(value * side) for value in random_numbers[:2])
    bits = (random_numbers[2:] < probability).double().view(1, 1, cells, cells)
    large = interpolate(bits, size=(cells + 1) * side, mode="bilinear", align_corners=False)[0, 0]
    return large[top : top + SIDE, left : left + SIDE]


@pytest.mark.parametrize("cells", [3, 7])
@pytest.mark.parametrize("normaliser", ["coverage", "expected"])
def test_the_papers_sum_over_the_papers_masks(cells, normaliser):
    model, batch, pixels = pictures()
    options = {"samples": 12, "cells": cells, "probability": 0.4, "normaliser": normaliser}
    with model.frozen():
        actual = build("rise", options, "image").scores(batch, TARGET).scores
    for row in range(batch.size[0]):
        number, total, covered = row % 3, torch.zeros(SIDE, SIDE).double(), torch.zeros(SIDE, SIDE).double()
        outputs = []
        for sample in range(12):
            mask = paper_mask(batch.rows.key[row], sample, cells, 0.4)
            masked = mask * pixels[number] + (1 - mask) * batch.baseline_values[row]
            with torch.no_grad():
                output = model.module(masked[None]).softmax(-1)[0, TARGET[number]]
            total += output * mask
            covered += mask
            outputs.append(float(output))
        expected = total / (12 * 0.4)
        if normaliser == "coverage":
            expected = total / covered.clamp(min=1e-6) - sum(outputs) / 12
        assert torch.allclose(actual[row], expected.flatten(), atol=1e-9)


def test_masks_are_made_in_pieces(monkeypatch):
    model, batch, _ = pictures()
    method = build("rise", {"samples": 30}, "image")
    with model.frozen():
        at_once = method.scores(batch, TARGET).scores
        monkeypatch.setattr(rise, "MASK_NUMBERS", 4 * SIDE * SIDE)
        assert torch.allclose(method.scores(batch, TARGET).scores, at_once, atol=1e-12)


@pytest.mark.parametrize("options", [{"samples": 0}, {"cells": 0}, {"probability": 1.0}])
def test_options_that_make_no_masks(options):
    with pytest.raises(OptionError, match="rise needs"):
        build("rise", options, "image")
