"""Attention inside rows that stand one after the other is that of each row alone, and so are its slopes."""

from __future__ import annotations

from itertools import accumulate

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from rationales.models.attention import attend_in_line


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
    found = attend_in_line(query, key, value, len(lengths), (ends, max(lengths)))
    assert torch.allclose(found, literally(query, key, value, slope, ends)[0])
    first = attend_in_line(query[ends[:-1]], key, value, len(lengths), (ends, max(lengths)))
    assert torch.allclose(first, found[ends[:-1]])
