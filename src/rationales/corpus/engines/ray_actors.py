"""The Ray engine: shards are explained by actors on the nodes of a cluster; each loads the model once.

Actors return the bytes of a shard, and the process that called `run` writes them: nodes need no shared folder for
results, and a worker that was believed dead can never write into it. A shard whose actor or node died is given to
another actor, and the actor is replaced, on whatever node has room; nodes may come and go.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

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
from rationales.corpus.explaining import ExplainedShard, Outcomes, explain_control, record_outcomes, shard_files
from rationales.corpus.failures import DeviceError
from rationales.corpus.manifest import ADVICE, ShardEntry
from rationales.corpus.memory import bound_memory, freeze_objects, release_free_memory
from rationales.corpus.records import Record
from rationales.corpus.settings import first_difference
from rationales.corpus.shards import Shard
from rationales.errors import OptionError
from rationales.models.batch import execution
from rationales.models.model import Model

PLACEMENT_SECONDS = 300.0  # how long a cluster may have no room for any worker
POLL_SECONDS = 10.0  # between two looks at whether there is a worker at all
OBJECT_STORE_BYTES = 256 * 2**20  # of a local instance: open shards and finished ones, which are small
MAX_TEMPORARY_NAME = 24  # characters; Ray adds up to 80

logger = logging.getLogger(__name__)


def import_ray() -> Any:
    """The module ray, or an OptionError that says how to install it."""
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise OptionError("the engine ray needs Ray: pip install 'rationales[ray]' or pip install ray") from None
    return ray


class ShardActor:
    """A worker on a node: the model, loaded once, and what is done with it."""

    def __init__(self, task: WorkerTask, options: WorkerOptions) -> None:
        if options.pinned_threads is None:
            os.environ.pop(execution.VARIABLE, None)
        else:
            os.environ[execution.VARIABLE] = str(options.pinned_threads)
        bound_memory()
        torch.set_num_threads(options.threads)
        execution.GPU_SHARE *= min(1.0, options.gpus_per_worker)
        self._source, self._request = replace(task.source, device=options.devices[0]), task.request
        self._model: Model | None = None

    def describe(self) -> dict[str, Any]:
        """Load the model; what decides the results on this node: model, versions and the code of the methods.

        The model is not loaded when the actor is made: an error would then be that of a dead worker.
        """
        self._model = self._source.load()
        freeze_objects()
        methods = [method.to_dict() for method in self._request.methods]
        return {**description_of(self._model), "methods": methods}

    def explain(self, shard: Shard, provenance: Mapping[str, Any]) -> ExplainedShard:
        """The files of a shard."""
        return shard_files(shard, self.explain_records(shard.records), provenance)

    def survive(self) -> bool:
        """Explain a plain input, and return unless that ends this worker."""
        explain_control(self._loaded_model, self._request)
        return True

    def explain_records(self, records: Sequence[Record]) -> Outcomes:
        """What becomes of some records of a shard."""
        for record in records:
            if record.image is not None and not Path(record.image).exists():
                raise WorkerError(
                    f"{record.image} is not on the node {os.uname().nodename}; images are read by the workers and must "
                    f"have the same path on every node; {ADVICE}"
                )
        outcomes = record_outcomes(self._loaded_model, self._request, records)
        release_free_memory()
        return outcomes

    @property
    def _loaded_model(self) -> Model:
        assert self._model is not None, "describe is called first"  # noqa: S101
        return self._model


@dataclass
class RayActors:
    """Explains shards with Ray actors."""

    task: WorkerTask
    folder: Path
    options: WorkerOptions
    _ray: Any = field(default_factory=import_ray, init=False)
    _connected: bool = field(default=False, init=False)  # by this object, which then disconnects
    _sessions: str | None = field(default=None, init=False)  # folder of a local instance: sockets and logs
    _starting: dict[Any, Any] = field(default_factory=dict, init=False)  # result of describe -> actor
    _idle: deque[Any] = field(default_factory=deque, init=False)
    _description: dict[str, Any] | None = field(default=None, init=False)
    _failed_starts: int = field(default=0, init=False)
    _last_alive: float = field(default_factory=time.monotonic, init=False)

    def __enter__(self) -> RayActors:
        if any(name not in (None, "cpu", "cuda") for name in self.options.devices):
            raise OptionError("on Ray every worker has the GPU that Ray gives it: --device cuda, without a number")
        if not self._ray.is_initialized():
            self._connect()
            self._connected = True
        for _ in range(self.options.workers):
            self._start_actor()
        return self

    def __exit__(self, *_error: object) -> None:
        actors = [*self._starting.values(), *self._idle]
        self._starting.clear()
        self._idle.clear()
        if self._connected:  # ends all actors of this process
            self._ray.shutdown()
            if self._sessions is not None:
                shutil.rmtree(self._sessions, ignore_errors=True)
            return
        for actor in actors:
            self._ray.kill(actor)

    def describe(self) -> dict[str, Any]:
        """What decides the results beside the request, from the first worker that has loaded the model."""
        while self._description is None:
            self._collect(self._wait([]))
        return {name: self._description[name] for name in ("model", "versions")}

    def explained(
        self, shards: Iterator[Shard], provenance: Mapping[str, Any], on_share: OnShare
    ) -> Iterator[ShardEntry]:
        """The entry of every shard as soon as it is stored.

        A shard whose worker died is explained again; one that ended several workers when all others are finished, with
        its records divided. `on_share` is not called: how far an open shard is, is not known here.
        """
        del on_share
        shared_provenance = self._ray.put(dict(provenance))
        running: dict[Any, tuple[Any, Shard]] = {}  # result -> actor, shard
        waiting: deque[Shard] = deque()
        suspects: list[Shard] = []
        deaths: Counter[int] = Counter()  # of workers, by their shard

        def hand_out() -> None:
            while self._idle and waiting:
                actor, shard = self._idle.popleft(), waiting.popleft()
                running[actor.explain.remote(shard, shared_provenance)] = (actor, shard)

        try:
            while True:
                hand_out()
                may_read = len(suspects) < SUSPECTS_PER_WORKER * self.options.workers
                while may_read and len(waiting) < self._read_ahead and (shard := next(shards, None)) is not None:
                    waiting.append(shard)
                    hand_out()
                if not running and not waiting:
                    if not suspects:
                        return
                    yield self._divided(suspects.pop(0), provenance)
                    continue
                for result in self._collect(self._wait(list(running))):
                    actor, shard = running.pop(result)
                    explained_shard = self._result(result)
                    if explained_shard is None:
                        deaths[shard.index] += 1
                        logger.warning("the worker of shard %d died", shard.index)
                        if deaths[shard.index] < SUSPICIOUS_DEATHS:
                            waiting.appendleft(shard)
                        else:
                            suspects.append(shard)
                        self._replace(actor)
                        continue
                    self._idle.append(actor)
                    hand_out()  # before this shard is written, so that the worker does not wait for the disk
                    yield explained_shard.store(self.folder)
        finally:
            self._idle += [actor for actor, _ in running.values()]  # ended by __exit__

    @property
    def _read_ahead(self) -> int:
        """Shards that are read before a worker is free for them."""
        return READ_AHEAD + self.options.workers // 4

    def _connect(self) -> None:
        address = self.options.address or os.environ.get("RAY_ADDRESS") or "local"
        settings: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
        if address == "local":
            _secure_local_instance()
            settings |= {
                "num_cpus": self.options.workers * self.options.threads,
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE_BYTES,
                "_temp_dir": self._temporary_folder(),
            }
        try:
            self._ray.init(**settings)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise WorkerError(f"cannot reach a Ray cluster at {address!r}: {error}") from error

    def _temporary_folder(self) -> str:
        """A folder for the local instance, removed with it; short, because names of sockets have at most 107 bytes."""
        parent = tempfile.gettempdir()
        short_parent = parent if len(parent) <= MAX_TEMPORARY_NAME or os.name != "posix" else "/tmp"  # noqa: S108
        self._sessions = tempfile.mkdtemp(prefix="ray-", dir=short_parent)
        return self._sessions

    def _start_actor(self) -> None:
        uses_gpu = self.options.devices[0] == "cuda"
        remote_class = self._ray.remote(
            num_cpus=self.options.threads,
            num_gpus=self.options.gpus_per_worker if uses_gpu else 0,
            max_restarts=0,  # a dead actor is replaced here, where its shard is known
            scheduling_strategy="SPREAD",
        )(ShardActor)
        actor = remote_class.remote(self.task, self.options)
        self._starting[actor.describe.remote()] = actor

    def _wait(self, running: list[Any]) -> list[Any]:
        """Results that are there, of starting actors or running shards; waits for at least one."""
        while True:
            done, _ = self._ray.wait([*running, *self._starting], num_returns=1, timeout=POLL_SECONDS)
            if done:
                self._last_alive = time.monotonic()
                return list(done)
            if running or self._idle:
                self._last_alive = time.monotonic()
            elif time.monotonic() - self._last_alive > PLACEMENT_SECONDS:
                raise WorkerError(
                    f"no worker has started for {PLACEMENT_SECONDS:.0f} seconds; {self._need()}. {ADVICE}"
                )
            else:
                logger.info("no worker has started yet; %s", self._need())

    def _need(self) -> str:
        gpus = f" and {self.options.gpus_per_worker:g} GPUs" if self.options.devices[0] == "cuda" else ""
        resources = self._ray.cluster_resources()
        present = ", ".join(f"{resources.get(name, 0):g} {name}s" for name in ("CPU", "GPU"))
        return f"a worker needs {self.options.threads} CPUs{gpus}, the cluster has {present}"

    def _collect(self, done: list[Any]) -> list[Any]:
        """Take in the actors that have started; the remaining results are those of shards."""
        results = []
        for result in done:
            actor = self._starting.pop(result, None)
            if actor is None:
                results.append(result)
                continue
            try:
                description = self._ray.get(result)
            except self._ray.exceptions.RayTaskError as error:
                raise _cause(error) from None
            except self._ray.exceptions.RayError as error:
                self._replace_failed_start(actor, error)
                continue
            self._check(description)
            self._failed_starts = 0
            self._idle.append(actor)
        return results

    def _replace_failed_start(self, actor: Any, error: Exception) -> None:
        """Start another actor in place of one that died before it had loaded the model."""
        self._failed_starts += 1
        if self._failed_starts > MAX_CRASHES + self.options.workers:
            raise WorkerError(f"workers cannot be started: {_first_line(error)}; {ADVICE}") from error
        self._replace(actor)

    def _replace(self, actor: Any) -> None:
        """Start an actor in place of one that died."""
        self._ray.kill(actor)
        self._start_actor()

    def _divided(self, shard: Shard, provenance: Mapping[str, Any]) -> ShardEntry:
        """The entry of a shard that ended its workers: its records are divided until those that do so are alone."""
        outcomes = divided_outcomes(
            shard.records, partial(self._alone, "explain_records"), lambda: bool(self._alone("survive"))
        )
        return shard_files(shard, outcomes, provenance).store(self.folder)

    def _alone(self, method: str, *arguments: Any) -> Any:
        """The result of a call of an idle actor; None where it died."""
        while not self._idle:
            self._collect(self._wait([]))
        actor = self._idle.popleft()
        result = self._result(getattr(actor, method).remote(*arguments))
        if result is None:
            self._replace(actor)
        else:
            self._idle.append(actor)
        return result

    def _check(self, description: dict[str, Any]) -> None:
        """Raise a WorkerError where a node would give other results than the first."""
        if self._description is None:
            self._description = description
        elif difference := first_difference(self._description, description):
            raise WorkerError(
                f"the nodes of the cluster differ, and so would their results: {difference}. Install the same versions "
                f"and the same model everywhere; {ADVICE}"
            )

    def _result(self, reference: Any) -> Any:
        """What a worker returned; None where it died, or its device failed."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            cause = _cause(error)
            if isinstance(cause, DeviceError):
                return None
            raise cause from None
        except self._ray.exceptions.RayError:  # the worker or its node died, or the result was lost with it
            return None


def _secure_local_instance() -> None:
    """Settings of an instance that Ray starts for this process: it sends nothing, and only this process can use it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not any(os.environ.get(name) for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # else Ray writes one into the home folder


def _cause(error: Any) -> BaseException:
    """What was raised in the worker."""
    cause: BaseException = error.cause if isinstance(error.cause, BaseException) else error
    return cause


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
