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


def random_tensors(lengths, heads, size, seed):
    """Queries, keys, values and slopes in double precision, and where rows end."""
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(sum(lengths), heads, size, generator=generator, dtype=torch.float64) for _ in range(4)]
    return tensors, torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)


def literally(query, key, value, slope, ends):
    """Row by row: what is found, and the slopes."""
    leaves = [tensor.clone().requires_grad_() for tensor in (query, key, value)]
    rows = []
    for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        row_tensors = [tensor[begin:end].transpose(0, 1) for tensor in leaves]
        rows.append(scaled_dot_product_attention(*row_tensors).transpose(0, 1))
    attended = torch.cat(rows)
    return [attended.detach(), *torch.autograd.grad(attended, leaves, slope)]


@pytest.mark.parametrize("ends", [None, [0, 3, 8]])
def test_bfloat16_on_a_cpu_is_computed_in_single_precision(ends):
    """Equal to rounding the attention of single precision, whatever kernels a CPU has for bfloat16."""
    (query, key, value, gradient), _ = random_tensors([3, 5], 2, 4, 0)
    layout = (1, None) if ends is None else (2, (torch.tensor(ends, dtype=torch.int32), 5))
    halves = [tensor.bfloat16().requires_grad_() for tensor in (query, key, value)]
    singles = [tensor.detach().float().requires_grad_() for tensor in halves]
    attended = [attend_packed(*tensors, *layout) for tensors in (halves, singles)]
    assert attended[0].dtype == torch.bfloat16
    assert torch.equal(attended[0], attended[1].bfloat16())
    backward = [
        torch.autograd.grad(output, inputs, gradient.bfloat16().to(output.dtype))
        for output, inputs in zip(attended, (halves, singles), strict=True)
    ]
    assert all(torch.equal(half, single.bfloat16()) for half, single in zip(*backward, strict=True))


lengths = st.lists(st.integers(1, 150), min_size=1, max_size=3)


@given(lengths=lengths, heads=st.integers(1, 2), seed=st.integers(0, 99))
def test_rows_attend_apart(lengths, heads, seed):
    (query, key, value, slope), ends = random_tensors(lengths, heads, 8, seed)
    attended = attend_packed(query, key, value, len(lengths), (ends, max(lengths)))
    assert torch.allclose(attended, literally(query, key, value, slope, ends)[0])
    first = attend_packed(query[ends[:-1]], key, value, len(lengths), (ends, max(lengths)))
    assert torch.allclose(first, attended[ends[:-1]])


@pytest.mark.skipif(
    find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs Triton, and TRITON_INTERPRET=1 from the start",
)
@settings(max_examples=5, deadline=None)
@given(lengths=lengths, size=st.sampled_from([16, 32]), seed=st.integers(0, 99))
def test_interpreted_kernels_equal_the_rows(lengths, size, seed):
    from rationales.models.fast.kernels import triton_attention

    tensors, ends = random_tensors(lengths, 2, size, seed)
    query, key, value, gradient = (tensor.float() for tensor in tensors)
    attended, total = triton_attention.forward(query, key, value, ends, max(lengths), size**-0.5)
    gradients = triton_attention.backward(gradient, query, key, value, attended, total, ends, max(lengths), size**-0.5)
    for tensor, expected in zip((attended, *gradients), literally(*tensors, ends), strict=True):
        assert torch.allclose(tensor.double(), expected, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA card")
@pytest.mark.parametrize("size", [16, 32, 64, 128])
@pytest.mark.parametrize("lengths", [[1], [130, 64, 7, 512], [300] * 5])
def test_kernels_equal_the_rows_on_an_accelerator(size, lengths):
    from rationales.models.fast.kernels import attention_kernel

    pytest.importorskip("triton")
    tensors, ends = random_tensors(lengths, 3, size, 0)
    query, key, value, gradient = (tensor.to("cuda", torch.bfloat16) for tensor in tensors)
    kernel = attention_kernel(query)
    assert kernel is not None
    attended, total = kernel.forward(query, key, value, ends.cuda(), max(lengths), size**-0.5)
    gradients = kernel.backward(gradient, query, key, value, attended, total, ends.cuda(), max(lengths), size**-0.5)
    for tensor, expected in zip((attended, *gradients), literally(*tensors, ends), strict=True):
        assert torch.allclose(tensor.double().cpu(), expected, atol=0.05, rtol=0.05)
