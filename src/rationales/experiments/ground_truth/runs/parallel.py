"""Several runs at once: small networks leave most of an accelerator idle."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager

from rationales.experiments.ground_truth.runs.run_record import Record
from rationales.experiments.ground_truth.runs.run_spec import Plan, Setting

Run = Callable[[Plan, Setting, Record | None], Record]  # a function of a module, so that another process finds it
Task = tuple[Plan, Record | None]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # read by libraries as they are loaded


def finished(run: Run, setting: Setting, tasks: Sequence[Task], jobs: int) -> Iterator[Record]:
    """The records of all tasks, each as soon as it is there; with one job, in order and in this process."""
    if jobs == 1 or len(tasks) < 2:
        for plan, old in tasks:
            yield run(plan, setting, old)
        return
    context = multiprocessing.get_context("spawn")  # a process that uses a GPU cannot be forked
    with _few_threads(jobs), ProcessPoolExecutor(min(jobs, len(tasks)), context, _begin, (jobs,)) as pool:
        waiting = [pool.submit(run, plan, setting, old) for plan, old in tasks]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            for one in waiting:
                one.cancel()


def _share(jobs: int) -> int:
    """The processors for each of so many processes."""
    return max(1, (os.cpu_count() or 1) // jobs)


@contextmanager
def _few_threads(jobs: int) -> Iterator[None]:
    """Processes begun inside the block multiply matrices with their share of the processors, unless told otherwise.

    Else each would take all of them: the threads of fourteen at once wait for each other most of the time.
    """
    own = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(own, str(_share(jobs))))
    try:
        yield
    finally:
        for name in own:
            del os.environ[name]


def _begin(jobs: int) -> None:
    """In a process of its own: leave the others their share of processors and of the accelerator's memory."""
    import torch

    from rationales.models import memory

    torch.set_num_threads(_share(jobs))
    memory.GPU_SHARE /= jobs
