"""What every engine is: something that explains shards, wherever the work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rationales.corpus.explaining import ExplainRequest, ModelSource, describe_model
from rationales.corpus.manifest import ShardEntry
from rationales.corpus.settings import versions
from rationales.corpus.shards import Shard
from rationales.errors import OptionError, RationalesError
from rationales.models.model import Model

MAX_CRASHES = 3  # of workers in a row that have not loaded the model yet
READ_AHEAD = 1  # shards that wait for a worker
SUSPICIOUS_DEATHS = 2  # of workers; a shard that was open each time is explained alone, after all others
SUSPECTS_PER_WORKER = 4  # shards; if there are more, they are explained before any other

OnShare = Callable[[int, float], None]  # called with the index of an open shard and the share of its work that is done


class WorkerError(RationalesError):
    """Workers keep dying, cannot be started, or differ from each other."""


class Engine(Protocol):
    """Explains shards; several may be open at once, and they may be finished in any order."""

    def describe(self) -> dict[str, Any]:
        """What decides the results beside the request: `model` and `versions`."""

    def explained(
        self, shards: Iterator[Shard], provenance: Mapping[str, Any], on_share: OnShare
    ) -> Iterator[ShardEntry]:
        """The entry of every shard as soon as it is stored; shards are taken from the iterator as needed."""


@dataclass(frozen=True)
class WorkerOptions:
    """How many workers there are and what each of them has."""

    workers: int = 1
    threads: int = 1
    devices: tuple[str | None, ...] = (None,)  # given to the workers in turn
    gpus_per_worker: float = 1.0  # on Ray, with a device other than the CPU
    address: str | None = None  # of a Ray cluster; None: RAY_ADDRESS or a local instance
    pinned_threads: int | None = None  # value of RATIONALES_THREADS


@dataclass(frozen=True)
class WorkerTask:
    """What every worker is told once, when it starts."""

    source: ModelSource
    request: ExplainRequest


def description_of(model: Model) -> dict[str, Any]:
    """What decides the results where this model was loaded."""
    return {"model": describe_model(model), "versions": versions()}


def device_names(device: str | None, workers: int, gpu_count: int) -> tuple[str | None, ...]:
    """The devices of `--device`, to be given to workers in turn; "cuda" alone stands for every GPU of this machine."""
    names = tuple(name.strip() or None for name in device.split(",")) if device else (None,)
    if names == ("cuda",) and workers > 1 and gpu_count > 1:
        return tuple(f"cuda:{number}" for number in range(min(gpu_count, workers)))
    if len(names) > workers:
        raise OptionError(f"{len(names)} devices for {workers} workers; give at least one worker for each device")
    return names
