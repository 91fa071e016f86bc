"""The warm-up of several steps in one pass is the warm-up step by step."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from families import tiny
from masks.test_levels import TEXTS, batch_of

import rationales
from rationales.masks import steps as warmup
from rationales.masks.objective import Problem
from rationales.masks.optimize import fast_precision, optimize
from rationales.masks.optimizer import OptimizerState, step
from rationales.masks.settings import CLAUSES, DEFAULT, IMAGE
from rationales.masks.sizes import size_candidates, size_probabilities
from rationales.models.text.tokens import TextInput

SETTINGS = {
    "default": DEFAULT,
    "three draws": replace(DEFAULT, draws=3),
    "clauses": CLAUSES,
    "with the mask itself": replace(DEFAULT, field="gaussian", mask_weight=0.5, draws=2),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("cost", [1, 200, 10**6])
def test_equals_single_steps(name, cost, monkeypatch):
    monkeypatch.setattr(warmup, "SUFFICIENT_COST", {"cpu": cost})
    model, batch = batch_of(TEXTS)
    settings = replace(SETTINGS[name], warmup_steps=5, steps=15).on(None)
    with model.frozen():
        problem = Problem.of(batch, torch.tensor([0, 1, 0]), settings)
        start = OptimizerState.start(batch, settings)
        expected = start
        for _ in range(settings.warmup_steps):
            expected = step(problem, expected)
        actual = warmup.collect_warmup(problem, start)
    for spec in fields(OptimizerState):
        torch.testing.assert_close(getattr(actual, spec.name), getattr(expected, spec.name), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", SETTINGS)
def test_after_the_warm_up_a_step_is_one_of_adam(name):
    model, batch = batch_of(TEXTS)
    settings = replace(SETTINGS[name], warmup_steps=2, steps=9).on(None)
    with model.frozen():
        problem = Problem.of(batch, torch.tensor([0, 1, 0]), settings)
        state = warmup.collect_warmup(problem, OptimizerState.start(batch, settings))
        with_warmup, without = (step(problem, step(problem, state, flag), flag) for flag in (False, True))
    for spec in fields(OptimizerState):
        torch.testing.assert_close(getattr(without, spec.name), getattr(with_warmup, spec.name))


@pytest.mark.parametrize("views", ["turn", "all"])
@pytest.mark.parametrize("initial_w", [0.0, 0.4])
def test_equals_single_steps_on_pictures(views, initial_w):
    pytest.importorskip("PIL")
    from models.image.test_model import detector, scene

    model = detector(baselines=["black", "mean"])
    model.module.double()
    changes = {"cell": 4, "initial_sigma": 6.0, "initial_w": initial_w, "neighbour_weight": 0.5, "views": views}
    settings = replace(IMAGE, warmup_steps=5, steps=15, **changes).on((32, 32))
    batch = model.batch(model.encode([model.read(scene(left=left), None) for left in (2, 14)]))
    assert warmup.collects_at_once(batch, settings)
    assert not warmup.collects_at_once(batch, replace(settings, noise=0.1))
    with model.frozen():
        problem = Problem.of(batch, torch.tensor([1, 0]), settings)
        start = OptimizerState.start(batch, settings)
        expected = start
        for _ in range(settings.warmup_steps):
            expected = step(problem, expected)
        actual = warmup.collect_warmup(problem, start)
    for spec in fields(OptimizerState):
        torch.testing.assert_close(getattr(actual, spec.name), getattr(expected, spec.name), rtol=1e-9, atol=1e-11)


def test_steps_that_a_rule_looks_at_are_taken_one_by_one():
    _, batch = batch_of(TEXTS)
    assert warmup.collects_at_once(batch, DEFAULT.on(None))
    assert not warmup.collects_at_once(batch, replace(DEFAULT, stop="plateau").on(None))
    assert not warmup.collects_at_once(batch, replace(DEFAULT, warmup_steps=0).on(None))


def test_steps_are_counted(monkeypatch):
    model, batch = batch_of(TEXTS)
    settings = replace(DEFAULT, steps=9, warmup_steps=3)
    shares = []
    with model.frozen():
        result = optimize(batch, torch.tensor([0, 1, 0]), settings, shares.append)
    assert result.steps == [9, 9, 9]
    assert result.stop == ["steps"] * 3
    assert shares[-1] == 1.0


class TestSizes:
    def test_orders_asked_about_together_as_alone(self):
        model, batch = batch_of(TEXTS[1:2])
        generator = torch.Generator().manual_seed(0)
        orders = [torch.randn((1, batch.size[1]), generator=generator, dtype=batch.dtype) for _ in range(2)]
        target, candidates = torch.tensor([1]), size_candidates(batch)
        with model.frozen(), torch.no_grad():
            together = size_probabilities([*orders, orders[0]], batch, target, candidates)
            alone = [size_probabilities([order], batch, target, candidates)[0] for order in (*orders, orders[0])]
        for one_of_all, single in zip(together, alone, strict=True):
            for spec in fields(single):
                torch.testing.assert_close(getattr(one_of_all, spec.name), getattr(single, spec.name))

    def test_equal_selections_go_through_the_model_once(self, monkeypatch):
        model, batch = batch_of(TEXTS[1:2])
        order = torch.arange(batch.size[1], dtype=batch.dtype)[None]
        rows = []
        plain_logits = type(batch).logits

        def counted(self, keep, noise=None):
            rows.append(len(keep))
            return plain_logits(self, keep, noise)

        monkeypatch.setattr(type(batch), "logits", counted)
        with model.frozen(), torch.no_grad():
            size_probabilities([order, 2 * order], batch, torch.tensor([1]), size_candidates(batch))
        assert sum(rows) <= 2 * batch.size[1] + 2  # each size and its complement, the full text and the baseline


class TestCopyOnACpu:
    @pytest.mark.parametrize("texts", [TEXTS[1:2], TEXTS])
    @pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
    def test_logits_and_gradients_are_the_same(self, family, texts):
        module, tokenizer = tiny(family)
        model = rationales.load(module, tokenizer)
        batch = model.batch(model.encode([TextInput(text) for text in texts]))
        keep = torch.rand(batch.size, generator=torch.Generator().manual_seed(0)).requires_grad_()
        with model.frozen():
            copied, settings = fast_precision(batch, DEFAULT)
            assert copied is not batch
            assert settings.precision == "full"
            pairs = []
            for side in (batch, copied):
                logits = side.logits(keep)
                pairs.append((logits.detach(), torch.autograd.grad(logits[:, 0].sum(), keep)[0]))
        for expected, actual in zip(*pairs, strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)

    def test_weights_are_shared_and_left_as_they_were(self):
        module, tokenizer = tiny("bert")
        model = rationales.load(module, tokenizer)
        batch = model.batch(model.encode([TextInput("a good film")]))
        names = [type(submodule).__name__ for submodule in module.modules()]
        with model.frozen():
            copied, _ = fast_precision(batch, DEFAULT)
        original, shared = ({weight.data_ptr() for weight in side.modules[0].parameters()} for side in (batch, copied))
        assert original == shared
        assert all(weight.requires_grad for weight in module.parameters())
        assert [type(submodule).__name__ for submodule in module.modules()] == names
        assert module.config._attn_implementation == "sdpa"

    def test_none_where_it_is_not_faster(self):
        model, batch = batch_of(["a good film"])  # in double precision
        with model.frozen():
            assert fast_precision(batch, DEFAULT)[0] is batch
        module, tokenizer = tiny("bert")
        single = rationales.load(module, tokenizer)
        plain = single.batch(single.encode([TextInput("a good film")]))
        assert fast_precision(plain, replace(DEFAULT, precision="full"))[0] is plain


@pytest.mark.gpu
@pytest.mark.parametrize("draws", [1, 3])
def test_on_a_card_one_pass_is_the_steps(draws, monkeypatch):
    from masks.test_cuda_graph import problem as tiny_problem

    model, batch, target = tiny_problem("cuda")
    settings = replace(DEFAULT, precision="full", draws=draws, steps=12)
    results = []
    for cost in (0, 2**15):  # step by step, and at once
        monkeypatch.setitem(warmup.SUFFICIENT_COST, "cuda", cost)
        with model.frozen():
            assert warmup.collects_at_once(batch, settings.on(None)) == (cost > 0)
            results.append(optimize(batch, target, settings).field)
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-3)
