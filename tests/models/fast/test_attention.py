"""Attention inside rows that stand one after the other is that of each row alone, and so are its slopes."""

from __future__ import annotations

import os
from importlib.util import find_spec
from itertools import accumulate

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from rationales.models.fast.attention import attend_packed


def drawn(lengths, heads, size, seed):
    """Queries, keys, values and slopes in double precision, and where rows end."""
    made = torch.Generator().manual_seed(seed)
    given_ = [torch.randn(sum(lengths), heads, size, generator=made, dtype=torch.float64) for _ in range(4)]
    return given_, torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)


def literally(query, key, value, slope, ends):
    """Row by row: what is found, and the slopes."""
    leaves = [one.clone().requires_grad_() for one in (query, key, value)]
    rows = []
    for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        own = [one[begin:end].transpose(0, 1) for one in leaves]
        rows.append(scaled_dot_product_attention(*own).transpose(0, 1))
    found = torch.cat(rows)
    return [found.detach(), *torch.autograd.grad(found, leaves, slope)]


lengths = st.lists(st.integers(1, 150), min_size=1, max_size=3)


@given(lengths=lengths, heads=st.integers(1, 2), seed=st.integers(0, 99))
def test_rows_attend_apart(lengths, heads, seed):
    (query, key, value, slope), ends = drawn(lengths, heads, 8, seed)
    found = attend_packed(query, key, value, len(lengths), (ends, max(lengths)))
    assert torch.allclose(found, literally(query, key, value, slope, ends)[0])
    first = attend_packed(query[ends[:-1]], key, value, len(lengths), (ends, max(lengths)))
    assert torch.allclose(first, found[ends[:-1]])


@pytest.mark.skipif(
    find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs Triton, and TRITON_INTERPRET=1 from the start",
)
@settings(max_examples=5, deadline=None)
@given(lengths=lengths, size=st.sampled_from([16, 32]), seed=st.integers(0, 99))
def test_interpreted_kernels_equal_the_rows(lengths, size, seed):
    from rationales.models.fast.kernels import triton_attention

    drawn_, ends = drawn(lengths, 2, size, seed)
    query, key, value, slope = (one.float() for one in drawn_)
    found, total = triton_attention.forward(query, key, value, ends, max(lengths), size**-0.5)
    slopes = triton_attention.backward(slope, query, key, value, found, total, ends, max(lengths), size**-0.5)
    for one, other in zip((found, *slopes), literally(*drawn_, ends), strict=True):
        assert torch.allclose(one.double(), other, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA card")
@pytest.mark.parametrize("size", [16, 32, 64, 128])
@pytest.mark.parametrize("lengths", [[1], [130, 64, 7, 512], [300] * 5])
def test_kernels_equal_the_rows_on_an_accelerator(size, lengths):
    from rationales.models.fast.kernels import attention_kernel

    pytest.importorskip("triton")
    drawn_, ends = drawn(lengths, 3, size, 0)
    query, key, value, slope = (one.to("cuda", torch.bfloat16) for one in drawn_)
    kernel = attention_kernel(query)
    assert kernel is not None
    found, total = kernel.forward(query, key, value, ends.cuda(), max(lengths), size**-0.5)
    slopes = kernel.backward(slope, query, key, value, found, total, ends.cuda(), max(lengths), size**-0.5)
    for one, other in zip((found, *slopes), literally(*drawn_, ends), strict=True):
        assert torch.allclose(one.double().cpu(), other, atol=0.05, rtol=0.05)
