"""The local engine: shards are explained in this process, or in several that each load the model once."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rationales.corpus.engines import worker_process
from rationales.corpus.engines.division import divided_outcomes
from rationales.corpus.engines.engine import (
    MAX_CRASHES,
    READ_AHEAD,
    SUSPECTS_PER_WORKER,
    SUSPICIOUS_DEATHS,
    OnShare,
    WorkerError,
    WorkerOptions,
    WorkerTask,
    description_of,
)
from rationales.corpus.explaining import ExplainRequest, explain_shard, shard_files
from rationales.corpus.failures import DeviceError
from rationales.corpus.manifest import ShardEntry
from rationales.corpus.shards import Shard
from rationales.models.model import Model

SHARE_SECONDS = 1.0  # between two looks at how far the workers are
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # read when libraries are loaded

logger = logging.getLogger(__name__)


@dataclass
class InProcess:
    """Explains shards one after the other in this process."""

    model: Model
    request: ExplainRequest
    folder: Path
    threads: int

    def describe(self) -> dict[str, Any]:
        """What decides the results beside the request."""
        return description_of(self.model)

    def explained(
        self, shards: Iterator[Shard], provenance: Mapping[str, Any], on_share: OnShare
    ) -> Iterator[ShardEntry]:
        """The entry of every shard, in order."""
        for shard in shards:
            report = partial(_call_back, on_share, shard.index)
            try:
                with _torch_threads(self.threads):
                    explained_shard = explain_shard(self.model, self.request, shard, provenance, report)
            except _CallbackError as error:
                raise error.cause from None
            yield explained_shard.store(self.folder)


class _CallbackError(BaseException):
    """An error of a callback; no Exception, so that it is not taken for one of the model."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


def _call_back(on_share: OnShare, index: int, share: float) -> None:
    try:
        on_share(index, share)
    except Exception as error:
        raise _CallbackError(error) from error


@dataclass
class WorkerPool:
    """Explains shards in several processes; worker i uses device i of the options, in turn."""

    task: WorkerTask
    folder: Path
    options: WorkerOptions
    _pool: ProcessPoolExecutor | None = field(default=None, init=False)
    _crashes: int = field(default=0, init=False)
    _shares: Any = field(default=(), init=False)  # of each worker: index of its shard, share of it that is done

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop()

    def describe(self) -> dict[str, Any]:
        """What decides the results beside the request, from the first worker that has loaded the model."""
        while True:
            try:
                description: dict[str, Any] = self._start().submit(worker_process.describe).result()
            except BrokenProcessPool:
                self._count_crash()
                continue
            return description

    def explained(
        self, shards: Iterator[Shard], provenance: Mapping[str, Any], on_share: OnShare
    ) -> Iterator[ShardEntry]:
        """The entry of every shard as soon as it is stored.

        A shard whose worker died is explained again. Which of the open shards it was is not known: those that were open
        `SUSPICIOUS_DEATHS` times are explained one by one, when all others are finished.
        """
        running: dict[Future[ShardEntry], Shard] = {}
        waiting: deque[Shard] = deque()
        suspects: list[Shard] = []
        deaths: Counter[int] = Counter()  # of workers, by the shards that were open
        open_limit = self.options.workers + READ_AHEAD
        exhausted = False
        while True:
            reading = not exhausted and len(suspects) < SUSPECTS_PER_WORKER * open_limit
            while reading and len(running) + len(waiting) < open_limit:
                shard = next(shards, None)
                if shard is None:
                    reading, exhausted = False, True
                    break
                waiting.append(shard)
                self._submit(waiting, running, provenance)
            self._submit(waiting, running, provenance)
            if not running:
                yield from self._examined(suspects, provenance)
                suspects.clear()
                if exhausted:
                    return
                continue
            died = []
            for future in self._done(running, on_share):
                shard, error = running.pop(future), future.exception()
                if error is None:
                    self._crashes = 0
                    yield future.result()
                elif isinstance(error, (BrokenProcessPool, DeviceError)):
                    died.append(shard)
                else:
                    raise error
            if died:  # the pool ends, and with it what is still running
                self._stop()
                deaths.update(shard.index for shard in died)
                suspects += [shard for shard in died if deaths[shard.index] >= SUSPICIOUS_DEATHS]
                again = [shard for shard in died if deaths[shard.index] < SUSPICIOUS_DEATHS]
                waiting.extendleft(sorted([*again, *running.values()], key=lambda shard: -shard.index))
                running.clear()

    def _done(self, running: Mapping[Future[ShardEntry], Shard], on_share: OnShare) -> list[Future[ShardEntry]]:
        """The shards that are finished, or whose worker died; waits for at least one."""
        while True:
            done, _ = wait(running, SHARE_SECONDS, FIRST_COMPLETED)
            if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
                done, _ = wait(running)  # the others end with the pool
            if done:
                # an error may end the run: what is finished comes first
                return sorted(done, key=lambda future: (future.exception() is not None, running[future].index))
            open_indices = {shard.index for shard in running.values()}
            for index, share in zip(self._shares[::2], self._shares[1::2], strict=True):
                if index in open_indices:
                    on_share(int(index), share)

    def _examined(self, suspects: Sequence[Shard], provenance: Mapping[str, Any]) -> Iterator[ShardEntry]:
        """The entries of shards that may end their worker, explained in a pool of one worker."""
        if suspects:
            self._stop()  # the pool of all workers
        for shard in suspects:
            logger.warning("workers died while shard %d was open; its records are explained alone", shard.index)
            outcomes = divided_outcomes(
                shard.records,
                partial(self._alone, worker_process.explain_records),
                lambda: bool(self._alone(worker_process.survive)),
            )
            yield shard_files(shard, outcomes, provenance).store(self.folder)
        if suspects:
            self._stop()

    def _alone(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a call in a pool of one worker; None where it died."""
        try:
            return self._start(1).submit(function, *arguments).result()
        except (BrokenProcessPool, DeviceError):
            self._stop()
            return None

    def _submit(
        self, waiting: deque[Shard], running: dict[Future[ShardEntry], Shard], provenance: Mapping[str, Any]
    ) -> None:
        while waiting:
            try:
                future = self._start().submit(worker_process.explain, waiting[0], provenance)
            except BrokenProcessPool:
                if running:  # what they were doing tells which shards were open
                    return
                self._count_crash()
                continue
            running[future] = waiting.popleft()

    def _start(self, workers: int | None = None) -> ProcessPoolExecutor:
        """The pool; if there is none, a new one with so many workers, by default those of the options."""
        if self._pool is None:
            workers = workers or self.options.workers
            context = multiprocessing.get_context("spawn")  # a process that uses a GPU cannot be forked
            counter = context.Value("i", 0)
            self._shares = context.RawArray("d", [-1.0, 0.0] * workers)
            arguments = (self.task, self.folder, self.options, counter, self._shares)
            with _thread_variables(self.options.threads):
                self._pool = ProcessPoolExecutor(workers, context, worker_process.start, arguments)
                # all workers start now, while the variables are set
                for _ in range(workers):
                    self._pool.submit(os.getpid)
        return self._pool

    def _count_crash(self) -> None:
        self._stop()
        self._crashes += 1
        if self._crashes > MAX_CRASHES:
            raise WorkerError(
                f"worker processes died {self._crashes} times in a row; the system may be out of memory: use fewer "
                "--workers or a smaller --shard-size. Finished shards are intact; the same command goes on from there"
            )

    def _stop(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _thread_variables(threads: int) -> Iterator[None]:
    """Limit the threads of processes that are started inside the block."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
