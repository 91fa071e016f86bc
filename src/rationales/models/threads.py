"""How many threads torch computes with: as many as the work is worth, and torch's own number afterwards.

A thread that waits for the next operation does so by running in a circle. While the machine is idle that saves a few
microseconds; while other programs want the cores, threads that wait keep those that work from running, and small
models become many times slower. Small work therefore gets one thread, and larger work one for each `WORK_PER_THREAD`.

The number depends on the work alone, never on how busy the machine is: the same input gives the same bits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from rationales.errors import OptionError

VARIABLE = "RATIONALES_THREADS"  # a number here is taken for any work
WORK_PER_THREAD = 2_000_000_000  # multiplications in one pass of all rows; below, a second thread gains next to nothing


class _Outermost:
    """The blocks of `limited_threads` that are open in this process, and torch's number of threads before the first."""

    lock = threading.Lock()
    blocks = 0
    available = 1


@contextmanager
def limited_threads(work: int) -> Iterator[None]:
    """Inside the block torch has as many threads as `work` multiplications at a time are worth; restored afterwards.

    Blocks may be nested: an inner one can have more threads than the one around it, but none more than torch had before
    the first (which OMP_NUM_THREADS and torch.set_num_threads decide), unless RATIONALES_THREADS names a number.
    """
    with _Outermost.lock:
        before = torch.get_num_threads()
        if not _Outermost.blocks:
            _Outermost.available = before
        count = requested_threads() or worthwhile_threads(work, _Outermost.available)
        _Outermost.blocks += 1
        _set(count)
    try:
        yield
    finally:
        with _Outermost.lock:
            _Outermost.blocks -= 1
            _set(before if _Outermost.blocks else _Outermost.available)


def worthwhile_threads(work: int, available: int) -> int:
    """One thread, and another for each `WORK_PER_THREAD` multiplications; never more than there are."""
    return max(1, min(available, 1 + work // WORK_PER_THREAD))


def weight_count(module: nn.Module) -> int:
    """How many numbers a module has learnt."""
    return sum(weight.numel() for weight in module.parameters())


def requested_threads() -> int | None:
    """The number in RATIONALES_THREADS, if it is set."""
    value = os.environ.get(VARIABLE, "").strip()
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and int(value) > 0):
        raise OptionError(f"{VARIABLE} is a number of threads, 1 or more; not {value!r}")
    return int(value)


def _set(count: int) -> None:
    if count != torch.get_num_threads():
        torch.set_num_threads(count)
