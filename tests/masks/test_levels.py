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
from rationales.masks.levels import HIGHEST, LOWEST, at_level, drawn, standard
from rationales.masks.optimize import optimize
from rationales.masks.settings import DEFAULT, ONE_MASK, MaskSettings, replace
from rationales.models.tokens import TextInput

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
    made = torch.Generator().manual_seed(seed)
    return torch.randn((batch.masks, batch.size[1]), generator=made, dtype=batch.dtype)


class TestAtLevel:
    @given(seed=st.integers(0, 99), level=st.floats(LOWEST, HIGHEST), softness=st.floats(0.05, 1.0))
    @settings(max_examples=25, deadline=None)
    def test_equals_the_literal_one(self, batch, seed, level, softness):
        z = fields(batch, seed)
        levels = torch.full((batch.inputs,), level, dtype=z.dtype)
        found = at_level(z, batch, levels, softness)
        for number in range(batch.inputs):
            rows = batch.rows.input == number
            units = batch.rows.real[rows]
            wanted = literal.at_level(z[rows][units].tolist(), level, softness)
            assert found[rows][units].tolist() == pytest.approx(wanted, abs=3e-3)  # the interval was halved 16 times

    def test_neither_offset_nor_scale_of_the_field_matters(self, batch):
        z, levels = fields(batch), torch.full((batch.inputs,), 0.3, dtype=batch.dtype)
        plain = at_level(z, batch, levels, 0.3)
        assert torch.allclose(plain, at_level(5 * z - 3, batch, levels, 0.3), atol=1e-3)

    def test_a_flat_field_keeps_a_little_of_everything(self, batch):
        levels = torch.tensor([0.1, 0.5, 0.9], dtype=batch.dtype)
        found = at_level(torch.zeros_like(fields(batch)), batch, levels, 0.3)
        assert torch.allclose(found, levels[batch.rows.input][:, None].expand_as(found), atol=1e-3)

    def test_the_gradient_keeps_the_size(self, batch):
        """Whatever moves, the mean keep of an input does not: its gradient is 0."""
        z = fields(batch).requires_grad_()
        found = at_level(z, batch, torch.full((batch.inputs,), 0.4, dtype=batch.dtype), 0.5)
        total = (found * batch.rows.real).sum()
        (slope,) = torch.autograd.grad(total, z)
        assert slope.abs().max() < 1e-9
        one = torch.autograd.functional.jacobian(
            lambda free: at_level(free, batch, torch.full((batch.inputs,), 0.4, dtype=batch.dtype), 0.5)[0, 0],
            fields(batch),
        )
        assert one[0, 0] > 0  # more of a unit keeps more of it

    def test_standard_is_half_at_the_mean_and_ordered_as_the_field(self, batch):
        z = fields(batch)
        found = standard(z, batch)
        real = batch.rows.real
        for number in range(batch.inputs):
            own = (batch.rows.input == number)[:, None] & real
            assert torch.equal(z[own].argsort(), found[own].argsort())
            assert abs(float(torch.logit(found[own]).mean())) < 1e-9
        assert torch.allclose(found, standard(3 * z + 7, batch))
        flat = torch.zeros_like(z).requires_grad_()
        (slope,) = torch.autograd.grad(standard(flat, batch).square().sum(), flat)
        assert slope.isfinite().all()


class TestDrawn:
    def test_levels_are_even_over_the_steps(self, batch):
        seen = torch.stack([drawn(batch, torch.full((batch.masks,), step)) for step in range(200)])
        assert (seen >= LOWEST).all()
        assert (seen <= HIGHEST).all()
        for column in seen.T:  # golden multiples: no tenth of the range has many more than its share
            counts = np.histogram(column.numpy(), bins=10, range=(LOWEST, HIGHEST))[0]
            assert abs(counts - 20).max() <= 2

    def test_small_sizes_more_often(self, batch):
        seen = torch.stack([drawn(batch, torch.full((batch.masks,), step), small=2.0) for step in range(200)])
        assert float(seen.median()) < 0.3

    def test_they_depend_on_the_input_and_the_seed_alone(self, batch):
        step = torch.full((1,), 7)
        for number, text in enumerate(TEXTS[:2]):
            alone = batch_of([text])[1]
            together = drawn(batch, torch.full((batch.masks,), 7))
            assert torch.equal(drawn(alone, step), together[number : number + 1])
        assert not torch.equal(drawn(batch_of([TEXTS[0]], seed=1)[1], step), drawn(batch_of([TEXTS[0]])[1], step))


class TestOptimised:
    LEVELS = replace(ONE_MASK, own=0.0, levels=1.0, steps=40, warm=10, start_w=0.0, stop="steps")

    @pytest.mark.parametrize("more", [{}, {"own": 0.5}, {"level_form": "linear", "noise": 0.0, "flip": 0.0}])
    def test_alone_equals_in_a_batch(self, more):
        model, batch = batch_of(TEXTS)
        how = replace(self.LEVELS, **more)
        with model.borrowed():
            together = optimize(batch, torch.ones(3, dtype=torch.long), how).keep
            for number in range(3):
                alone = batch.take([number])
                found = optimize(alone, torch.ones(1, dtype=torch.long), how).keep
                mine = together[batch.rows.input == number][:, : found.shape[1]]
                assert torch.allclose(mine, found, atol=1e-7)

    @pytest.mark.parametrize("own", [0.0, 0.3])
    def test_finds_the_keywords_at_every_size(self, own):
        model = rationales.load(*keyword_model("bridge", "joke"))
        text = "The boat drifted slowly towards the old bridge and nobody laughed at the joke again that day"
        options = {"own": own, "levels": 1.0, "warm": 10, "start_w": 0.0, "steps": 60}
        result = rationales.explain(model, text, options=options)
        words = [unit.text for unit in result.units]
        assert result.selected()[words.index("joke")]  # three of the four tokens that are looked for: it is enough
        for place in (words.index("bridge"), words.index("joke")):
            assert result.scores[place] == result.scores[place - 2 : place + 3].max()
        assert result.selected().sum() <= 0.5 * len(words)
        assert result.probabilities["rationale"]["found"] >= 0.9 * result.probabilities["full"]["found"]

    def test_few_steps_still_leave_the_start(self):
        """A preset that collects gradients for 24 steps must work when a user asks for 10."""
        assert replace(DEFAULT, warm=24, steps=10).on(None).warm == 3
        model, batch = batch_of(TEXTS[:2])
        with model.borrowed():
            keep = optimize(batch, torch.ones(2, dtype=torch.long), replace(self.LEVELS, warm=24, steps=6)).keep
        assert keep[1][batch.rows.real[1]].std() > 0


class TestSettings:
    def test_nothing_to_optimise_is_refused(self):
        with pytest.raises(OptionError, match="nothing to optimise"):
            MaskSettings(levels=0.0)

    def test_cells_follow_the_grid(self):
        how = replace(DEFAULT, every=0, start_sigma=0.0, kernel="sigma")
        assert (how.on((224, 224)).every, how.on((224, 224)).start_sigma) == (16, 640.0)
        assert (how.on((32, 20)).every, how.on((32, 20)).start_sigma) == (2, 10.0)
        assert replace(how, kernel="sigma-squared").on((224, 160)).start_sigma == pytest.approx(640**0.5)
        assert (how.on(None).every, how.on(None).start_sigma) == (1, 2.0)
