"""Runs the steps of an optimisation: one by one, on a GPU as replays of a recorded step, and on a CPU the warm-up.

During the warm-up the field does not change, so that the gradients of its steps can be collected together. A step of a
short text has few tokens, for which matrix products are slow on a CPU; several steps have more. In an image the mask
itself is the same in all of these steps.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from rationales.masks.objective import Problem, keeps_per_step, loss
from rationales.masks.optimizer import OptimizerState, StepMasks, field_of, step, step_masks, warmup_step
from rationales.masks.settings import BOUNDED_FIELDS, MaskSettings
from rationales.models.batch import Batch, Noise
from rationales.models.batch.execution import PassCount, counted_passes, record_replays

MAX_COST = 2**17  # of a step (rows x tokens); above it a graph saves little time and needs much memory
WARMUP_STEPS = 1  # before the recording, for the initialisation of libraries
MIN_STEPS = 5  # fewest remaining steps for which a recording saves time


class StepRunner:
    """Runs steps of one problem: replays a CUDA graph where that is faster, else one by one."""

    recorded_kinds: ClassVar[set[tuple[type, ...]]] = set()  # types of networks recorded before, which need no warm-up

    def __init__(self, problem: Problem, cost: int, warmed_up: bool = False) -> None:
        self.problem = problem
        self.warmed_up = warmed_up  # all inputs have done the steps of the warm-up
        self.can_record = problem.batch.device.type == "cuda" and cost <= MAX_COST
        self.graph: torch.cuda.CUDAGraph | None = None
        self.graph_state: OptimizerState | None = None  # read and written by the recorded step
        self.step_passes = PassCount()  # of the recorded step
        self.network_kinds = (type(problem.batch), *map(type, problem.batch.modules)) if self.can_record else ()
        self.warmup_done = WARMUP_STEPS if self.network_kinds in self.recorded_kinds else 0

    def run(self, state: OptimizerState, count: int, remaining: int) -> OptimizerState:
        """State after `count` more steps; `remaining`: the largest number of steps to come, these included."""
        while count and (self.graph is None or self.graph_state is None):
            if self.can_record and self.warmup_done >= WARMUP_STEPS and remaining >= MIN_STEPS:
                self._record(state)
                continue
            state = self.problem.batch.fit(partial(step, self.problem, state, self.warmed_up))
            self.warmup_done, count, remaining = self.warmup_done + 1, count - 1, remaining - 1
        if not count or self.graph is None or self.graph_state is None:
            return state
        _copy_into(self.graph_state, state)
        for _ in range(count):
            self.graph.replay()
        record_replays(self.step_passes, count)
        return self.graph_state.copy()

    def _record(self, state: OptimizerState) -> None:
        """Record a step; a model that reads from the device cannot be recorded, which shows after a warm-up."""
        graph_state, graph = state.copy(), torch.cuda.CUDAGraph()
        self.problem.keys  # noqa: B018  # computed here, not in every replay
        for batch in (self.problem.batch, self.problem.on_step_views(state.step).batch):
            batch.prepare(keeps_per_step(self.problem.settings))
        try:
            with counted_passes() as step_passes, torch.cuda.graph(graph):
                _copy_into(graph_state, step(self.problem, graph_state, self.warmed_up))
        except RuntimeError:  # also when out of memory
            torch.cuda.synchronize()
            self.can_record = self.network_kinds in self.recorded_kinds  # try again after a warm-up
            self.recorded_kinds.discard(self.network_kinds)
            self.warmup_done = 0
            return
        self.recorded_kinds.add(self.network_kinds)
        self.graph, self.graph_state, self.step_passes = graph, graph_state, step_passes


def _copy_into(destination: OptimizerState, state: OptimizerState) -> None:
    for spec in fields(OptimizerState):
        getattr(destination, spec.name).copy_(getattr(state, spec.name))


# rows x tokens of a pass, by device: more of them do not make it faster
SUFFICIENT_COST = {"cpu": 2**10, "cuda": 2**15}


def collects_at_once(batch: Batch, settings: MaskSettings) -> bool:
    """Whether `collect_warmup` replaces the steps of the warm-up: where no rule looks at them, and it is faster.

    On a GPU that is where all of them fit into one pass, whose kernels are then launched once.
    """
    steps_alone_count = settings.stop == "steps" and settings.field not in BOUNDED_FIELDS
    if not steps_alone_count or not 1 < settings.warmup_steps < settings.steps or settings.precision == "bfloat16":
        return False
    if batch.device.type == "cpu":
        return batch.pixel_grid is None or _repeats_masks(settings)
    return batch.pixel_grid is None and steps_at_once(batch, settings) >= settings.warmup_steps


def steps_at_once(batch: Batch, settings: MaskSettings) -> int:
    """Number of steps whose masks go through the model together in the warm-up."""
    cost = keeps_per_step(settings) * sum(batch.cost())
    return max(1, SUFFICIENT_COST.get(batch.device.type, 0) // max(1, cost))


def collect_warmup(problem: Problem, state: OptimizerState) -> OptimizerState:
    """The state after all steps of the warm-up, from the state before the first."""
    settings = problem.settings
    collect = _collect_on_line if problem.batch.pixel_grid is None else _collect_on_grid
    last = replace(state, step=torch.full_like(state.step, settings.warmup_steps - 1))
    return warmup_step(problem, last, (collect(problem, state), torch.zeros_like(state.sigma)), last.step + 1)


def _collect_on_line(problem: Problem, state: OptimizerState) -> Tensor:
    """(M, s): the sum of the gradients by w of all steps, several of them in a pass of the model."""
    settings = problem.settings
    at_once = steps_at_once(problem.batch, settings)
    total = torch.zeros_like(state.w)
    for begin in range(0, settings.warmup_steps, at_once):
        steps = range(begin, min(begin + at_once, settings.warmup_steps))
        total += problem.batch.fit(partial(_gradient_of_steps, problem, state, steps))
    return total


def _repeats_masks(settings: MaskSettings) -> bool:
    """Whether the mask itself, beside that at a drawn size, is the same in all steps on one baseline."""
    return bool(settings.mask_weight and settings.level_weight) and settings.noise == 0 == settings.flip_share


def _collect_on_grid(problem: Problem, state: OptimizerState) -> Tensor:
    """(M, s): the sum of the gradients by w of all steps; that of the mask itself is computed once for a baseline."""
    settings = problem.settings
    of_mask = replace(settings, level_weight=0.0)
    of_level = replace(settings, mask_weight=0.0, neighbour_weight=0.0)
    period = problem.batch.views if settings.views == "turn" else 1  # steps until a baseline's turn comes again
    total = torch.zeros_like(state.w)
    for number in range(settings.warmup_steps):
        step_problem = problem.on_step_views(torch.full_like(state.step, number))
        gradient = partial(_gradient_of_steps, state=state, steps=range(number, number + 1))
        total += problem.batch.fit(partial(gradient, replace(step_problem, settings=of_level)))
        if number < period:
            visits = len(range(number, settings.warmup_steps, period))
            total += visits * problem.batch.fit(partial(gradient, replace(step_problem, settings=of_mask)))
    return total


def _gradient_of_steps(problem: Problem, state: OptimizerState, steps: range) -> Tensor:
    """(M, s): the sum of the gradients by w of these steps."""
    batch, settings = problem.batch, problem.settings
    with torch.enable_grad():
        w = state.w.detach().requires_grad_()
        z = field_of(batch, settings, w, state.sigma, state.anchor)
        if settings.mask_weight == 0:  # the steps differ in their draws alone
            draws = torch.arange(steps.start * settings.draws, steps.stop * settings.draws, device=w.device)
            masks = step_masks(problem, z, state.step, draws=draws[:, None].expand(-1, len(w)))
            together = replace(problem, settings=replace(settings, draws=len(draws)))
            mean_loss = loss(together, batch.logits(masks.keeps, masks.noise), masks.keep, state.sigma)
            return len(steps) * torch.autograd.grad(mean_loss.sum(), w)[0]
        by_step = [step_masks(problem, z, torch.full_like(state.step, number)) for number in steps]
        logits = batch.logits(torch.cat([masks.keeps for masks in by_step]), _noise_of_steps(by_step))
        losses = [
            loss(problem, step_logits, masks.keep, state.sigma).sum()
            for step_logits, masks in zip(logits.chunk(len(by_step)), by_step, strict=True)
        ]
        return torch.autograd.grad(torch.stack(losses).sum(), w)[0]


def _noise_of_steps(masks: list[StepMasks]) -> Noise | None:
    noises = [step.noise for step in masks if step.noise is not None]
    return Noise(noises[0].scale, torch.cat([noise.key for noise in noises])) if noises else None
