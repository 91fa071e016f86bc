"""`run`: explain a corpus into a folder of Parquet shards; a run that was stopped goes on with the same call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rationales.corpus.arrow_files import import_arrow
from rationales.corpus.explaining import ExplainRequest, ModelSource, check_kind
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
    store,
)
from rationales.corpus.records import Selection, parse_condition
from rationales.corpus.settings import (
    ChangedRunError,
    check_columns,
    check_settings,
    refusal,
    resolve_methods,
    versions,
)
from rationales.corpus.shards import Shard, shards
from rationales.corpus.sources import CorpusInput, RecordColumns, open_input
from rationales.corpus.workers import Engine, InProcess, WorkerPool
from rationales.errors import DataError, OptionError
from rationales.methods import Method
from rationales.models.batch.execution import requested_threads
from rationales.models.model import Model
from rationales.options import whole_number

SHARD_SIZE = 512  # records
ENGINES = ("local",)

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Progress:
    """How far a run is, passed to `on_progress` after every shard."""

    totals: Mapping[str, int]  # of all finished shards: records, explained, failed, skipped, rows, units, bytes
    records_now: int  # finished in this call
    share: float  # of the input; 0 where it is unknown
    resumed_share: float  # of the input that was finished before this call
    seconds: float  # since the first shard of this call was begun

    @property
    def records_per_second(self) -> float:
        """Records finished in this call per second."""
        return self.records_now / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining_seconds(self) -> float | None:
        """Estimate from the share of the input; None where it is unknown."""
        now = self.share - self.resumed_share
        return self.seconds * (1 - self.share) / now if now > 0 else None


@dataclass(frozen=True)
class RunSummary:
    """Result of a run. records = explained + failed + skipped."""

    folder: Path
    records: int
    explained: int
    failed: int
    skipped: int
    rows: int
    units: int
    bytes: int  # of all shards
    shards: int
    shards_now: int  # explained in this call, not found finished
    seconds: float
    records_per_second: float
    units_per_second: float
    peak_open_records: int  # in memory at once
    reasons: Mapping[str, int] = field(default_factory=dict)  # of failures

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain data."""
        return {**asdict(self), "folder": str(self.folder)}


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
    engine: str = "local",
    workers: int = 1,
    threads: int = 1,
    shard_size: int = SHARD_SIZE,
    restart: bool = False,
    on_progress: OnProgress | None = None,
    on_shard: OnShard | None = None,
) -> RunSummary:
    """Explain all records of `inputs` and store them in the folder `out`.

    `inputs`: files (CSV, TSV, JSON lines, Parquet, Arrow), folders of texts or images, globs, or "-" for standard
    input. `model`: a name, id or folder; with one worker also a loaded model. `methods`: names, method objects, or
    mappings with `name`, `options`, `smooth` and `title`; `options` go to every method that has them. `where`:
    conditions "column=value" or "column!=value"; `sample`: a share of the records; `limit`: the first so many.
    `device`: several, with commas, are given to the workers in turn. `workers`: processes, with `threads` threads
    each. `restart`: remove earlier results first. `on_progress` and `on_shard` are called after every shard.

    The same call goes on where a stopped run was. Results are the same bytes, whatever stopped it and however many
    workers there are, on the same device with the same number of threads.
    """
    import_arrow()
    if engine not in ENGINES:
        raise OptionError(f"there is no engine {engine!r}; there is: {', '.join(ENGINES)}")
    for name, value in (("workers", workers), ("threads", threads), ("shard_size", shard_size)):
        if whole_number(name, value) < 1:
            raise OptionError(f"{name} must be at least 1, not {value}")
    conditions = tuple(map(parse_condition, where))
    selection = Selection(conditions, sample, limit, min_words, max_words, seed)
    source = open_input(inputs, RecordColumns(text_column, id_column), selection, input_format)
    check_columns(source)
    folder = _prepared_folder(Path(out))
    request = ExplainRequest(
        resolve_methods(methods, options or {}, smooth, source.kind), whole_number("the seed", seed), target, folder
    )
    thread_count = requested_threads() or threads
    devices = tuple(name.strip() or None for name in device.split(",")) if device else (None,)
    if len(devices) > workers:
        raise OptionError(f"{len(devices)} devices for {workers} workers; give at least one worker for each device")
    with ExitStack() as stack:
        stack.enter_context(folder_lock(folder))
        if restart:
            clear(folder)
        manifest = load_manifest(folder)
        engine_object: Engine
        if workers == 1:
            loaded = _loaded(model, ModelSource(_name(model), source.kind, devices[0], unit, baseline,
                                                trust_remote_code))  # fmt: skip
            check_kind(loaded, source.kind)
            engine_object = InProcess(loaded, request, thread_count)
        else:
            if model is not None and not isinstance(model, (str, os.PathLike)):
                raise OptionError("several workers load the model themselves: give its name or folder, not the model")
            model_source = ModelSource(_name(model), source.kind, None, unit, baseline, trust_remote_code)
            pool = WorkerPool(model_source, devices, request, workers, thread_count)
            engine_object = stack.enter_context(pool)
        settings = {
            "model": engine_object.describe(),
            "methods": [method.to_dict() for method in request.methods],
            "seed": request.seed,
            "target": target,
            "input": {"text_column": text_column, "id_column": id_column, "format": input_format,
                      "kind": source.kind, **selection.to_dict()},
            "shard_size": shard_size,
            "device": sorted({str(name or "default").partition(":")[0] for name in devices}),
            "threads": thread_count,
            "versions": versions(),
        }  # fmt: skip
        job = _Job(folder, source, engine_object, settings, manifest, shard_size, on_progress, on_shard)
        return job.run()


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
    ) -> None:
        self.folder, self.source, self.engine, self.shard_size = folder, source, engine, shard_size
        self.on_progress, self.on_shard = on_progress, on_shard
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
        began, records_now, units_now, shards_now = time.perf_counter(), 0, 0, 0
        try:
            for entry in self.engine.explained(self._open_shards(), self.manifest.settings):
                self.manifest.entries[entry.index] = entry
                self.manifest.save(self.folder)
                self.open_records -= self.counts.pop(entry.index)
                records_now, units_now = records_now + entry.records, units_now + entry.units
                shards_now += 1
                self.share = max(self.share, self.shares.pop(entry.index))
                if self.on_shard is not None:
                    self.on_shard(entry)
                self._report(records_now, time.perf_counter() - began)
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
            peak_open_records=self.peak_open_records,
            reasons=self.manifest.reasons(),
        )

    def _report(self, records_now: int, seconds: float) -> None:
        if self.on_progress is not None:
            totals = self.manifest.totals()
            self.on_progress(Progress(totals, records_now, self.share, self.resumed_share, seconds))

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
        content = bytearray()
        for index in sorted(self.manifest.entries):
            if self.manifest.entries[index].errors_sha256 is not None:
                content += shard_errors_path(self.folder, index).read_bytes()
        store(self.folder / ERRORS, bytes(content))


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
        raise StorageError(f"cannot write into {folder}: no permission")
    return folder


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the folder {folder}: {error.strerror}") from None


def _name(model: Model | str | os.PathLike[str] | None) -> str | None:
    return os.fspath(model) if isinstance(model, (str, os.PathLike)) else None


def _loaded(model: Model | str | os.PathLike[str] | None, source: ModelSource) -> Model:
    if model is None or isinstance(model, (str, os.PathLike)):
        return source.load()
    return model
