"""The engine on words beside pixels: one field in two parts, which weigh the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("PIL")

from models.multimodal.pairs import SIDE, TEXTS, scene, small_model
from reference.parts import grid_and_words_field, mean_of_parts, neighbour_terms

from rationales.masks.field import WORD_GAIN, field, smooth, source_slices, source_weights, sources
from rationales.masks.objective import at_level, edge, mean_over_units, neighbour_term, row_groups, scaled
from rationales.masks.optimizer import initial_w
from rationales.masks.settings import IMAGE_TEXT
from rationales.methods.support.feature_groups import feature_groups
from rationales.methods.support.sliding_windows import Windows

PIXELS = SIDE * SIDE


@pytest.fixture(scope="module")
def batch():
    """Three pairs whose texts have different numbers of words, in double precision."""
    model = small_model(baseline="pad; black, mean")
    model.network.module.double()
    model.network = type(model.network)(
        model.network.module, model.network.embedding, model.network.baseline.double(), {}, False
    )
    pairs = [(scene(seed=seed, left=3 * seed), text) for seed, text in enumerate(TEXTS)]
    return model.batch(model.encode([model.read(pair, None) for pair in pairs]))


def random(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class TestField:
    @pytest.mark.parametrize("cell", [2, 4])
    @pytest.mark.parametrize("power", [1, 2])
    def test_equals_the_formula_part_by_part(self, batch, cell, power):
        real = sources(batch, cell)
        w, sigma = random(*real.shape) - 0.5, 0.5 + random(*real.shape, seed=1)
        z = field(batch, w, sigma, power, cell, "free")
        words = batch.parts[1].count
        expected = grid_and_words_field(w[0].tolist(), sigma[0].tolist(), (SIDE, SIDE), cell, words, WORD_GAIN, power)
        exists = batch.rows.real[0]
        assert torch.allclose(z[0][exists], torch.tensor(expected, dtype=z.dtype)[exists], atol=1e-4)
        assert not z[0][~exists].any()

    def test_a_gaussian_field_of_words_does_not_reach_the_pixels(self, batch):
        real = sources(batch, 4)
        pixels = source_slices(batch, 4)[0][1]
        w, sigma = torch.zeros(real.shape, dtype=torch.float64), torch.full(real.shape, 50.0, dtype=torch.float64)
        w[:, pixels.stop :] = 1
        z = field(batch, w, sigma, 2, 4, "gaussian")
        assert not z[:, :PIXELS].any()
        assert (z[:, PIXELS:][batch.rows.real[: batch.masks, PIXELS:]] > 1).all()

    def test_smoothing_is_a_mean_within_each_part(self, batch):
        scores = random(*batch.size)
        smoothed = smooth(scores, batch, 1e4)
        for batch_part in batch.parts:
            units = batch_part.units
            real = batch.rows.real[:, units]
            mean = (scores[:, units] * real).sum(1) / real.sum(1)
            expected = torch.where(real, mean[:, None], torch.zeros((), dtype=mean.dtype))
            assert torch.allclose(smoothed[:, units], expected, atol=1e-3)


class TestObjective:
    def test_means_count_both_parts_the_same(self, batch):
        values = random(batch.masks, batch.size[1])
        sizes = [batch_part.count for batch_part in batch.parts]
        for number in range(batch.masks):
            expected = mean_of_parts(values[number].tolist(), batch.rows.real[number].tolist(), sizes)
            assert float(mean_over_units(values, batch)[number]) == pytest.approx(expected)
        standardized = scaled(values, batch)
        for number in range(batch.masks):
            real = batch.rows.real[number].tolist()
            assert mean_of_parts(standardized[number].tolist(), real, sizes) == pytest.approx(0, abs=1e-9)
            squares = standardized[number].square().tolist()
            assert mean_of_parts(squares, real, sizes) == pytest.approx(1, rel=1e-6)

    def test_a_level_is_the_mean_of_both_shares(self, batch):
        z = random(batch.masks, batch.size[1])
        level = torch.linspace(0.1, 0.8, batch.inputs * batch.views, dtype=torch.float64)
        keep = at_level(z, batch, level, 0.1)
        sizes = [batch_part.count for batch_part in batch.parts]
        for row, group in enumerate(row_groups(batch).tolist()):
            mean = mean_of_parts(keep[row].tolist(), batch.rows.real[row].tolist(), sizes)
            assert mean == pytest.approx(float(level[group]), abs=2e-3)
        q, deviation = edge(z, batch, level, 0.1)
        assert torch.isfinite(q).all()
        assert (deviation > 0).all()

    def test_the_gradient_at_a_level_keeps_the_size(self, batch):
        """A shift of the whole field changes nothing: the gradients of a row sum to 0."""
        z = random(batch.masks, batch.size[1]).requires_grad_()
        level = torch.full((batch.inputs * batch.views,), 0.3, dtype=torch.float64)
        weight = random(*batch.size, seed=3)
        (gradient,) = torch.autograd.grad((at_level(z, batch, level, 0.2) * weight).sum(), z)
        assert torch.allclose(gradient.sum(1), torch.zeros(batch.masks, dtype=torch.float64), atol=1e-6)

    def test_neighbours_equal_the_formula(self, batch):
        keep = random(batch.masks, batch.size[1])
        terms = neighbour_term(keep, batch)
        for number in range(batch.masks):
            expected = neighbour_terms(keep[number].tolist(), batch.rows.real[number].tolist(), (SIDE, SIDE))
            assert float(terms[number]) == pytest.approx(expected)

    def test_sources_of_both_parts_weigh_the_same(self, batch):
        weights = source_weights(batch, 4)
        (_, pixels), (_, words) = source_slices(batch, 4)
        assert torch.allclose(weights[:, pixels].sum(1), weights[:, words].sum(1))
        gradient = torch.ones_like(weights)
        start = initial_w(gradient, batch, replace(IMAGE_TEXT, cell=4).on(batch.pixel_grid))
        cell, word = start[0, 0], start[0, words.start]
        assert float(word / cell) == pytest.approx(float(weights[0, 0] / weights[0, words.start]))


class TestGroupsAndWindows:
    def test_groups_are_cells_and_then_words(self, batch):
        groups = feature_groups(batch, 8)
        assert groups.member[:PIXELS].max() == 8
        assert groups.member[PIXELS:].tolist() == [9 + number for number in range(batch.parts[1].count)]
        assert torch.equal(groups.real[:, 9:], batch.rows.real[:, PIXELS:])

    def test_windows_are_squares_and_then_single_words(self, batch):
        windows = Windows(batch, 12, 12)
        counts = windows.counts
        words = batch.rows.real[:, PIXELS:].sum(1)
        assert torch.equal(counts, 4 + words)
        row = torch.arange(batch.size[0])
        hidden = windows.hidden(row, torch.arange(int(counts.max())))
        assert torch.equal(hidden[0, 0, :PIXELS].view(SIDE, SIDE)[:12, :12], torch.ones(12, 12, dtype=torch.bool))
        assert (hidden.sum(0)[batch.rows.real] == 1).all()
        assert not hidden.sum(0)[~batch.rows.real].any()
        for number in range(4, int(counts.max())):
            covered = hidden[number]
            assert not covered[:, :PIXELS].any()
            assert torch.equal(covered[:, PIXELS:].sum(1), (number < counts).long())
