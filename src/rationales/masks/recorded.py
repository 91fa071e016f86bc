"""Steps recorded once as a CUDA graph and played back: nothing waits for Python between its kernels.

A step reads and writes nothing on the host, and all randomness is counted from the step number on the device, so a
recording of one step is every step.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import ClassVar

import torch

from rationales.masks.descent import step
from rationales.masks.objective import Problem
from rationales.masks.state import State

MOST = 2**17  # of a step's cost (rows x tokens); with more the device is busy enough, and memory is dear
WARM = 1  # step before the recording, in which libraries set themselves up
WORTH = 15  # steps at least, or the recording costs more than it saves


class Steps:
    """Takes steps of one problem: played back where that is faster, else one by one."""

    known: ClassVar[set[tuple[type, ...]]] = set()  # kinds of networks that were recorded before, and need no warm-up

    def __init__(self, problem: Problem, cost: int) -> None:
        self.problem = problem
        self.records = problem.batch.device.type == "cuda" and cost <= MOST
        self.graph: torch.cuda.CUDAGraph | None = None
        self.held: State | None = None  # what the recorded step reads and writes
        self.kind = (type(problem.batch), *map(type, problem.batch.modules)) if self.records else ()
        self.warm = WARM if self.kind in self.known else 0

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
        """Record a step. A model that reads from the device on its way cannot be recorded: after a warm-up, give up."""
        held, graph = state.copy(), torch.cuda.CUDAGraph()
        seen, settings = self.problem.seen(state.step).batch, self.problem.settings
        seen.plan(
            2 * (bool(settings.own) + bool(settings.levels)), seen.size[0]
        )  # made on the host: before, not inside
        try:
            with torch.cuda.graph(graph):
                _write(held, step(self.problem, held))
        except RuntimeError:  # out of memory as well
            torch.cuda.synchronize()
            self.records = self.kind in self.known  # once more, after a warm-up
            self.known.discard(self.kind)
            self.warm = 0
            return
        self.known.add(self.kind)
        self.graph, self.held = graph, held


def _write(into: State, state: State) -> None:
    for one in fields(State):
        getattr(into, one.name).copy_(getattr(state, one.name))
