"""A worker process of the local engine: what it does when it starts, and what is called in it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rationales.corpus.engines.engine import WorkerOptions, WorkerTask, description_of
from rationales.corpus.explaining import Outcomes, explain_control, explain_shard, record_outcomes
from rationales.corpus.manifest import ShardEntry
from rationales.corpus.memory import bound_memory, freeze_objects
from rationales.corpus.records import Record
from rationales.corpus.shards import Shard
from rationales.models.batch import execution
from rationales.models.model import Model


class Worker:
    """State of this worker process; the model is loaded with the first task, whose caller gets an error of loading."""

    task: WorkerTask
    folder: Path
    model: Model | None = None
    shares: Any  # of all workers
    number: int


def start(task: WorkerTask, folder: Path, options: WorkerOptions, counter: Any, shares: Any) -> None:
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
    Worker.task = replace(task, source=replace(task.source, device=device))
    Worker.folder, Worker.shares, Worker.number = folder, shares, number


def loaded_model() -> Model:
    """The model of this worker, loaded once."""
    if Worker.model is None:
        Worker.model = Worker.task.source.load()
        freeze_objects()
    return Worker.model


def _end_with_parent() -> None:
    """End this process when its parent ends, even if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def describe() -> dict[str, Any]:
    """What decides the results in this process."""
    return description_of(loaded_model())


def explain(shard: Shard, provenance: Mapping[str, Any]) -> ShardEntry:
    """Explain a shard and store it."""
    _report_share(shard.index, 0.0)
    on_share = partial(_report_share, shard.index)
    return explain_shard(loaded_model(), Worker.task.request, shard, provenance, on_share).store(Worker.folder)


def _report_share(index: int, share: float) -> None:
    Worker.shares[2 * Worker.number : 2 * Worker.number + 2] = [index, share]


def explain_records(records: Sequence[Record]) -> Outcomes:
    """Explain some records of a shard, and store nothing."""
    return record_outcomes(loaded_model(), Worker.task.request, records)


def survive() -> bool:
    """Explain a plain input, and return unless that ends this process."""
    explain_control(loaded_model(), Worker.task.request)
    return True
