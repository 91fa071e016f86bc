"""Optimiser steps recorded once as a CUDA graph and replayed, without Python between the kernels.

A step reads and writes nothing on the host, and its randomness comes from the step number on the device, so that the
recording of one step serves for all.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import ClassVar

import torch

from rationales.masks.objective import Problem
from rationales.masks.optimizer_state import OptimizerState
from rationales.masks.optimizer_step import step

MAX_COST = 2**17  # of a step (rows x tokens); above it a graph saves little time and needs much memory
WARMUP_STEPS = 1  # before the recording, for the initialisation of libraries
MIN_STEPS = 15  # fewest remaining steps for which a recording saves time


class StepRunner:
    """Runs steps of one problem: replays a CUDA graph where that is faster, else one by one."""

    recorded_kinds: ClassVar[set[tuple[type, ...]]] = set()  # types of networks recorded before, which need no warm-up

    def __init__(self, problem: Problem, cost: int) -> None:
        self.problem = problem
        self.can_record = problem.batch.device.type == "cuda" and cost <= MAX_COST
        self.graph: torch.cuda.CUDAGraph | None = None
        self.graph_state: OptimizerState | None = None  # read and written by the recorded step
        self.network_kinds = (type(problem.batch), *map(type, problem.batch.modules)) if self.can_record else ()
        self.warmup_done = WARMUP_STEPS if self.network_kinds in self.recorded_kinds else 0

    def run(self, state: OptimizerState, count: int, remaining: int) -> OptimizerState:
        """State after `count` more steps; `remaining`: the largest number of steps to come, these included."""
        while count and (self.graph is None or self.graph_state is None):
            if self.can_record and self.warmup_done >= WARMUP_STEPS and remaining >= MIN_STEPS:
                self._record(state)
                continue
            state = self.problem.batch.fit(partial(step, self.problem, state))
            self.warmup_done, count, remaining = self.warmup_done + 1, count - 1, remaining - 1
        if not count or self.graph is None or self.graph_state is None:
            return state
        _copy_into(self.graph_state, state)
        for _ in range(count):
            self.graph.replay()
        return self.graph_state.copy()

    def _record(self, state: OptimizerState) -> None:
        """Record a step; a model that reads from the device cannot be recorded, which shows after a warm-up."""
        graph_state, graph = state.copy(), torch.cuda.CUDAGraph()
        step_batch, settings = self.problem.on_step_views(state.step).batch, self.problem.settings
        variants = 2 * (bool(settings.mask_weight) + bool(settings.level_weight))
        step_batch.plan(variants, step_batch.size[0])  # on the host, so before the recording
        try:
            with torch.cuda.graph(graph):
                _copy_into(graph_state, step(self.problem, graph_state))
        except RuntimeError:  # also when out of memory
            torch.cuda.synchronize()
            self.can_record = self.network_kinds in self.recorded_kinds  # try again after a warm-up
            self.recorded_kinds.discard(self.network_kinds)
            self.warmup_done = 0
            return
        self.recorded_kinds.add(self.network_kinds)
        self.graph, self.graph_state = graph, graph_state


def _copy_into(destination: OptimizerState, state: OptimizerState) -> None:
    for spec in fields(OptimizerState):
        getattr(destination, spec.name).copy_(getattr(state, spec.name))
