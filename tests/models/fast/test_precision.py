"""Copies in another precision: the same answers, the user's modules untouched, no stale weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from families import FAMILIES, tiny
from torch import nn

import rationales
from rationales.models.batch.rows import pack
from rationales.models.fast import precision
from rationales.models.fast.precision import copy_in_dtype, forward_dtype, in_half_precision
from rationales.models.text import model as text_model_module

UNMASKED = {"bert", "roberta", "distilbert", "albert", "electra", "xlm-roberta"}


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 3)
        self.norm = nn.BatchNorm1d(3)
        self.last = nn.Linear(3, 2)


def test_weights_change_and_statistics_do_not():
    module = Norm()
    copy, table = copy_in_dtype([module, module.table], torch.float64)
    assert copy.table is table
    assert copy.last.weight.dtype == table.weight.dtype == torch.float64
    assert copy.norm.weight.dtype == copy.norm.running_mean.dtype == torch.float32
    assert module.last.weight.dtype == torch.float32
    assert module.training
    assert not copy.training
    assert not any(weight.requires_grad for weight in copy.parameters())


def test_a_copy_is_held_until_the_module_changes():
    module = nn.Linear(3, 2)
    (first,) = copy_in_dtype([module], torch.float64)
    assert copy_in_dtype([module], torch.float64)[0] is first
    module.weight.data[0, 0] += 1  # past autograd, so that no version counts it
    (second,) = copy_in_dtype([module], torch.float64)
    assert second is not first
    assert torch.equal(second.weight.float(), module.weight)


def test_a_copy_goes_with_its_module():
    module = nn.Linear(3, 2)
    copy_in_dtype([module], torch.float64)
    assert module in precision._copies
    before = len(precision._copies)
    del module
    assert len(precision._copies) == before - 1


class TestForwardDtype:
    @pytest.mark.parametrize(
        ("bfloat16", "amx", "expected"), [(True, False, torch.bfloat16), (True, True, None), (False, False, None)]
    )
    def test_of_a_cpu_depends_on_its_instructions(self, monkeypatch, bfloat16, amx, expected):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bfloat16)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
        assert forward_dtype(torch.device("cpu")) is expected

    def test_of_an_nvidia_gpu_is_float16_and_others_have_none(self):
        assert forward_dtype(torch.device("cuda")) is torch.float16
        assert forward_dtype(torch.device("mps")) is None

    def test_a_coarse_model_answers_nearly_the_same_and_leaves_the_module_as_it_is(self, monkeypatch):
        model = rationales.load(*tiny("bert"))
        monkeypatch.setattr(text_model_module, "forward_dtype", lambda _: torch.bfloat16)
        coarse = model.coarse()
        assert next(coarse.networks[0].module.parameters()).dtype == torch.bfloat16
        assert next(model.networks[0].module.parameters()).dtype == torch.float32
        texts = ["The soup wasn't bad; nobody laughed.", "A field."]
        full, half = (
            np.array([list(r.probabilities["full"].values()) for r in rationales.explain(m, texts, method="random")])
            for m in (model, coarse)
        )
        assert np.abs(full - half).max() < precision.MAX_PROBABILITY_DIFFERENCE

    def test_without_a_faster_precision_a_coarse_model_is_the_model(self, monkeypatch):
        model = rationales.load(*tiny("bert"))
        monkeypatch.setattr(text_model_module, "forward_dtype", lambda _: None)
        assert model.coarse() is model


@pytest.mark.parametrize("family", FAMILIES)
def test_a_copied_batch_says_the_same(family):
    module, tokenizer = tiny(family)
    model = rationales.load(module, tokenizer)
    batch = model.batch(model.encode([model.read(text, None) for text in ("one good film", "a bad and long day")]))
    keep = torch.rand(batch.size, generator=torch.Generator().manual_seed(0)).requires_grad_()
    with model.frozen():
        fine = batch.in_dtype(torch.float64)
        assert fine.networks[0].embedding is fine.modules[0].get_input_embeddings()
        assert fine.networks[0].embedding is not batch.networks[0].embedding
        plain_logits, finely = batch.logits(keep), fine.logits(keep)
        assert torch.allclose(plain_logits, finely, atol=1e-4)
        gradients = [torch.autograd.grad(logits.sum(), keep)[0] for logits in (plain_logits, finely)]
    assert torch.allclose(*gradients, atol=1e-4)
    assert next(module.parameters()).dtype == torch.float32


@pytest.mark.parametrize("texts", [("one good film", "a bad and long day"), ("one good film", "a bad day")])
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_kept_apart_without_masks_say_the_same(family, texts):
    """Where the architecture lets us; where it does not, its own attention stays, and is not tried again."""
    module, tokenizer = tiny(family)
    model = rationales.load(module, tokenizer)
    batch = model.batch(model.encode([model.read(text, None) for text in texts]))
    assert batch.plan(1, 2)[0][0].full == (len(set(batch.cost())) == 1)
    keep = torch.rand(batch.size, generator=torch.Generator().manual_seed(0)).requires_grad_()
    implementation = module.config._attn_implementation
    with model.frozen():
        fine = in_half_precision(batch, torch.float64)
        assert fine is not None
        assert fine.networks[0].without_masks == (family in UNMASKED)
        plain_logits, finely = batch.logits(keep), fine.logits(keep)
        gradients = [torch.autograd.grad(logits.sum(), keep)[0] for logits in (plain_logits, finely)]
        again = in_half_precision(batch, torch.float64)
    assert torch.allclose(plain_logits, finely, atol=1e-4)
    assert torch.allclose(*gradients, atol=1e-4)
    assert again.networks[0].module is fine.networks[0].module
    assert again.networks[0].without_masks == fine.networks[0].without_masks
    assert module.config._attn_implementation == implementation


class Picky(nn.Module):
    """Works in single precision alone; in any other something goes wrong."""

    def __init__(self, wrong: str) -> None:
        super().__init__()
        self.look, self.wrong = nn.Conv2d(3, 2, 3), wrong

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        output = self.look(pixels).mean((2, 3))
        if self.look.weight.dtype == torch.float32:
            return output
        if self.wrong == "forward":
            raise RuntimeError("only float32")
        if self.wrong == "answer":
            return output + torch.tensor([5.0, 0.0])
        if output.requires_grad:
            output.register_hook(self.back)
        return output

    def back(self, slope: torch.Tensor) -> torch.Tensor:
        if self.wrong == "backward":
            raise RuntimeError("only float32")
        return slope * {"slopes": float("nan"), "way": -1.0}.get(self.wrong, 1.0)


@pytest.mark.parametrize("slopes", [False, True])
@pytest.mark.parametrize("wrong", ["forward", "answer", "backward", "slopes", "way", "nothing"])
def test_a_module_that_minds_is_left_alone(wrong, slopes):
    def prepared(picture):
        return torch.from_numpy(np.asarray(picture.resize((8, 8)), dtype=np.float32) / 255).permute(2, 0, 1)

    model = rationales.load(Picky(wrong).eval(), prepared, labels=["a", "b"])
    batch = model.batch(model.encode([model.read(np.full((8, 8, 3), 90, np.uint8), None)]))
    minds = {"forward", "answer", "backward", "slopes", "way"} if slopes else {"forward", "answer"}
    with model.frozen():
        assert (in_half_precision(batch, torch.float64, gradients=slopes) is None) == (wrong in minds)


class TestPacking:
    def test_a_full_group_takes_no_row_that_is_much_shorter(self):
        cost = [100, 95, 40, 100, 39, 38]
        assert list(pack(cost, 10_000)) == [[0, 3, 1, 2, 4, 5]]
        assert list(pack(cost, 10_000, sufficient_cost=300)) == [[0, 3, 1], [2, 4, 5]]
        assert list(pack(cost, 10_000, sufficient_cost=301)) == [[0, 3, 1, 2], [4, 5]]

    def test_a_full_group_of_equal_rows_takes_no_other(self):
        cost = [100, 95, 100, 94, 100]
        assert list(pack(cost, 10_000, sufficient_cost=300)) == [[0, 2, 4], [1, 3]]
        assert list(pack(cost, 10_000, sufficient_cost=301)) == [[0, 2, 4, 1, 3]]

    def test_the_budget_holds_in_any_case(self):
        assert list(pack([10, 10, 10, 1], 20, sufficient_cost=5)) == [[0, 1], [2], [3]]
