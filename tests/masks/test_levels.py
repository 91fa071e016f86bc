"""Masks of every size from one field."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from families import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from methods.keyword import keyword_model
from reference import levels as literal

import rationales
from rationales.errors import OptionError
from rationales.masks.objective import HIGHEST, LOWEST, at_level, draw_levels, scaled
from rationales.masks.optimize import optimize
from rationales.masks.settings import DEFAULT, ONE_MASK, MaskSettings, replace
from rationales.models.text.tokens import TextInput

TEXTS = ["Dull.", "I did not like the soup, but the bread wasn't bad at all!", "The baker carried twelve loaves; " * 12]


def batch_of(texts, seed=0):
    model = rationales.load(*tiny("bert"))
    for network in model.networks:
        network.module.double()
    model = rationales.load(model.networks[0].module, model.tokenizer)
    return model, model.batch(model.encode([TextInput(text) for text in texts]), seed)


@pytest.fixture(scope="module")
def batch():
    return batch_of(TEXTS)[1]


def fields(batch, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((batch.masks, batch.size[1]), generator=generator, dtype=batch.dtype)


class TestAtLevel:
    @given(seed=st.integers(0, 99), level=st.floats(LOWEST, HIGHEST), softness=st.floats(0.05, 1.0))
    @settings(max_examples=25, deadline=None)
    def test_equals_the_literal_one(self, batch, seed, level, softness):
        z = fields(batch, seed)
        levels = torch.full((batch.inputs,), level, dtype=z.dtype)
        actual = at_level(z, batch, levels, softness)
        for number in range(batch.inputs):
            rows = batch.rows.input == number
            units = batch.rows.real[rows]
            expected = literal.at_level(z[rows][units].tolist(), level, softness)
            assert actual[rows][units].tolist() == pytest.approx(expected, abs=3e-3)  # the interval was halved 16 times

    def test_neither_offset_nor_scale_of_the_field_matters(self, batch):
        z, levels = fields(batch), torch.full((batch.inputs,), 0.3, dtype=batch.dtype)
        plain = at_level(z, batch, levels, 0.3)
        assert torch.allclose(plain, at_level(5 * z - 3, batch, levels, 0.3), atol=1e-3)

    def test_a_flat_field_keeps_a_little_of_everything(self, batch):
        levels = torch.tensor([0.1, 0.5, 0.9], dtype=batch.dtype)
        actual = at_level(torch.zeros_like(fields(batch)), batch, levels, 0.3)
        assert torch.allclose(actual, levels[batch.rows.input][:, None].expand_as(actual), atol=1e-3)

    def test_the_gradient_keeps_the_size(self, batch):
        """Whatever moves, the mean keep of an input does not: its gradient is 0."""
        z = fields(batch).requires_grad_()
        actual = at_level(z, batch, torch.full((batch.inputs,), 0.4, dtype=batch.dtype), 0.5)
        total = (actual * batch.rows.real).sum()
        (gradient,) = torch.autograd.grad(total, z)
        assert gradient.abs().max() < 1e-9
        derivative = torch.autograd.functional.jacobian(
            lambda free: at_level(free, batch, torch.full((batch.inputs,), 0.4, dtype=batch.dtype), 0.5)[0, 0],
            fields(batch),
        )
        assert derivative[0, 0] > 0  # more of a unit keeps more of it

    def test_the_standardised_field_is_0_at_the_mean_and_ordered_as_the_field(self, batch):
        z = fields(batch)
        actual = scaled(z, batch)
        real = batch.rows.real
        for number in range(batch.inputs):
            units_of_input = (batch.rows.input == number)[:, None] & real
            assert torch.equal(z[units_of_input].argsort(), actual[units_of_input].argsort())
            assert abs(float(actual[units_of_input].mean())) < 1e-9
        assert torch.allclose(actual, scaled(3 * z + 7, batch))
        flat = torch.zeros_like(z).requires_grad_()
        (gradient,) = torch.autograd.grad(scaled(flat, batch).square().sum(), flat)
        assert gradient.isfinite().all()


class TestDrawn:
    def test_levels_are_even_over_the_steps(self, batch):
        levels = torch.stack([draw_levels(batch, torch.full((batch.masks,), step)) for step in range(200)])
        assert (levels >= LOWEST).all()
        assert (levels <= HIGHEST).all()
        for column in levels.T:  # golden multiples: no tenth of the range has many more than its share
            counts = np.histogram(column.numpy(), bins=10, range=(LOWEST, HIGHEST))[0]
            assert abs(counts - 20).max() <= 2

    def test_small_sizes_more_often(self, batch):
        levels = torch.stack(
            [draw_levels(batch, torch.full((batch.masks,), step), level_power=2.0) for step in range(200)]
        )
        assert float(levels.median()) < 0.3

    def test_they_depend_on_the_input_and_the_seed_alone(self, batch):
        step = torch.full((1,), 7)
        for number, text in enumerate(TEXTS[:2]):
            alone = batch_of([text])[1]
            together = draw_levels(batch, torch.full((batch.masks,), 7))
            assert torch.equal(draw_levels(alone, step), together[number : number + 1])
        assert not torch.equal(
            draw_levels(batch_of([TEXTS[0]], seed=1)[1], step), draw_levels(batch_of([TEXTS[0]])[1], step)
        )


class TestOptimised:
    LEVELS = replace(
        ONE_MASK, mask_weight=0.0, level_weight=1.0, steps=40, warmup_steps=10, initial_w=0.0, stop="steps"
    )

    @pytest.mark.parametrize(
        "changes", [{}, {"mask_weight": 0.5}, {"level_form": "linear", "noise": 0.0, "flip_share": 0.0}]
    )
    def test_alone_equals_in_a_batch(self, changes):
        model, batch = batch_of(TEXTS)
        how = replace(self.LEVELS, **changes)
        with model.frozen():
            together = optimize(batch, torch.ones(3, dtype=torch.long), how).keep
            for number in range(3):
                alone = batch.take([number])
                single = optimize(alone, torch.ones(1, dtype=torch.long), how).keep
                mine = together[batch.rows.input == number][:, : single.shape[1]]
                assert torch.allclose(mine, single, atol=1e-7)

    @pytest.mark.parametrize("mask_weight", [0.0, 0.3])
    def test_finds_the_keywords_at_every_size(self, mask_weight):
        model = rationales.load(*keyword_model("bridge", "joke"))
        text = "The boat drifted slowly towards the old bridge and nobody laughed at the joke again that day"
        options = {"mask_weight": mask_weight, "level_weight": 1.0, "warmup_steps": 10, "initial_w": 0.0, "steps": 60}
        result = rationales.explain(model, text, options=options)
        words = [unit.text for unit in result.units]
        assert result.selected()[words.index("joke")]  # three of the four tokens that are looked for: it is enough
        for index in (words.index("bridge"), words.index("joke")):
            assert result.scores[index] == result.scores[index - 2 : index + 3].max()
        assert result.selected().sum() <= 0.5 * len(words)
        assert result.probabilities["rationale"]["found"] >= 0.9 * result.probabilities["full"]["found"]

    def test_few_steps_still_leave_the_start(self):
        """A preset that collects gradients for 24 steps must work when a user asks for 10."""
        assert replace(DEFAULT, warmup_steps=24, steps=10).on(None).warmup_steps == 3
        model, batch = batch_of(TEXTS[:2])
        with model.frozen():
            keep = optimize(batch, torch.ones(2, dtype=torch.long), replace(self.LEVELS, warmup_steps=24, steps=6)).keep
        assert keep[1][batch.rows.real[1]].std() > 0


class TestSettings:
    def test_nothing_to_optimise_is_refused(self):
        with pytest.raises(OptionError, match="nothing to optimise"):
            MaskSettings(level_weight=0.0)

    def test_cells_follow_the_grid(self):
        how = replace(DEFAULT, cell=0, initial_sigma=0.0, kernel="sigma")
        assert (how.on((224, 224)).cell, how.on((224, 224)).initial_sigma) == (16, 640.0)
        assert (how.on((32, 20)).cell, how.on((32, 20)).initial_sigma) == (2, 10.0)
        assert replace(how, kernel="sigma-squared").on((224, 160)).initial_sigma == pytest.approx(640**0.5)
        assert (how.on(None).cell, how.on(None).initial_sigma) == (1, 2.0)
