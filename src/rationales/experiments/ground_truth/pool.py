"""Several runs at once: small networks leave most of an accelerator idle."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from rationales.experiments.ground_truth.plan import Plan, Setting
from rationales.experiments.ground_truth.record import Record

Run = Callable[[Plan, Setting, Record | None], Record]  # a function of a module, so that another process finds it
Task = tuple[Plan, Record | None]


def finished(run: Run, setting: Setting, tasks: Sequence[Task], jobs: int) -> Iterator[Record]:
    """The records of all tasks, each as soon as it is there; with one job, in order and in this process."""
    if jobs == 1 or len(tasks) < 2:
        for plan, old in tasks:
            yield run(plan, setting, old)
        return
    context = multiprocessing.get_context("spawn")  # a process that uses a GPU cannot be forked
    with ProcessPoolExecutor(min(jobs, len(tasks)), context, _begin, (jobs,)) as pool:
        waiting = [pool.submit(run, plan, setting, old) for plan, old in tasks]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            for one in waiting:
                one.cancel()


def _begin(jobs: int) -> None:
    """In a process of its own: leave the others their share of processors and of the accelerator's memory."""
    import torch

    from rationales.models import memory

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // jobs))
    memory.GPU_SHARE /= jobs
