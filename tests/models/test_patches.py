"""Convolutions whose windows do not overlap, as one product: the same sums, and nothing else is touched."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from rationales.models.patches import Patches, as_products


@given(
    channels=st.integers(1, 3),
    kernel=st.tuples(st.integers(1, 4), st.integers(2, 5)),
    size=st.tuples(st.integers(4, 13), st.integers(5, 13)),
    bias=st.booleans(),
    last=st.booleans(),
)
def test_it_is_the_same_sum(channels, kernel, size, bias, last):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(channels, 6, kernel, kernel, bias=bias).double())
    changed = copy.deepcopy(plain)
    as_products(changed)
    assert type(changed[0]) is Patches
    pixels = torch.randn(3, channels, *size, dtype=torch.float64).requires_grad_()
    if last:
        changed[0].weight.data = changed[0].weight.data.contiguous(memory_format=torch.channels_last)
    found = [one(pixels) for one in (plain, changed)]
    assert torch.allclose(*found)
    slopes = [torch.autograd.grad(one.square().sum(), pixels)[0] for one in found]
    assert torch.allclose(*slopes)


@pytest.mark.parametrize(
    "kept",
    [
        nn.Conv2d(3, 6, 4, 2),
        nn.Conv2d(3, 6, 4, 4, padding=1),
        nn.Conv2d(3, 6, 4, 4, dilation=2),
        nn.Conv2d(3, 6, 4, 4, groups=3),
        nn.Conv2d(3, 6, 1),
        nn.ConvTranspose2d(3, 6, 4, 4),
    ],
)
def test_other_convolutions_stay_as_they_are(kept):
    before = type(kept)
    as_products(nn.Sequential(kept))
    assert type(kept) is before
