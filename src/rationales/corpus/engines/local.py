"""The local engine: shards are explained in this process, or in several that each load the model once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from rationales.corpus.engines.engine import (
    MAX_CRASHES,
    READ_AHEAD,
    WorkerError,
    WorkerOptions,
    WorkerTask,
    description_of,
)
from rationales.corpus.explaining import ExplainRequest, explain_shard
from rationales.corpus.manifest import ShardEntry
from rationales.corpus.memory import bound_memory, freeze_objects
from rationales.corpus.shards import Shard
from rationales.models.batch import execution
from rationales.models.model import Model

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # read when libraries are loaded


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

    def explained(self, shards: Iterator[Shard], provenance: Mapping[str, Any]) -> Iterator[ShardEntry]:
        """The entry of every shard, in order."""
        for shard in shards:
            with _torch_threads(self.threads):
                explained_shard = explain_shard(self.model, self.request, shard, provenance)
            yield explained_shard.store(self.folder)


@dataclass
class WorkerPool:
    """Explains shards in several processes; worker i uses device i of the options, in turn."""

    task: WorkerTask
    folder: Path
    options: WorkerOptions
    _pool: ProcessPoolExecutor | None = field(default=None, init=False)
    _crashes: int = field(default=0, init=False)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop()

    def describe(self) -> dict[str, Any]:
        """What decides the results beside the request, from the first worker that has loaded the model."""
        while True:
            try:
                description: dict[str, Any] = self._start().submit(_describe).result()
            except BrokenProcessPool:
                self._count_crash()
                continue
            return description

    def explained(self, shards: Iterator[Shard], provenance: Mapping[str, Any]) -> Iterator[ShardEntry]:
        """The entry of every shard as soon as it is stored. A shard whose worker died is explained again."""
        open_shards: dict[Future[ShardEntry], Shard] = {}
        retries: list[Shard] = []
        exhausted = False
        while True:
            while not exhausted and not retries and len(open_shards) < self.options.workers + READ_AHEAD:
                shard = next(shards, None)
                if shard is None:
                    exhausted = True
                    break
                retries.append(shard)
                self._submit(retries, open_shards, provenance)
            self._submit(retries, open_shards, provenance)
            if not open_shards and not retries:
                return
            done, _ = wait(open_shards, return_when=FIRST_COMPLETED)
            for future in done:
                shard = open_shards.pop(future)
                try:
                    entry = future.result()
                except BrokenProcessPool:
                    retries.append(shard)
                    continue
                self._crashes = 0
                yield entry
            if retries:  # the pool is broken: every open shard is to be explained again
                retries += open_shards.values()
                open_shards.clear()
                retries.sort(key=lambda shard: shard.index)
                self._count_crash()

    def _submit(
        self, waiting: list[Shard], open_shards: dict[Future[ShardEntry], Shard], provenance: Mapping[str, Any]
    ) -> None:
        while waiting:
            try:
                future = self._start().submit(_explain, waiting[0], provenance)
            except BrokenProcessPool:
                self._count_crash()
                continue
            open_shards[future] = waiting.pop(0)

    def _start(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # a process that uses a GPU cannot be forked
            counter = context.Value("i", 0)
            arguments = (self.task, self.folder, self.options, counter)
            with _thread_variables(self.options.threads):
                self._pool = ProcessPoolExecutor(self.options.workers, context, _start_worker, arguments)
                # all workers start now, while the variables are set
                for _ in range(self.options.workers):
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


class _Worker:
    """State of this worker process; the model is loaded with the first task, whose caller gets an error of loading."""

    task: WorkerTask
    folder: Path
    model: Model | None = None


def _start_worker(task: WorkerTask, folder: Path, options: WorkerOptions, counter: Any) -> None:
    """Prepare this worker process: its device, its threads, and that it ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with counter.get_lock():
        number = counter.value
        counter.value += 1
    bound_memory()
    torch.set_num_threads(options.threads)
    execution.GPU_SHARE /= -(-options.workers // len(options.devices))
    device = options.devices[number % len(options.devices)]
    _Worker.task = replace(task, source=replace(task.source, device=device))
    _Worker.folder = folder


def _model() -> Model:
    """The model of this worker, loaded once."""
    if _Worker.model is None:
        _Worker.model = _Worker.task.source.load()
        freeze_objects()
    return _Worker.model


def _end_with_parent() -> None:
    """End this process when its parent ends, even if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _describe() -> dict[str, Any]:
    return description_of(_model())


def _explain(shard: Shard, provenance: Mapping[str, Any]) -> ShardEntry:
    return explain_shard(_model(), _Worker.task.request, shard, provenance).store(_Worker.folder)


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
