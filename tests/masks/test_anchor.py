"""Log-odds as the loss at a level, and the warm-up gradient as a part of the field."""

from __future__ import annotations

import math

import pytest
import torch
from masks.test_levels import TEXTS, batch_of, fields
from methods.keyword import keyword_model

import rationales
from rationales.masks.objective import Problem, log_odds, loss, scaled
from rationales.masks.optimize import optimize
from rationales.masks.optimizer import OptimizerState, field_of, keep_logit, step
from rationales.masks.settings import CLAUSES, DEFAULT, PAPER, replace

ANCHORED = replace(CLAUSES, steps=30, warmup_steps=6, anchor=0.7, anchor_sigma=3.0, stop="steps")


@pytest.fixture(scope="module")
def tiny():
    return batch_of(TEXTS)


def units_of(batch, number):
    rows = batch.rows.input[: batch.masks] == number
    return rows, batch.rows.real[: batch.masks][rows]


class TestScaled:
    def test_mean_and_deviation_over_the_units_of_an_input(self, tiny):
        batch = tiny[1]
        actual = scaled(5 * fields(batch) + 2, batch)
        for number in range(1, batch.inputs):
            rows, real = units_of(batch, number)
            values = actual[rows][real]
            assert float(values.mean()) == pytest.approx(0, abs=1e-9)
            assert float(values.square().mean()) == pytest.approx(1, abs=1e-6)

    def test_a_flat_field_is_zero_and_has_a_gradient(self, tiny):
        batch = tiny[1]
        z = torch.full_like(fields(batch), 3.0).requires_grad_()
        actual = scaled(z, batch)
        assert not actual.any()
        (gradient,) = torch.autograd.grad((actual * fields(batch)).sum(), z)
        assert torch.isfinite(gradient).all()
        assert gradient.abs().max() > 0


class TestLogOdds:
    def test_is_the_target_against_the_rest_averaged_over_segments(self, tiny):
        batch = tiny[1]
        generator = torch.Generator().manual_seed(1)
        logits = torch.randn((2, batch.size[0], batch.classes), generator=generator, dtype=batch.dtype)
        target = torch.tensor([0, 1, 1])
        for share in (0.0, 0.25):
            actual = log_odds(batch, target, logits, share)
            for number in range(3):
                rows = torch.nonzero(batch.rows.input == number).flatten().tolist()
                target_index = int(target[number])
                for side in range(2):
                    odds = []
                    for row in rows:
                        values = logits[side, row].tolist()
                        other_odds = math.log(
                            sum(math.exp(v) for index, v in enumerate(values) if index != target_index)
                        )
                        odds.append((1 - share) * (values[target_index] - other_odds) + share * values[target_index])
                    assert float(actual[side, number, 0]) == pytest.approx(sum(odds) / len(odds), abs=1e-9)

    def test_the_complement_need_not_fall_below_the_floor(self, tiny):
        batch, target = tiny[1], torch.zeros(3, dtype=torch.long)
        how = replace(DEFAULT, draws=1, sigma_weight=0.0)
        floor = torch.full((3, 1), 0.5, dtype=batch.dtype)
        problem = Problem(batch, target, how, floor)
        low, lower = (torch.zeros((2, batch.size[0], batch.classes), dtype=batch.dtype) for _ in range(2))
        low[1, :, 0], lower[1, :, 0] = -2.0, -5.0
        keep, sigma = batch.ones()[: batch.masks], batch.ones()[: batch.masks]
        assert torch.equal(loss(problem, low, keep, sigma), loss(problem, lower, keep, sigma))
        free = Problem(batch, target, how, torch.zeros_like(floor))
        assert torch.allclose(loss(free, low, keep, sigma) - loss(free, lower, keep, sigma), 3 * floor.new_ones(3))


class TestAnchor:
    def test_is_what_the_first_steps_collected_smoothed(self, tiny):
        model, batch = tiny
        how = ANCHORED.on(batch.grid)
        with model.frozen():
            problem = Problem.of(batch, torch.ones(3, dtype=torch.long), how)
            state = OptimizerState.start(batch, how)
            for _ in range(how.warmup_steps):
                assert not state.anchor.any()
                assert not state.w.any()
                state = step(problem, state)
        for number in range(3):
            rows, real = units_of(batch, number)
            smoothed = []
            for line, there, at in zip(state.w[rows], real, batch.rows.position[: batch.masks][rows], strict=True):
                w, x = line[there].tolist(), at[there].tolist()
                sigma = min(3.0, max(1.0, how.max_sigma_share * len(x)))  # bounded in a short text
                smoothed += [
                    sum(value * math.exp(-((b - a) ** 2) / sigma**2) for value, b in zip(w, x, strict=True)) for a in x
                ]
            mean = sum(smoothed) / len(smoothed)
            size = math.sqrt(sum((value - mean) ** 2 for value in smoothed) / len(smoothed)) or 1.0
            units = len(set(batch.rows.unit[: batch.masks][rows][real].tolist()))
            longness = 1 - min(1.0, max(0.0, (120 - units) / 80))  # no anchor in short texts
            expected = [longness * (value - mean) / size for value in smoothed]
            assert state.anchor[rows][real].tolist() == pytest.approx(expected, abs=1e-6)
        assert state.anchor.any()
        later = step(problem, state)
        assert torch.equal(later.anchor, state.anchor)
        assert not torch.equal(later.w, state.w)

    def test_in_a_free_field_it_is_what_the_first_steps_collected_and_stays_outside(self, tiny):
        """Spans are shaped with it after the optimisation (`span_order`)."""
        model, batch = tiny
        free = replace(ANCHORED, field="free").on(batch.grid)
        with model.frozen():
            problem = Problem.of(batch, torch.ones(3, dtype=torch.long), free)
            state = OptimizerState.start(batch, free)
            for _ in range(free.warmup_steps):
                state = step(problem, state)
        assert state.anchor.any()
        assert torch.allclose(state.anchor, scaled(state.w, batch), atol=1e-6)
        w, sigma = fields(batch, 1), batch.ones()[: batch.masks]
        assert torch.equal(field_of(batch, free, w, sigma, state.anchor), field_of(batch, free, w, sigma))

    def test_stays_in_the_field(self, tiny):
        batch, z = tiny[1], fields(tiny[1])
        w, sigma = fields(batch, 1), torch.full_like(z, 1.5)
        plain = field_of(batch, ANCHORED, w, sigma)
        assert torch.equal(field_of(batch, ANCHORED, w, sigma, z), scaled(plain, batch) + 0.7 * z)
        assert torch.equal(field_of(batch, replace(ANCHORED, anchor=0.0), w, sigma, z), plain)
        both = scaled(plain, batch) + 0.7 * z
        assert torch.equal(keep_logit(batch, ANCHORED, w, sigma, z), 2 * scaled(both, batch))

    def test_alone_equals_in_a_batch(self, tiny):
        model, batch = tiny
        with model.frozen():
            together = optimize(batch, torch.ones(3, dtype=torch.long), ANCHORED).keep
            for number in range(3):
                alone = optimize(batch.take([number]), torch.ones(1, dtype=torch.long), ANCHORED).keep
                mine = together[batch.rows.input == number][:, : alone.shape[1]]
                assert torch.allclose(mine, alone, atol=1e-6)

    def test_needs_steps_that_collect(self):
        assert replace(DEFAULT, warmup_steps=0).on(None).anchor == 0
        assert replace(DEFAULT, steps=2).on(None).anchor == 0
        assert DEFAULT.on(None).anchor == DEFAULT.anchor > 0
        assert PAPER.anchor == PAPER.warmup_steps == 0

    def test_both_keywords_are_found(self):
        model = rationales.load(*keyword_model("bridge", "joke"))
        text = "The boat drifted slowly towards the old bridge and nobody laughed at the joke again that day"
        result = rationales.explain(model, text)
        words = [unit.text for unit in result.units]
        for word in ("bridge", "joke"):
            index = words.index(word)
            assert result.scores[index] == result.scores[max(0, index - 2) : index + 3].max()
        assert result.probabilities["rationale"]["found"] >= 0.9 * result.probabilities["full"]["found"]
