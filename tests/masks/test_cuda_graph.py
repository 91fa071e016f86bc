"""Recorded steps are the steps; what cannot be recorded is run."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

import pytest
import torch
from families import tiny
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import rationales
from rationales.masks import objective, steps
from rationales.masks.objective import Problem, keeps_per_step
from rationales.masks.optimize import optimize
from rationales.masks.optimizer import OptimizerState
from rationales.masks.settings import DEFAULT, MaskSettings
from rationales.masks.steps import StepRunner
from rationales.models.batch.execution import counted_passes


def problem(device="cpu", module=None, tokenizer=None):
    if module is None:
        module, tokenizer = tiny("bert")
    model = rationales.load(module.to(device), tokenizer)
    batch = model.batch(model.encode([model.read(text, None) for text in ("one good film", "a bad and long day")]))
    return model, batch, torch.zeros(2, dtype=torch.long, device=device)


def test_the_edge_is_found_by_halving_and_by_many_places_at_once(monkeypatch):
    model, batch, _ = problem()
    z = torch.randn(batch.masks, batch.size[1], generator=torch.Generator().manual_seed(1))
    level = torch.tensor([0.3, 0.7])
    masks = []
    for points in (1, 3, 15):
        monkeypatch.setitem(objective.POINTS, "cpu", points)
        masks.append(objective.at_level(z, batch, level, 0.3))
    assert torch.allclose(masks[0], masks[1], atol=1e-3)
    assert torch.allclose(masks[0], masks[2], atol=1e-3)
    assert model.labels


def test_replays_are_counted_as_passes_and_the_recording_is_not(monkeypatch):
    class Graph:
        def replay(self) -> None:
            pass

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", nullcontext)
    model, batch, target = problem()
    settings = DEFAULT.on(None)
    rows = keeps_per_step(settings) * batch.size[0]
    with model.frozen():
        state = OptimizerState.start(batch, settings, None).copy()
        runner = StepRunner(Problem.of(batch, target, settings), cost=1)
        runner.can_record, runner.warmup_done = True, steps.WARMUP_STEPS
        with counted_passes() as passes:
            runner.run(state, count=7, remaining=steps.MIN_STEPS)
    assert (passes.forward, passes.backward) == (7 * rows, 7 * rows)


class NothingComputed(TorchDispatchMode):
    """Every result is NaN, as memory may be to which a recording has written nothing."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        storages = {value.untyped_storage().data_ptr() for value in args if isinstance(value, torch.Tensor)}
        new = isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in storages  # no view
        if new and result.is_floating_point():
            result.fill_(torch.nan)
        return result


def test_a_recording_that_fails_leaves_nothing_behind(monkeypatch):
    """What a batch computes once and keeps must not come from a recording, in which nothing is computed."""

    @contextmanager
    def failing_graph(_graph):
        with NothingComputed():
            yield
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", failing_graph)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    settings = DEFAULT.on(None)
    states = []
    for records in (False, True):
        model, batch, target = problem()
        with model.frozen():
            state = OptimizerState.start(batch, settings, None).copy()
            runner = StepRunner(Problem.of(batch, target, settings), cost=1)
            if records:
                runner.can_record, runner.warmup_done = True, steps.WARMUP_STEPS
            states.append(runner.run(state, count=2, remaining=steps.MIN_STEPS))
        assert runner.graph is None
    plain, after_failure = states
    assert torch.equal(plain.w_mean, after_failure.w_mean)
    assert plain.w_mean.abs().max() > 0


@pytest.mark.gpu
class TestOnACard:
    settings = MaskSettings(**{**DEFAULT.__dict__, "precision": "full", "stop": "steps"})

    def run(self, batch, model, target, max_cost, monkeypatch):
        monkeypatch.setattr(steps, "MAX_COST", max_cost)
        with model.frozen():
            return optimize(batch, target, self.settings).keep

    def test_played_back_is_the_same_as_one_by_one(self, monkeypatch):
        model, batch, target = problem("cuda")
        single_steps, replayed = (self.run(batch, model, target, max_cost, monkeypatch) for max_cost in (0, 10**9))
        assert torch.allclose(single_steps, replayed, atol=1e-4)

    def test_as_many_passes_are_counted_as_one_by_one(self, monkeypatch):
        model, batch, target = problem("cuda")
        counts = []
        for max_cost in (0, 10**9):
            with counted_passes() as passes:
                self.run(batch, model, target, max_cost, monkeypatch)
            counts.append((passes.forward, passes.backward))
        assert counts[0] == counts[1]

    def test_a_model_that_reads_on_its_way_is_run_step_by_step(self, monkeypatch):
        module, tokenizer = tiny("bert")

        class Reads(nn.Module):
            config = module.config

            def __init__(self) -> None:
                super().__init__()
                self.inner = module

            def get_input_embeddings(self):
                return self.inner.get_input_embeddings()

            def forward(self, input_ids, attention_mask=None, token_type_ids=None):
                output = self.inner(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
                assert float(output.logits.sum()) == float(output.logits.sum())
                return output

        model, batch, target = problem("cuda", Reads().eval(), tokenizer)
        output = self.run(batch, model, target, 10**9, monkeypatch)
        assert torch.isfinite(output).all()
        assert torch.allclose(output, self.run(batch, model, target, 0, monkeypatch), atol=1e-4)

    def test_scores_do_not_depend_on_what_was_in_memory_before(self, monkeypatch):
        """A recorded step gets memory of its own from the device, with whatever an earlier use left there."""
        keeps = []
        for value in (0.0, float("nan"), float("inf")):
            model, batch, target = problem("cuda")
            settings = MaskSettings(**{**DEFAULT.__dict__, "stop": "steps"})
            StepRunner.recorded_kinds.add((type(batch), *map(type, batch.modules)))  # no step before the recording
            leftover = torch.full((2**28,), value, device="cuda")
            del leftover
            torch.cuda.empty_cache()
            with model.frozen():
                keeps.append(optimize(batch, target, settings).keep)
        assert all(torch.isfinite(keep).all() for keep in keeps)
        assert all(torch.equal(keep, keeps[0]) for keep in keeps)
