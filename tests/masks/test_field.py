"""Fields: equal to the formula, in one piece or in blocks, and nothing leaks where nothing should."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import field as literal

from rationales.masks import field
from rationales.masks.field import line_field, smooth
from rationales.models.batch.rows import Part
from rationales.models.text.tokens import PART_GAP


@st.composite
def lines(draw, max_length=9):
    """Several lines of equal length with words anywhere, some of them the far part of a pair."""
    count, length = draw(st.integers(1, 3)), draw(st.integers(1, max_length))
    gap = draw(st.integers(0, length))

    def numbers(low, high):
        return [[draw(st.floats(low, high)) for _ in range(length)] for _ in range(count)]

    position = [[unit + (PART_GAP if unit >= gap else 0.0) for unit in range(length)] for _ in range(count)]
    return numbers(-4, 4), numbers(0.1, 12), position, numbers(-1, 1)


def tensors(*values):
    return [torch.tensor(value, dtype=torch.float64) for value in values]


def run(case, power):
    """z and the derivatives of its weighted sum."""
    w, sigma, position, weight = tensors(*case)
    w.requires_grad_()
    sigma.requires_grad_()
    z = line_field(w, sigma, position, power)
    return (z.detach(), *torch.autograd.grad((z * weight).sum(), (w, sigma)))


def on_a_line(position, real):
    """What `smooth` asks a batch for."""
    parts = (Part(0, real.shape[1], None),)
    return SimpleNamespace(parts=parts, rows=SimpleNamespace(position=position, real=real))


@pytest.mark.parametrize("power", [1, 2])
class TestLineField:
    @given(case=lines())
    def test_equals_the_formula_one_word_at_a_time(self, power, case):
        z, by_w, by_sigma = run(case, power)
        for number, (w, sigma, position, weight) in enumerate(zip(*case, strict=True)):
            assert z[number].tolist() == pytest.approx(literal.field(w, sigma, position, power), abs=1e-10)
            expected = literal.gradients(w, sigma, position, power, weight)
            assert by_w[number].tolist() == pytest.approx(expected[0], abs=1e-10)
            assert by_sigma[number].tolist() == pytest.approx(expected[1], abs=1e-10, rel=1e-10)

    @settings(max_examples=20)
    @given(case=lines(max_length=14), block=st.integers(1, 6))
    def test_blocks_change_nothing(self, power, case, block):
        single_block = run(case, power)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(field, "BLOCK", block)
            pieces = run(case, power)
        assert all(torch.allclose(a, b, atol=1e-12, rtol=1e-12) for a, b in zip(single_block, pieces, strict=True))

    @given(case=lines(), entries=st.integers(1, 200))
    def test_some_lines_at_a_time_change_nothing(self, power, case, entries):
        w, sigma, position, _ = tensors(*case)
        single_block = line_field(w, sigma, position, power)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(field, "ENTRIES", entries)
            pieces = line_field(w, sigma, position, power)
        assert torch.allclose(single_block, pieces, atol=1e-12, rtol=1e-12)

    def test_a_long_line_never_holds_its_whole_kernel(self, power, monkeypatch):
        """Nothing that is kept for the backward pass grows with the square of the length."""
        monkeypatch.setattr(field, "BLOCK", 16)
        length = 400
        w = torch.randn(1, length, generator=torch.Generator().manual_seed(0)).requires_grad_()
        kept = []

        def keep(tensor):
            kept.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            line_field(w, torch.full_like(w, 3.0), torch.arange(float(length))[None], power)
        assert max(kept, default=0) <= length * 16

    def test_what_is_not_there_changes_nothing(self, power):
        """Padding on the right: w = 0 there, and its position is that of the first word."""
        w, sigma, position = tensors([[1.0, -2.0, 0.5]], [[1.0, 2.0, 3.0]], [[0.0, 1.0, 2.0]])
        padded = [
            torch.nn.functional.pad(value, (0, 4), value=fill) for value, fill in ((w, 0), (sigma, 2), (position, 0))
        ]
        assert torch.equal(line_field(*padded, power)[:, :3], line_field(w, sigma, position, power))

    def test_one_text_of_a_pair_does_not_reach_the_other(self, power):
        """At any width that fits a text of hundreds of words."""
        position = torch.cat([torch.arange(300.0), torch.arange(300.0) + 300 + PART_GAP])[None].double()
        sigma = torch.full_like(position, 100.0)
        first_text_w = 5.0 * (position < PART_GAP).double()
        assert line_field(first_text_w, sigma, position, power)[0, 300:].abs().max() < 1e-40

    def test_width_is_the_distance_at_which_a_third_is_left(self, power):
        """exp(-1) at distance sigma (sigma squared) or its root (sigma as printed)."""
        w, sigma, position = tensors([[1.0, 0.0]], [[9.0, 1.0]], [[0.0, 9.0 if power == 2 else 3.0]])
        assert float(line_field(w, sigma, position, power)[0, 1]) == pytest.approx(0.36787944117144233)


class TestSmooth:
    @given(st.lists(st.floats(-5, 5), min_size=1, max_size=9), st.floats(0.05, 50), st.integers(0, 4))
    def test_equals_the_formula_and_ignores_padding(self, scores, width, padding):
        position = [float(index) for index in range(len(scores))]
        padded = torch.tensor([scores + [7.0] * padding], dtype=torch.float64)
        positions = torch.tensor([position + [0.0] * padding], dtype=torch.float64)
        real = torch.tensor([[True] * len(scores) + [False] * padding])
        smoothed = smooth(padded, on_a_line(positions, real), width)[0]
        assert smoothed[: len(scores)].tolist() == pytest.approx(literal.smooth(scores, position, width), abs=1e-10)
        assert smoothed[len(scores) :].tolist() == [0.0] * padding

    @given(st.floats(-5, 5), st.floats(0.05, 500), st.integers(1, 40))
    def test_a_constant_stays_what_it_is(self, value, width, count):
        line = torch.full((1, count), value, dtype=torch.float64)
        smoothed = smooth(
            line, on_a_line(torch.arange(float(count)).double()[None], torch.ones(1, count).bool()), width
        )
        assert torch.allclose(smoothed, line, atol=1e-12)

    @given(st.lists(st.floats(-5, 5), min_size=2, max_size=9), st.floats(0.05, 50))
    def test_nothing_leaves_the_range_of_the_scores(self, scores, width):
        line = torch.tensor([scores], dtype=torch.float64)
        positions = torch.arange(float(len(scores))).double()[None]
        smoothed = smooth(line, on_a_line(positions, torch.ones_like(line).bool()), width)
        assert min(scores) - 1e-12 <= smoothed.min()
        assert smoothed.max() <= max(scores) + 1e-12

    def test_a_small_width_changes_nothing(self):
        line = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))
        real, positions = torch.ones(2, 6, dtype=torch.bool), torch.arange(6.0).expand(2, 6)
        for width in (0.1, 1e-3, 1e-12, 1e-30):
            assert torch.allclose(smooth(line, on_a_line(positions, real), width), line)
