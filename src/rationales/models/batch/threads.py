"""The number of torch threads, chosen by the amount of work and restored afterwards.

Idle OpenMP threads spin. That saves microseconds on an idle machine, but on a busy one spinning threads take the cores
from working ones, and small models become many times slower. Small work therefore runs in one thread, and larger work
gets a further one for each `WORK_PER_THREAD`.

The number depends only on the work, never on how busy the machine is: the same input gives the same bits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from rationales.errors import OptionError

VARIABLE = "RATIONALES_THREADS"  # environment variable: number of threads for any work
WORK_PER_THREAD = 200_000_000  # multiplications in a forward pass: about 100 words in the embedded model


class _Outermost:
    """The number of open blocks of `limited_threads`, and of torch's threads before the first."""

    lock = threading.Lock()
    blocks = 0
    available = 1


@contextmanager
def limited_threads(work: int) -> Iterator[None]:
    """Inside the block torch uses as many threads as `work` multiplications are worth; restored on exit.

    Blocks may be nested: an inner block can have more threads than the outer, but never more than torch had before the
    first block (set by OMP_NUM_THREADS or torch.set_num_threads), unless RATIONALES_THREADS is set.
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
    """One thread, and a further one for each `WORK_PER_THREAD` multiplications; at most `available`."""
    return max(1, min(available, 1 + work // WORK_PER_THREAD))


def weight_count(module: nn.Module) -> int:
    """Number of parameters of a module."""
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
