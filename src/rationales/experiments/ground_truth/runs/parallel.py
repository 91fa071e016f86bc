"""Several runs at once, each in its own process: small networks leave most of an accelerator idle."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager

from rationales.experiments.ground_truth.runs.run_record import RunRecord
from rationales.experiments.ground_truth.runs.run_spec import RunSettings, RunSpec

RunFunction = Callable[[RunSpec, RunSettings, RunRecord | None], RunRecord]  # module level, so that it can be pickled
RunTask = tuple[RunSpec, RunRecord | None]
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # read when libraries are loaded


def completed_runs(
    run: RunFunction,
    settings: RunSettings,
    tasks: Sequence[RunTask],
    jobs: int,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[RunRecord]:
    """Yield the record of every task as soon as it is complete; with one job, in order and in this process.

    No task is started once `stop` returns True; those that have begun are completed.
    """
    if jobs == 1 or len(tasks) < 2:
        for spec, previous in tasks:
            if stop():
                return
            yield run(spec, settings, previous)
        return
    context = multiprocessing.get_context("spawn")  # a process that uses a GPU cannot be forked
    waiting = list(reversed(tasks))
    with _thread_limit(jobs), ProcessPoolExecutor(min(jobs, len(tasks)), context, _start_worker, (jobs,)) as pool:
        running: set[Future[RunRecord]] = set()
        while True:
            while waiting and len(running) < jobs and not stop():
                spec, previous = waiting.pop()
                running.add(pool.submit(run, spec, settings, previous))
            if not running:
                return
            completed, running = wait(running, return_when=FIRST_COMPLETED)
            for future in completed:
                yield future.result()


def _threads_per_job(jobs: int) -> int:
    return max(1, (os.cpu_count() or 1) // jobs)


@contextmanager
def _thread_limit(jobs: int) -> Iterator[None]:
    """Limit the threads of processes that are started inside the block, unless the environment already does.

    Without a limit every process uses all cores, and the threads of many processes mostly wait for each other.
    """
    unset = [name for name in THREAD_VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, str(_threads_per_job(jobs))))
    try:
        yield
    finally:
        for name in unset:
            del os.environ[name]


def _start_worker(jobs: int) -> None:
    """Limit this worker process to its share of the cores and of the accelerator's memory."""
    import torch

    from rationales.models.batch import execution

    torch.set_num_threads(_threads_per_job(jobs))
    execution.GPU_SHARE /= jobs
