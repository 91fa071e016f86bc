"""The optimisation can begin anywhere, and a refinement never leaves an input worse than it found it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from families import tiny
from methods.maskers import text_batch, untrained_masker

import rationales
from rationales.masks.instant.refine import refine
from rationales.masks.objective import Problem
from rationales.masks.optimize import optimize
from rationales.masks.optimizer import keep_logit, losses
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
    masker = untrained_masker(model)
    with model.frozen():
        batch = text_batch(model, TEXTS)
        yield batch, masker(batch, TARGET)


def quiet_loss(batch, w, sigma):
    """(I,): Eq. 8 without noise."""
    with torch.no_grad():
        problem = Problem.of(batch, TARGET, replace(ONE_MASK, noise=0.0, flip_share=0.0))
        return losses(problem, w, sigma, torch.zeros(batch.masks, dtype=torch.long))


def test_the_usual_start_given_is_the_usual_optimisation(ready):
    batch, _ = ready
    zeros = torch.zeros(batch.masks, batch.size[1], dtype=batch.dtype)
    plain = optimize(batch, TARGET, STEPS)
    from_start = optimize(batch, TARGET, STEPS, start=(zeros + ONE_MASK.initial_w, zeros + ONE_MASK.initial_sigma))
    assert torch.equal(plain.keep, from_start.keep)


def test_steps_begin_at_the_start(ready):
    batch, start = ready
    result = optimize(batch, TARGET, replace(STEPS, steps=1, learning_rate=1e-12, weight_decay=0.0), start=start)
    real = batch.rows.real[: batch.masks]
    assert torch.allclose(result.keep, keep_logit(batch, ONE_MASK, *start).sigmoid() * real, atol=1e-9)


def test_keep_is_made_of_the_w_and_sigma_that_come_with_it(ready):
    batch, start = ready
    real = batch.rows.real[: batch.masks]
    for result in (optimize(batch, TARGET, STEPS), refine(batch, TARGET, STEPS, start)):
        assert torch.allclose(
            result.keep, keep_logit(batch, ONE_MASK, result.w, result.sigma).sigmoid() * real, atol=1e-12
        )


@pytest.mark.parametrize("learning_rate", [0.02, 0.1, 0.5, 50.0])
def test_refinement_never_makes_the_loss_worse(ready, learning_rate):
    batch, start = ready
    before = quiet_loss(batch, *start)
    result = refine(batch, TARGET, replace(STEPS, learning_rate=learning_rate), start)
    after = quiet_loss(batch, result.w, result.sigma)
    assert (after <= before + 1e-9).all()
    assert result.steps == [10] * 4
    moved = [
        not torch.equal(result.w[batch.rows.input == number], start[0][batch.rows.input == number])
        for number in range(4)
    ]
    assert [stop == "steps" for stop in result.stop] == moved


def test_refinement_helps(ready):
    batch, start = ready
    result = refine(batch, TARGET, STEPS, start)
    assert quiet_loss(batch, result.w, result.sigma).mean() < quiet_loss(batch, *start).mean() - 0.1


def test_a_step_too_far_is_taken_back(ready):
    batch, _ = ready
    good = optimize(batch, TARGET, replace(STEPS, steps=60))
    result = refine(batch, TARGET, replace(STEPS, learning_rate=1e6, schedule="constant"), (good.w, good.sigma))
    assert result.stop == ["start"] * 4
    assert torch.equal(result.w, good.w)
