"""The optimisation can begin anywhere, and a refinement never leaves an input worse than it found it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from families import tiny
from methods.maskers import batch_of, untrained

import rationales
from rationales.masks.descent import keep_of, losses
from rationales.masks.objective import Problem
from rationales.masks.optimize import optimize
from rationales.masks.refine import refine
from rationales.masks.settings import ONE_MASK

TEXTS = [
    "Dull",
    "The bread wasn't bad at all!",
    "She said nothing; he laughed, and nobody else understood why.",
    " ".join(["Every morning the baker carried twelve loaves up the hill."] * 5),
]
TARGET = torch.tensor([0, 1, 2, 1])
STEPS = replace(ONE_MASK, steps=10, stop="steps")


@pytest.fixture
def ready():
    module, tokenizer = tiny("bert")
    model = rationales.load(module.double(), tokenizer, segment=40, overlap=8)
    masker = untrained(model)
    with model.borrowed():
        batch = batch_of(model, TEXTS)
        yield batch, masker(batch, TARGET)


def quiet_loss(batch, w, sigma):
    """(I,): Eq. 8 without noise."""
    with torch.no_grad():
        problem = Problem.of(batch, TARGET, replace(ONE_MASK, noise=0.0, flip=0.0))
        return losses(problem, w, sigma, torch.zeros(batch.masks, dtype=torch.long))


def test_the_usual_start_given_is_the_usual_optimisation(ready):
    batch, _ = ready
    zeros = torch.zeros(batch.masks, batch.size[1], dtype=batch.dtype)
    plain = optimize(batch, TARGET, STEPS)
    given = optimize(batch, TARGET, STEPS, start=(zeros + ONE_MASK.start_w, zeros + ONE_MASK.start_sigma))
    assert torch.equal(plain.keep, given.keep)


def test_steps_begin_at_the_start(ready):
    batch, start = ready
    found = optimize(batch, TARGET, replace(STEPS, steps=1, rate=1e-12, decay=0.0), start=start)
    real = batch.rows.real[: batch.masks]
    assert torch.allclose(found.keep, keep_of(batch, ONE_MASK, *start) * real, atol=1e-9)


def test_keep_is_made_of_the_w_and_sigma_that_come_with_it(ready):
    batch, start = ready
    real = batch.rows.real[: batch.masks]
    for found in (optimize(batch, TARGET, STEPS), refine(batch, TARGET, STEPS, start)):
        assert torch.allclose(found.keep, keep_of(batch, ONE_MASK, found.w, found.sigma) * real, atol=1e-12)


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 50.0])
def test_refinement_never_makes_the_loss_worse(ready, rate):
    batch, start = ready
    before = quiet_loss(batch, *start)
    found = refine(batch, TARGET, replace(STEPS, rate=rate), start)
    after = quiet_loss(batch, found.w, found.sigma)
    assert (after <= before + 1e-9).all()
    assert found.steps == [10] * 4
    moved = [not torch.equal(found.w[batch.rows.input == one], start[0][batch.rows.input == one]) for one in range(4)]
    assert [stop == "steps" for stop in found.stop] == moved


def test_refinement_helps(ready):
    batch, start = ready
    found = refine(batch, TARGET, STEPS, start)
    assert quiet_loss(batch, found.w, found.sigma).mean() < quiet_loss(batch, *start).mean() - 0.1


def test_a_step_too_far_is_taken_back(ready):
    batch, _ = ready
    good = optimize(batch, TARGET, replace(STEPS, steps=60))
    found = refine(batch, TARGET, replace(STEPS, rate=1e6, schedule="constant"), (good.w, good.sigma))
    assert found.stop == ["start"] * 4
    assert torch.equal(found.w, good.w)
