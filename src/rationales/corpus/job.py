"""`run`: explain a corpus into a folder of Parquet shards; a run that was stopped goes on with the same call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

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
from rationales.corpus.progress import EventLog, Progress, ProgressMeter, RunSummary
from rationales.corpus.reading.arrow_files import import_arrow
from rationales.corpus.reading.sources import CorpusInput, RecordColumns, TextFormat, open_input
from rationales.corpus.records import Selection, parse_condition
from rationales.corpus.settings import (
    ChangedRunError,
    check_columns,
    check_settings,
    refusal,
    resolve_methods,
)
from rationales.corpus.shards import Shard, shards
from rationales.errors import DataError, OptionError
from rationales.methods import Method
from rationales.models.batch.execution import requested_threads
from rationales.models.model import Model
from rationales.options import checked_seed, whole_number

SHARD_SIZE = 512  # records
REPORT_SECONDS = 0.5  # between two reports of how far open shards are

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
    shape: str | None = None,
    seed: int = 0,
    target: str | None = None,
    text_column: str = "text",
    id_column: str | None = None,
    input_format: str | None = None,
    encoding: str = "utf-8",
    delimiter: str | None = None,
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
    retry_failed: bool = False,
    log: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
    on_shard: OnShard | None = None,
) -> RunSummary:
    """Explain all records of `inputs` and store them in the folder `out`.

    `inputs`: files (CSV, TSV, JSON lines, Parquet, Arrow), folders of texts or images, globs, or "-" for standard
    input. `model`: a name, id or folder; with one worker also a loaded model. `methods`: names, method objects, or
    mappings with `name`, `options`, `smooth`, `shape` and `title`; `options` go to every method that has them, `smooth`
    and `shape` to those that name none. `encoding` and, of a CSV table, `delimiter`: how texts are read. `where`:
    conditions "column=value" or "column!=value"; `sample`: a share of the records; `limit`: the first so many.
    `prompt`: further options of `rationales.load` for a language model given by name: labels, template, chat, ...
    `device`: several, with commas, are given to the workers in turn; "cuda" with several workers means every GPU of the
    machine. `engine`: "local", or "ray" with the `address` of a cluster (HOST:PORT or "auto"; none: RAY_ADDRESS, or a
    local instance), where each worker has `gpus_per_worker` GPUs if the device is "cuda". `workers`: processes, with
    `threads` threads each. `restart`: remove earlier results first. `retry_failed`: explain finished shards again in
    which a record failed for a reason that may lie in the machine. `log`: append events to this file, as JSON lines.
    `on_progress` and `on_shard` are called after every shard, `on_progress` also while shards are open.

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
    columns, text_format = RecordColumns(text_column, id_column), TextFormat(encoding, delimiter)
    outputs = [out] if log is None else [out, log]
    source = open_input(inputs, columns, selection, input_format, text_format, outputs)
    check_columns(source)
    folder = _prepared_folder(Path(out), log)
    resolved_methods = resolve_methods(methods, options or {}, smooth, shape, source.kind)
    request = ExplainRequest(resolved_methods, checked_seed(seed), target)
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
        manifest = None if restart else _earlier_manifest(folder)
        engine_object = open_engine(engine, model, model_source, request, folder, worker_options, stack)
        settings = {
            **engine_object.describe(),
            "methods": [method.to_dict() for method in request.methods],
            "seed": request.seed,
            "target": target,
            "input": {"text_column": text_column, "id_column": id_column, "format": input_format, "encoding": encoding,
                      "delimiter": delimiter, "kind": source.kind, **selection.to_dict()},
            "shard_size": shard_size,
            "device": sorted({str(name or "default").partition(":")[0] for name in worker_options.devices}),
            "threads": worker_options.threads,
        }  # fmt: skip
        if restart:  # not before the request has turned out to be possible
            clear(folder)
        events = EventLog(None if log is None else Path(log))
        job = _Job(
            folder, source, engine_object, settings, manifest, shard_size, retry_failed, on_progress, on_shard, events
        )
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
        retry_failed: bool,
        on_progress: OnProgress | None,
        on_shard: OnShard | None,
        events: EventLog,
    ) -> None:
        self.folder, self.source, self.engine, self.shard_size = folder, source, engine, shard_size
        self.on_progress, self.on_shard, self.events = on_progress, on_shard, events
        if manifest is not None and manifest.entries:
            check_settings(manifest.settings, settings, folder)
            self.manifest = manifest
        else:
            self.manifest = Manifest(settings)
        self.retry_failed = retry_failed
        self.open_records = self.peak_open_records = 0
        self.counts: dict[int, int] = {}  # records of the open shards
        self.meter = ProgressMeter()
        self.last_report = 0.0
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
        if not intact:
            self.manifest.save(self.folder)  # from now on the folder is that of a run
        self.meter = ProgressMeter()
        try:
            for entry in self.engine.explained(self._open_shards(), self.manifest.settings, self._report_share):
                self.manifest.entries[entry.index] = entry
                self.manifest.save(self.folder)
                self.open_records -= self.counts.pop(entry.index)
                self.meter.finish(entry)
                if self.on_shard is not None:
                    self.on_shard(entry)
                self._report_shard(entry.index)
            if not self.shard_count:
                raise DataError("the input holds no records")
            self.manifest.complete = True
            self.manifest.save(self.folder)
        finally:
            remove_partial_files(self.folder)
            self._join_errors()
        return RunSummary(
            folder=self.folder,
            **self.manifest.totals(),
            **self.meter.rates(),
            shards=len(self.manifest.entries),
            shards_now=self.meter.shards,
            peak_open_records=self.peak_open_records,
            reasons=self.manifest.reasons(),
        )

    def _report_shard(self, index: int) -> None:
        state = self.meter.progress(self.manifest.totals())
        self.events.write(
            "shard", shard=index, share=state.share, records_per_second=state.records_per_second, **state.totals
        )
        if self.on_progress is not None:
            self.on_progress(state)

    def _report_share(self, index: int, share: float) -> None:
        """Report how far an open shard is, unless the last report was a moment ago."""
        self.meter.advance(index, share)
        if self.on_progress is not None and time.monotonic() - self.last_report >= REPORT_SECONDS:
            self.last_report = time.monotonic()
            self.on_progress(self.meter.progress(self.manifest.totals()))

    def _open_shards(self) -> Iterator[Shard]:
        """The shards to explain; those that are finished must have the same records as when they were explained."""
        finished = dict(self.manifest.entries)
        for shard in shards(self.source, self.shard_size):
            self.shard_count += 1
            entry = finished.pop(shard.index, None)
            if self.known_shards is not None and shard.index >= self.known_shards:
                raise ChangedRunError(refusal(self.folder, "the input has more records than it had"))
            if entry is not None and entry.digest != shard.digest:
                last = entry.first + entry.records - 1
                raise ChangedRunError(refusal(self.folder, f"records {entry.first} to {last} of the input changed"))
            if entry is not None and not (self.retry_failed and entry.doubtful):
                self.meter.skip(shard)
                continue
            self.meter.begin(shard)
            self.counts[shard.index] = shard.count
            self.open_records += shard.count
            self.peak_open_records = max(self.peak_open_records, self.open_records)
            yield shard
        if finished:
            raise ChangedRunError(refusal(self.folder, "the input has fewer records than it had"))

    def _join_errors(self) -> None:
        """errors.jsonl: the bad records of all finished shards, in order."""
        failing = [index for index, entry in sorted(self.manifest.entries.items()) if entry.errors_sha256 is not None]
        store_parts(self.folder / ERRORS, (shard_errors_path(self.folder, index).read_bytes() for index in failing))


def _earlier_manifest(folder: Path) -> Manifest | None:
    try:
        return load_manifest(folder)
    except DataError as error:
        raise DataError(f"{error}; give another folder, or --restart to begin again") from None


def _prepared_folder(folder: Path, log: str | os.PathLike[str] | None) -> Path:
    """The output folder, which must be new, empty, or of an earlier run; the log may be in it."""
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder} is a file; give a folder for the results")
    _make_folder(folder)
    result_names = {MANIFEST, ERRORS, SHARDS, SHARD_ERRORS, LOCK}
    foreign = [
        path.name
        for path in folder.iterdir()
        if path.name not in result_names
        and not path.name.endswith(".part")
        and (log is None or path.absolute() != Path(log).absolute())
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
