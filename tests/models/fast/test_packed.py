"""Copies that run the tokens of all rows one after the other say what the classifier says, and so do their slopes."""

from __future__ import annotations

import copy
import os
from importlib.util import find_spec

import pytest
import torch
from families import FAMILIES, tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import layer_norm

import rationales
from rationales.models.batch import Packing
from rationales.models.fast import packed

KNOWN = [family for family in FAMILIES if type(tiny(family)[0]).__name__ in packed.KNOWN]
TEXTS = ["a film", "one good film , and a bad day", "a day", "no film at all"]


def batch_of(family, texts=TEXTS):
    module, tokenizer = tiny(family)
    model = rationales.load(copy.deepcopy(module).double(), tokenizer)
    return model, model.batch(model.encode([model.read(text, None) for text in texts]))


def logits_and_gradients(batch, keep):
    logits = batch.logits(keep)
    return logits, torch.autograd.grad((logits * torch.arange(1.0, 1 + logits.shape[-1])).sum(), keep)[0]


@pytest.mark.parametrize("family", KNOWN)
@settings(max_examples=5)
@given(seed=st.integers(0, 99), budget=st.sampled_from([0, 12, 30]))
def test_they_say_the_same(family, seed, budget):
    model, batch = batch_of(family)
    batch.budget = budget or batch.budget
    keep = torch.rand(2, *batch.size, generator=torch.Generator().manual_seed(seed)).double().requires_grad_()
    with model.frozen():
        copied = batch.in_dtype(torch.float64, without_masks=True)
        assert copied.networks[0].packs_rows
        results = [logits_and_gradients(either, keep) for either in (batch, copied)]
    for plain, packed_result in zip(*results, strict=True):
        assert torch.allclose(plain, packed_result, atol=1e-9)


@pytest.mark.parametrize("family", KNOWN)
def test_where_lengths_are_not_told_they_are_read_off_the_rows(family):
    model, batch = batch_of(family)
    with model.frozen():
        copied = batch.in_dtype(torch.float64, without_masks=True)
        plan = copied.plan(1, batch.size[0])
        assert plan[0][0].packing is not None
        with torch.no_grad():
            with_lengths = copied.logits(batch.ones())
            object.__setattr__(plan[0][0], "packing", None)
            assert torch.equal(copied.logits(batch.ones()), with_lengths)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_module_can_have_its_own_encoder_back(family):
    module = copy.deepcopy(tiny(family)[0])
    before = dict(module.named_modules())
    assert packed.set_packed(module) == (family in KNOWN)
    assert packed.set_packed(module) == (family in KNOWN)  # once is enough
    assert (dict(module.named_modules()) != before) == (family in KNOWN)
    assert not packed.set_packed(module, enabled=False)
    assert dict(module.named_modules()) == before


class Other(torch.nn.Linear):
    """May compute something else."""


def test_a_layer_with_something_more_is_left_alone():
    module = copy.deepcopy(tiny("bert")[0])
    module.bert.encoder.layer[1].intermediate.adapter = torch.nn.Linear(2, 2)
    assert not packed.set_packed(module)


def test_a_layer_with_something_else_is_left_alone():
    module = copy.deepcopy(tiny("bert")[0])
    dense = module.bert.encoder.layer[0].output.dense
    module.bert.encoder.layer[0].output.dense = Other(dense.in_features, dense.out_features)
    assert not packed.set_packed(module)


def test_a_layer_that_is_listened_to_is_left_alone():
    module = copy.deepcopy(tiny("bert")[0])
    handle = module.bert.encoder.layer[0].attention.register_forward_hook(lambda *_: None)
    assert not packed.set_packed(module)
    handle.remove()
    assert packed.set_packed(module)


def test_a_class_of_the_same_name_is_left_alone():
    class BertForSequenceClassification(torch.nn.Module):
        pass

    assert not packed.set_packed(BertForSequenceClassification())


@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=6), padding=st.integers(0, 3))
def test_places_are_those_of_the_tokens(lengths, padding):
    size = max(lengths) + padding
    expected = [row * size + position for row, length in enumerate(lengths) for position in range(length)]
    assert Packing.from_lengths(lengths, torch.device("cpu")).token_indices(size).tolist() == expected


@given(st.data())
def test_products_beside_a_value_have_the_slopes_that_they_would_have_alone(data):
    rows, inside = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    products = [torch.nn.Linear(inside, data.draw(st.integers(1, 4))).double().requires_grad_(False) for _ in range(2)]
    norm = torch.nn.LayerNorm(inside).double()
    x = torch.randn(rows, inside, generator=generator, dtype=torch.float64).requires_grad_()

    def of(x_value, first, second):
        return (
            packed.add_norm(first.sum() * x_value, x_value, norm).sum()
            + (packed.add_norm(x_value, x_value, norm) * second.sum()).sum()
        )

    plain = of(x, *(value(x) for value in products))
    accumulated = of(*packed.with_products(x.clone(), *products))
    assert torch.allclose(plain, accumulated)
    assert torch.allclose(*(torch.autograd.grad(value, x)[0] for value in (plain, accumulated)))


def normed(kernel, rows, size, seed, dtype, device="cpu"):
    """Fused and plain: what comes out, and the slopes."""
    generator = torch.Generator().manual_seed(seed)
    x, y, gradient = (torch.randn(rows, size, generator=generator, dtype=torch.float64) for _ in range(3))
    weight, bias = torch.randn(2, size, generator=generator, dtype=torch.float64)
    total = (x + 3 * y).requires_grad_()
    plain = layer_norm(total, (size,), weight, bias, 1e-5)
    expected = plain.detach(), torch.autograd.grad(plain, total, gradient)[0]
    arguments = [tensor.to(device, dtype) for tensor in (x, 3 * y, weight, bias, gradient)]
    kept, mean, scale, out = kernel.forward(*arguments[:4], 1e-5)
    actual = out, kernel.backward(arguments[4], kept, mean, scale, arguments[2])
    return [tensor.double().cpu() for tensor in actual], expected


@pytest.mark.skipif(
    find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs Triton, and TRITON_INTERPRET=1 from the start",
)
@settings(max_examples=10, deadline=None)
@given(rows=st.integers(1, 5), size=st.integers(2, 70), seed=st.integers(0, 99))
def test_interpreted_kernels_equal_the_formula(rows, size, seed):
    from rationales.models.fast.kernels import triton_norm

    for actual, expected in zip(*normed(triton_norm, rows, size, seed, torch.float32), strict=True):
        assert torch.allclose(actual, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA card")
@pytest.mark.parametrize("size", [32, 384, 768, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kernels_equal_the_formula_on_an_accelerator(size, dtype):
    from rationales.models.fast.kernels import norm_kernel

    pytest.importorskip("triton")
    kernel = norm_kernel(torch.ones(1, device="cuda"))
    near = 1e-4 if dtype == torch.float32 else 0.1
    for actual, expected in zip(*normed(kernel, 300, size, 0, dtype, "cuda"), strict=True):
        assert torch.allclose(actual, expected, atol=near, rtol=near)
