"""Pictures of which no small part suffices are optimised again; the others keep their fields to the bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("PIL")

from models.image.test_model import SIDE, detector, scene

from rationales.masks.optimize import optimize
from rationales.masks.optimizer import field_of
from rationales.masks.postprocess import unit_order
from rationales.masks.settings import IMAGE
from rationales.masks.sharpen import LARGE_SIZE, sharpen
from rationales.masks.sizes import best_size

SETTINGS = replace(IMAGE, steps=60, cell=4, initial_sigma=8.0)


def test_a_field_that_points_away_from_the_cause_is_mended_and_a_good_field_is_left_alone():
    model = detector(baselines=("black",))
    pictures = [model.read(scene(left=4), None), model.read(scene(left=18), None)]
    with model.frozen():
        batch = model.batch(model.encode(pictures))
        target = batch.predict().argmax(-1)
        result = optimize(batch, target, SETTINGS)
        w = torch.stack([result.w[0], -result.w[1]])  # the second field now points away from the square
        result = replace(result, w=w)
        z = field_of(batch, SETTINGS.on(batch.grid), w, result.sigma)
        before = best_size(unit_order(z, batch, SETTINGS), batch, target, SETTINGS)
        fields, size, steps = sharpen(z, batch, target, SETTINGS, result)
        after = best_size(unit_order(fields, batch, SETTINGS), batch, target, SETTINGS)
    assert bool(before.sufficient[0])
    assert float(before.size[0]) <= LARGE_SIZE < float(before.size[1]) or not bool(before.sufficient[1])
    assert torch.equal(fields[0], z[0])
    assert steps == [SETTINGS.steps, 2 * SETTINGS.steps]
    assert bool(after.sufficient[1])
    assert float(size[1]) == float(after.size[1]) <= LARGE_SIZE


def test_pictures_that_are_all_solved_cost_no_further_step():
    model = detector(baselines=("black",))
    with model.frozen():
        batch = model.batch(model.encode([model.read(scene(), None)]))
        target = batch.predict().argmax(-1)
        result = optimize(batch, target, SETTINGS)
        z = result.field
        fields, _, steps = sharpen(z, batch, target, SETTINGS, result)
    assert fields is z
    assert steps == [SETTINGS.steps]
    assert fields.shape == (1, SIDE * SIDE)
