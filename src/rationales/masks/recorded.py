"""Steps recorded once as a CUDA graph and played back: nothing waits for Python between its kernels.

A step reads and writes nothing on the host, and all randomness is counted from the step number on the device, so a
recording of one step is every step.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial

import torch

from rationales.masks.descent import step
from rationales.masks.objective import Problem
from rationales.masks.state import State

MOST = 2**20  # of a step's cost (rows x tokens); with more, the device is busy enough
WARM = 1  # step before the recording, in which libraries set themselves up
WORTH = 15  # steps at least, or the recording costs more than it saves


class Steps:
    """Takes steps of one problem: played back where that is faster, else one by one."""

    def __init__(self, problem: Problem, cost: int) -> None:
        self.problem = problem
        self.records = problem.batch.device.type == "cuda" and cost <= MOST
        self.graph: torch.cuda.CUDAGraph | None = None
        self.held: State | None = None  # what the recorded step reads and writes
        self.warm = 0

    def take(self, state: State, count: int, left: int) -> State:
        """The state after `count` more steps; `left` steps may still come, these included."""
        while count and (self.graph is None or self.held is None):
            if self.records and self.warm >= WARM and left >= WORTH:
                self._record(state)
                continue
            state = self.problem.batch.fit(partial(step, self.problem, state))
            self.warm, count, left = self.warm + 1, count - 1, left - 1
        if not count or self.graph is None or self.held is None:
            return state
        _write(self.held, state)
        for _ in range(count):
            self.graph.replay()
        return self.held.copy()

    def _record(self, state: State) -> None:
        """Record a step, or never try again: a model that reads from the device on its way cannot be recorded."""
        held, graph = state.copy(), torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                _write(held, step(self.problem, held))
        except RuntimeError:  # out of memory as well
            self.records = False
            torch.cuda.synchronize()
            return
        self.graph, self.held = graph, held


def _write(into: State, state: State) -> None:
    for one in fields(State):
        getattr(into, one.name).copy_(getattr(state, one.name))
