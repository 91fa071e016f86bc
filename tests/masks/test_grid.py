"""Fields over a grid: equal to the formula on every path, in little memory, no mask and no padding touching another."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import grid as literal

from rationales.masks import grid
from rationales.masks.grid import CUTOFF, grid_field, neighbour_difference
from rationales.masks.kernels import grid_kernel

EXACT = 10_000  # a radius that covers any grid here


@st.composite
def cases(draw, max_size=(24, 20), masks=3, max_cell=1):
    """w, sigma, gradients, cell, size: any shape, one sigma for all or each its own, from 0.6 to 60."""
    cell = draw(st.integers(1, max_cell))
    size = (draw(st.integers(1, max_size[0])), draw(st.integers(1, max_size[1])))
    cells = [-(-side // cell) for side in size]
    count = draw(st.integers(1, masks))
    low = draw(st.floats(0.6, 60))
    high = draw(st.one_of(st.just(low), st.floats(low, 60)))
    source = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def uniform(*shape):
        return torch.rand(shape, generator=source, dtype=torch.float64)

    def signed(*shape):
        """Away from 0: the relative error of a sum says nothing where its large terms happen to vanish."""
        return (0.5 + 0.5 * uniform(*shape)) * torch.where(uniform(*shape) < draw(st.floats(0, 1)), -1.0, 1.0)

    sigma = (low * (high / low) ** uniform(count, *cells)).clamp(0.6, 60)
    return signed(count, *cells), sigma, signed(count, *size), cell, size


def run(case, power=1, dtype=torch.float64, device="cpu", **options):
    """z and the derivatives of its weighted sum."""
    w, sigma, weight = (value.to(device, dtype).clone() for value in case[:3])
    w.requires_grad_()
    sigma.requires_grad_()
    z = grid_field(w, sigma, power, cell=case[3], size=case[4], **options)
    return (z.detach(), *torch.autograd.grad((z * weight).sum(), (w, sigma)))


def expected_values(case, power):
    w, sigma, weight, cell, size = case
    return (literal.field(w, sigma, power, cell, size), *literal.gradients(w, sigma, weight, power, cell, size))


def error(actual, case, power=1, overall=False):
    """The largest difference to the literal sums, relative to the same sum of absolute values (or a mask's largest)."""
    scale = expected_values((case[0].abs(), case[1], case[2].abs(), *case[3:]), power)
    if overall:
        scale = [value.amax((1, 2), keepdim=True) for value in scale]
    pairs = zip(actual, expected_values(case, power), scale, strict=True)
    return max(float(((a.cpu() - b).abs() / c.clamp(min=1e-30)).max()) for a, b, c in pairs)


@pytest.mark.parametrize("power", [1, 2])
class TestEqualsTheFormula:
    @given(case=cases())
    def test_exactly_when_the_radius_covers_the_grid(self, power, case):
        assert error(run(case, power, radius=EXACT), case, power) < 1e-10

    @given(case=cases())
    def test_in_single_precision_within_the_radius(self, power, case):
        assert error(run(case, power, torch.float32), case, power) < 1e-4

    @given(case=cases(max_cell=5))
    def test_on_coarser_grids(self, power, case):
        """A pixel in the corner of a large cell with a small sigma has a z of 1e-6: no share of that is promised."""
        assert error(run(case, power, radius=EXACT), case, power) < 1e-10
        assert error(run(case, power, torch.float32), case, power, overall=True) < 1e-4


class TestGridField:
    @settings(max_examples=5)
    @given(case=cases(max_size=(5, 4), masks=2, max_cell=2), power=st.sampled_from([1, 2]))
    def test_its_gradients_are_its_slopes(self, case, power):
        w, sigma = case[0].requires_grad_(), case[1].requires_grad_()

        def field(w, sigma):
            return grid_field(w, sigma, power, radius=EXACT, cell=case[3], size=case[4])

        assert torch.autograd.gradcheck(field, (w, sigma))

    @given(case=cases(max_size=(12, 12), masks=4, max_cell=3), block=st.sampled_from([1, 100, 1 << 16]))
    def test_a_mask_is_the_same_in_any_company(self, case, block):
        """Also where its neighbours' sigma, and with it their radius, is larger."""
        case[1][1:] *= 3
        together = run(case, dtype=torch.float32)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(grid, "BLOCK", block)
            for number in range(len(case[0])):
                alone = run((*(value[number : number + 1] for value in case[:3]), *case[3:]), dtype=torch.float32)
                for single, batched in zip(alone, together, strict=True):
                    assert torch.allclose(single[0], batched[number], rtol=1e-6, atol=1e-6)

    @given(case=cases(max_size=(12, 12)), seed=st.integers(0, 2**31))
    def test_what_is_not_real_contributes_nothing_and_learns_nothing(self, case, seed):
        real = torch.rand(case[0].shape, generator=torch.Generator().manual_seed(seed)) < 0.6
        without = (torch.where(real, case[0], 0.0), *case[1:])
        odd = torch.tensor([0.0, -1.0, float("nan"), float("inf")], dtype=torch.float64)
        noise = odd[torch.arange(real.numel()).view(real.shape) % len(odd)]
        filled = (torch.where(real, case[0], noise), torch.where(real, case[1], noise), *case[2:])
        z, by_w, by_sigma = run(filled, real=real, radius=EXACT)
        expected = expected_values(without, 1)
        assert torch.allclose(z, expected[0], atol=1e-10)
        assert torch.allclose(by_w, torch.where(real, expected[1], 0.0), atol=1e-10)
        assert torch.allclose(by_sigma, torch.where(real, expected[2], 0.0), atol=1e-10)

    def test_a_source_at_the_border_does_not_come_in_on_the_other_side(self):
        for row, column in ((0, 0), (0, 9), (4, 0), (4, 9), (7, 9)):
            w = torch.zeros(1, 8, 10, dtype=torch.float64)
            w[0, row, column] = 1
            z = grid_field(w, torch.full_like(w, 2.0))[0]
            y, x = torch.meshgrid(torch.arange(8.0).double(), torch.arange(10.0).double(), indexing="ij")
            square = (y - row) ** 2 + (x - column) ** 2
            assert torch.allclose(z, torch.where(square <= 36, torch.exp(-square / 2), 0.0))  # 6 = ceil(sqrt(13 * 2))
            assert bool((z[square > 36] == 0).all())

    def test_a_given_radius_is_kept(self):
        w = torch.zeros(1, 1, 9)
        w[0, 0, 4] = 1
        z = grid_field(w, torch.full_like(w, 50.0), radius=2)
        assert (z != 0).tolist() == [[[False, False, True, True, True, True, True, False, False]]]

    def test_the_same_numbers_give_the_same_bits(self):
        source = torch.Generator().manual_seed(0)
        w = torch.randn(2, 30, 40, generator=source)
        sigma = 0.6 + 9 * torch.rand(2, 30, 40, generator=source)
        case = (w, sigma, torch.ones_like(w), 1, (30, 40))
        for first, second in zip(run(case, dtype=torch.float32), run(case, dtype=torch.float32), strict=True):
            assert torch.equal(first, second)

    def test_narrow_sources_beside_wide_ones_leave_no_denormal_numbers(self):
        """exp(-d^2 / 0.6) falls below 1e-38 within the radius of sigma = 60; such numbers are slow to compute with."""
        exponents = -1 / torch.tensor([[0.6, 60.0]])
        for square in range(int(CUTOFF * 60)):
            assert float(grid._kernel_at(exponents, float(square), torch.empty_like(exponents)).min()) > 1e-30

    @pytest.mark.parametrize("broken", [float("nan"), float("inf")])
    def test_a_broken_sigma_is_seen_in_z(self, broken):
        """No error here: whoever asked the model says which input it was."""
        w, sigma = torch.ones(1, 3, 3), torch.full((1, 3, 3), 2.0)
        sigma[0, 1, 1] = broken
        z = grid_field(w, sigma)
        assert z.shape == (1, 3, 3)
        assert bool(z.isfinite().all()) == (broken == float("inf"))  # an infinite width is 1 everywhere

    def test_cells_that_do_not_cover_the_pixels_are_refused(self):
        with pytest.raises(ValueError, match="2 x 2 cells of 4 pixels do not cover 9 x 8 pixels"):
            grid_field(torch.ones(1, 2, 2), torch.ones(1, 2, 2), cell=4, size=(9, 8))


class TestMemory:
    def test_nothing_is_kept_but_w_and_sigma(self):
        w, sigma = torch.randn(2, 16, 16).requires_grad_(), torch.full((2, 16, 16), 9.0).requires_grad_()
        kept = []

        def keep(tensor):
            kept.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            grid_field(w, sigma, 2)
        assert [tensor.data_ptr() for tensor in kept] == [w.data_ptr(), sigma.data_ptr()]

    @pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the kernel does not tell the peak")
    def test_a_mask_of_384_by_384_takes_less_than_100_megabytes(self):
        """The peak of a process during a whole step, less what it held before."""
        program = """
import torch
from pathlib import Path
from rationales.masks.grid import grid_field, neighbour_difference
def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
def step(side):
    w, sigma = (torch.full((1, side, side), value, requires_grad=True) for value in (0.5, 20.0))
    keep = grid_field(w, sigma).sigmoid()
    (keep.mean() + neighbour_difference(keep).sum()).backward()
step(8)  # what torch sets up once
Path("/proc/self/clear_refs").write_text("5")  # the peak becomes what is held now
before = peak()
step(384)
print(peak() - before)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
        assert 384 * 384 * 4 / 1024 < int(done.stdout) < 100 * 1024  # kilobytes; one mask alone is the least


class TestNeighbourDifference:
    @given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**31), st.booleans())
    def test_equals_the_pairs_one_by_one(self, height, width, seed, everything):
        source = torch.Generator().manual_seed(seed)
        keep = torch.rand(2, height, width, generator=source, dtype=torch.float64)
        real = torch.rand(2, height, width, generator=source) < (1.1 if everything else 0.6)
        actual = neighbour_difference(keep, None if everything else real)
        expected = [
            literal.neighbour_difference(mask.tolist(), there.tolist()) for mask, there in zip(keep, real, strict=True)
        ]
        assert actual.tolist() == pytest.approx(expected, abs=1e-12)

    def test_padding_may_hold_anything(self):
        keep = torch.rand(1, 4, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
        real = torch.ones(1, 4, 4, dtype=torch.bool)
        real[:, :, 3] = False
        neighbour_difference(keep.masked_fill(~real, float("nan")), real).sum().backward()
        assert bool(keep.grad.isfinite().all())
        assert neighbour_difference(keep, real).item() == pytest.approx(neighbour_difference(keep[:, :, :3]).item())

    def test_a_flat_mask_costs_nothing(self):
        assert neighbour_difference(torch.full((2, 5, 7), 0.3)).tolist() == [0.0, 0.0]


def test_without_a_cuda_device_the_plain_path_is_taken():
    assert grid_kernel(torch.ones(1)) is None


@pytest.mark.skipif(
    find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs Triton, and TRITON_INTERPRET=1 from the start",
)
class TestInterpretedKernels:
    """The kernels without an accelerator: their arithmetic and borders, not what a compiler makes of them."""

    @settings(max_examples=15)
    @given(case=cases(max_size=(7, 9), masks=2, max_cell=3), power=st.sampled_from([1, 2]), exact=st.booleans())
    def test_equal_the_formula(self, case, power, exact):
        from rationales.masks.kernels import triton_grid

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(grid, "grid_kernel", lambda tensor: triton_grid)
            if exact:
                assert error(run(case, power, radius=EXACT), case, power) < 1e-10
            else:
                assert error(run(case, power, torch.float32), case, power, overall=case[3] > 1) < 1e-4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA card")
class TestOnAnAccelerator:
    @given(case=cases(max_cell=4), power=st.sampled_from([1, 2]))
    def test_equals_the_formula(self, case, power):
        assert error(run(case, power, torch.float32, "cuda"), case, power, overall=case[3] > 1) < 1e-4

    def test_the_kernels_are_taken(self):
        pytest.importorskip("triton")
        assert grid_kernel(torch.ones(1, device="cuda")) is not None

    def test_nothing_is_read_back(self):
        w = torch.full((2, 40, 40), 0.5, device="cuda", requires_grad=True)
        sigma = torch.full_like(w, 3.0).requires_grad_()
        grid_field(w, sigma).sum().backward()  # compiles
        torch.cuda.set_sync_debug_mode("error")
        try:
            grid_field(w, sigma).sum().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def test_plain_and_kernel_agree_at_the_size_of_a_photograph(self):
        source = torch.Generator().manual_seed(0)
        w = torch.randn(2, 224, 224, generator=source)
        sigma = 0.6 + 19 * torch.rand(2, 224, 224, generator=source) ** 3
        case = (w, sigma, torch.randn(2, 224, 224, generator=source), 1, (224, 224))
        fast = run(case, dtype=torch.float32, device="cuda")
        plain = run(case, dtype=torch.float32)
        for fast_values, plain_values in zip(fast, plain, strict=True):
            assert float((fast_values.cpu() - plain_values).abs().max() / plain_values.abs().max()) < 1e-4
