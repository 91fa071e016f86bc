"""Counts the passes of rows through a model, whichever copy of it runs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch


@dataclass(eq=False)
class PassCount:
    """Rows that went through a model forward, and those of them that recorded a graph for a backward pass."""

    forward: int = 0
    backward: int = 0

    @property
    def total(self) -> int:
        """Forward and backward passes together."""
        return self.forward + self.backward


_count: ContextVar[PassCount | None] = ContextVar("pass count", default=None)


@contextmanager
def counted_passes() -> Iterator[PassCount]:
    """Count the passes of all rows inside the block."""
    count = PassCount()
    token = _count.set(count)
    try:
        yield count
    finally:
        _count.reset(token)


def record_passes(rows: int, output: torch.Tensor) -> None:
    """Count `rows` that gave this output, if anything counts."""
    count = _count.get()
    if count is not None:
        count.forward += rows
        count.backward += rows if output.requires_grad else 0
