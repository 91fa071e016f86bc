"""`run`: explain a corpus into a folder of Parquet shards; a run that was stopped goes on with the same call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from rationales.corpus.arrow_files import import_arrow
from rationales.corpus.engines import ENGINES, Engine, WorkerOptions, open_engine
from rationales.corpus.engines.engine import device_names
from rationales.corpus.explaining import ExplainRequest, ModelSource
from rationales.corpus.lock import LOCK, folder_lock
from rationales.corpus.manifest import (
    ERRORS,
    MANIFEST,
    SHARD_ERRORS,
    SHARDS,
    Manifest,
    ShardEntry,
    StorageError,
    clear,
    is_intact,
    load_manifest,
    remove_partial_files,
    shard_errors_path,
    store_parts,
)
from rationales.corpus.progress import EventLog, Progress, RunSummary
from rationales.corpus.records import Selection, parse_condition
from rationales.corpus.settings import (
    ChangedRunError,
    check_columns,
    check_settings,
    refusal,
    resolve_methods,
)
from rationales.corpus.shards import Shard, shards
from rationales.corpus.sources import CorpusInput, RecordColumns, open_input
from rationales.errors import DataError, OptionError
from rationales.methods import Method
from rationales.models.batch.execution import requested_threads
from rationales.models.model import Model
from rationales.options import whole_number

SHARD_SIZE = 512  # records

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


OnProgress = Callable[[Progress], None]
OnShard = Callable[[ShardEntry], None]


def run(
    inputs: Paths,
    out: str | os.PathLike[str],
    *,
    model: Model | str | os.PathLike[str] | None = None,
    methods: Sequence[str | Method | Mapping[str, Any]] = ("marc",),
    options: Mapping[str, Any] | None = None,
    smooth: float | None = None,
    seed: int = 0,
    target: str | None = None,
    text_column: str = "text",
    id_column: str | None = None,
    input_format: str | None = None,
    where: Sequence[str] = (),
    sample: float | None = None,
    limit: int | None = None,
    min_words: int | None = None,
    max_words: int | None = None,
    unit: str = "word",
    baseline: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    prompt: Mapping[str, Any] | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int = 1,
    threads: int = 1,
    gpus_per_worker: float = 1.0,
    shard_size: int = SHARD_SIZE,
    restart: bool = False,
    log: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
    on_shard: OnShard | None = None,
) -> RunSummary:
    """Explain all records of `inputs` and store them in the folder `out`.

    `inputs`: files (CSV, TSV, JSON lines, Parquet, Arrow), folders of texts or images, globs, or "-" for standard
    input. `model`: a name, id or folder; with one worker also a loaded model. `methods`: names, method objects, or
    mappings with `name`, `options`, `smooth` and `title`; `options` go to every method that has them. `where`:
    conditions "column=value" or "column!=value"; `sample`: a share of the records; `limit`: the first so many.
    `prompt`: further options of `rationales.load` for a language model given by name: labels, template, chat, ...
    `device`: several, with commas, are given to the workers in turn; "cuda" with several workers means every GPU of the
    machine. `engine`: "local", or "ray" with the `address` of a cluster (HOST:PORT or "auto"; none: RAY_ADDRESS, or a
    local instance), where each worker has `gpus_per_worker` GPUs if the device is "cuda". `workers`: processes, with
    `threads` threads each. `restart`: remove earlier results first. `log`: append events to this file, as JSON lines.
    `on_progress` and `on_shard` are called after every shard.

    The same call goes on where a stopped run was. Results are the same bytes, whatever stopped it and however many
    workers there are, on the same device with the same number of threads.
    """
    import_arrow()
    if engine not in ENGINES:
        raise OptionError(f"there is no engine {engine!r}; there is: {', '.join(ENGINES)}")
    for name, value in (("workers", workers), ("threads", threads), ("shard_size", shard_size)):
        if whole_number(name, value) < 1:
            raise OptionError(f"{name} must be at least 1, not {value}")
    if address is not None and engine != "ray":
        raise OptionError("an address is that of a Ray cluster: give engine ray with it")
    if gpus_per_worker <= 0:
        raise OptionError(f"gpus_per_worker must be greater than 0, not {gpus_per_worker}")
    conditions = tuple(map(parse_condition, where))
    selection = Selection(conditions, sample, limit, min_words, max_words, seed)
    source = open_input(inputs, RecordColumns(text_column, id_column), selection, input_format)
    check_columns(source)
    folder = _prepared_folder(Path(out))
    request = ExplainRequest(
        resolve_methods(methods, options or {}, smooth, source.kind), whole_number("the seed", seed), target
    )
    pinned_threads = requested_threads()
    worker_options = WorkerOptions(
        workers=workers,
        threads=pinned_threads or threads,
        devices=device_names(device, workers, torch.cuda.device_count() if engine == "local" else 1),
        gpus_per_worker=gpus_per_worker,
        address=address,
        pinned_threads=pinned_threads,
    )
    first_device, further = worker_options.devices[0], tuple(sorted((prompt or {}).items()))
    model_source = ModelSource(_name(model), source.kind, first_device, unit, baseline, trust_remote_code, further)
    with ExitStack() as stack:
        stack.enter_context(folder_lock(folder))
        manifest = None if restart else load_manifest(folder)
        engine_object = open_engine(engine, model, model_source, request, folder, worker_options, stack)
        settings = {
            **engine_object.describe(),
            "methods": [method.to_dict() for method in request.methods],
            "seed": request.seed,
            "target": target,
            "input": {"text_column": text_column, "id_column": id_column, "format": input_format,
                      "kind": source.kind, **selection.to_dict()},
            "shard_size": shard_size,
            "device": sorted({str(name or "default").partition(":")[0] for name in worker_options.devices}),
            "threads": worker_options.threads,
        }  # fmt: skip
        if restart:  # not before the request has turned out to be possible
            clear(folder)
        events = EventLog(None if log is None else Path(log))
        job = _Job(folder, source, engine_object, settings, manifest, shard_size, on_progress, on_shard, events)
        events.write("start", folder=folder, engine=engine, workers=workers, **settings)
        try:
            summary = job.run()
        except BaseException as error:
            events.write("stopped", error=type(error).__name__, message=str(error), **job.manifest.totals())
            raise
        events.write("end", **summary.to_dict())
        return summary


class _Job:
    """One call of `run`, with the folder locked."""

    def __init__(
        self,
        folder: Path,
        source: CorpusInput,
        engine: Engine,
        settings: dict[str, Any],
        manifest: Manifest | None,
        shard_size: int,
        on_progress: OnProgress | None,
        on_shard: OnShard | None,
        events: EventLog,
    ) -> None:
        self.folder, self.source, self.engine, self.shard_size = folder, source, engine, shard_size
        self.on_progress, self.on_shard, self.events = on_progress, on_shard, events
        if manifest is not None:
            check_settings(manifest.settings, settings, folder)
        self.manifest = manifest or Manifest(settings)
        self.open_records = self.peak_open_records = 0
        self.share = self.resumed_share = 0.0
        self.counts: dict[int, int] = {}  # records of the open shards
        self.shares: dict[int, float] = {}
        self.shard_count = 0
        # of an earlier run that was complete; further ones are a change of the input
        self.known_shards = 1 + max(self.manifest.entries, default=-1) if self.manifest.complete else None

    def run(self) -> RunSummary:
        for name in (SHARDS, SHARD_ERRORS):
            _make_folder(self.folder / name)
        remove_partial_files(self.folder)
        intact = {index: entry for index, entry in self.manifest.entries.items() if is_intact(self.folder, entry)}
        self.manifest.entries = intact
        self.manifest.complete = False
        began, records_now, units_now, steps_now, shards_now = time.perf_counter(), 0, 0, 0, 0
        try:
            for entry in self.engine.explained(self._open_shards(), self.manifest.settings):
                self.manifest.entries[entry.index] = entry
                self.manifest.save(self.folder)
                self.open_records -= self.counts.pop(entry.index)
                records_now, units_now = records_now + entry.records, units_now + entry.units
                steps_now, shards_now = steps_now + entry.steps, shards_now + 1
                self.share = max(self.share, self.shares.pop(entry.index))
                if self.on_shard is not None:
                    self.on_shard(entry)
                self._report(entry.index, records_now, time.perf_counter() - began)
            if not self.shard_count:
                raise DataError("the input holds no records")
            self.manifest.complete = True
            self.manifest.save(self.folder)
        finally:
            remove_partial_files(self.folder)
            self._join_errors()
        seconds = time.perf_counter() - began
        return RunSummary(
            folder=self.folder,
            **self.manifest.totals(),
            shards=len(self.manifest.entries),
            shards_now=shards_now,
            seconds=seconds,
            records_per_second=records_now / seconds,
            units_per_second=units_now / seconds,
            steps_per_second=steps_now / seconds,
            peak_open_records=self.peak_open_records,
            reasons=self.manifest.reasons(),
        )

    def _report(self, index: int, records_now: int, seconds: float) -> None:
        state = Progress(self.manifest.totals(), records_now, self.share, self.resumed_share, seconds)
        self.events.write(
            "shard", shard=index, share=state.share, records_per_second=state.records_per_second, **state.totals
        )
        if self.on_progress is not None:
            self.on_progress(state)

    def _open_shards(self) -> Iterator[Shard]:
        """The shards that are not finished; those that are must have the same records as when they were explained."""
        finished = dict(self.manifest.entries)
        for shard in shards(self.source, self.shard_size):
            self.shard_count += 1
            entry = finished.pop(shard.index, None)
            if self.known_shards is not None and shard.index >= self.known_shards:
                raise ChangedRunError(refusal(self.folder, "the input has more records than it had"))
            if entry is None:
                self.counts[shard.index] = shard.count
                self.shares[shard.index] = shard.share
                self.open_records += shard.count
                self.peak_open_records = max(self.peak_open_records, self.open_records)
                yield shard
                continue
            if entry.digest != shard.digest:
                last = entry.first + entry.records - 1
                raise ChangedRunError(refusal(self.folder, f"records {entry.first} to {last} of the input changed"))
            self.share = self.resumed_share = shard.share
        if finished:
            raise ChangedRunError(refusal(self.folder, "the input has fewer records than it had"))

    def _join_errors(self) -> None:
        """errors.jsonl: the bad records of all finished shards, in order."""
        failing = [index for index, entry in sorted(self.manifest.entries.items()) if entry.errors_sha256 is not None]
        store_parts(self.folder / ERRORS, (shard_errors_path(self.folder, index).read_bytes() for index in failing))


def _prepared_folder(folder: Path) -> Path:
    """The output folder, which must be new, empty, or of an earlier run."""
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder} is a file; give a folder for the results")
    _make_folder(folder)
    result_names = {MANIFEST, ERRORS, SHARDS, SHARD_ERRORS, LOCK}
    foreign = [
        path.name for path in folder.iterdir() if path.name not in result_names and not path.name.endswith(".part")
    ]
    if foreign and not (folder / MANIFEST).exists():
        raise OptionError(
            f"{folder} holds other files ({foreign[0]}, …) and no manifest; give a new or an empty folder"
        )
    if not os.access(folder, os.W_OK):
        raise StorageError(f"cannot write into {folder}: no permission, or it is read-only")
    return folder


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the folder {folder}: {error.strerror}") from None


def _name(model: Model | str | os.PathLike[str] | None) -> str | None:
    return os.fspath(model) if isinstance(model, (str, os.PathLike)) else None
