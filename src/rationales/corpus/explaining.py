"""Explains one shard with a loaded model; a record that fails is isolated, the others are kept.

This is what a worker does, in this process or in another. Nothing here depends on other shards, so results are the same
whoever explains a shard, and whenever.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from rationales.corpus.manifest import ShardEntry, shard_errors_path, shard_path, store
from rationales.corpus.memory import release_free_memory
from rationales.corpus.records import BadRecord, Record
from rationales.corpus.row_format import row_of, serialized
from rationales.corpus.shards import Shard
from rationales.errors import InputError, OptionError, RationalesError
from rationales.evaluation.scores.cache import model_fingerprint
from rationales.evaluation.scores.code_fingerprint import code_fingerprint
from rationales.methods import Method
from rationales.models.batch.execution import garbage_collection_paused
from rationales.models.kinds import kind_named
from rationales.models.load import load
from rationales.models.model import Model
from rationales.pipeline.explain import explain
from rationales.rationale import Rationale

# What the model or a library raises for one input. Mistakes in the request (OptionError) stop the run.
RECORD_ERRORS = (RationalesError, RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, AssertionError)
RECORD_ERRORS += (AttributeError, MemoryError)  # type: ignore[assignment]  # a tuple of another length
MAX_MESSAGE = 500  # characters


@dataclass(frozen=True)
class ModelSource:
    """What to load: a name, id or folder (None: the default for the kind of input), and options of `load`."""

    name: str | None
    kind: str
    device: str | None = None
    unit: str = "word"
    baseline: str | None = None
    trust_remote_code: bool = False
    prompt: tuple[tuple[str, Any], ...] = ()  # further options of `load`, for a language model

    def load(self) -> Model:
        """The model; a model of another kind than the input is refused."""
        options = {name: value for name, value in asdict(self).items() if name not in ("name", "kind", "prompt")}
        if self.kind != "text":
            del options["unit"]
        model: Model = load(self.name or kind_named(self.kind).default_model, **options, **dict(self.prompt))
        check_kind(model, self.kind)
        return model


@dataclass(frozen=True)
class CorpusMethod:
    """A method with its name in the results and its smoothing."""

    title: str
    method: Method
    smooth: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything that decides the scores, for the manifest."""
        trained = self.method.trained_part_fingerprint()
        options = json.loads(json.dumps(asdict(self.method), default=repr))
        if self.smooth is not None:
            options["smooth"] = self.smooth
        extra = {"trained_part": trained} if trained else {}
        return {
            "title": self.title,
            "name": self.method.name,
            "options": options,
            "code": code_fingerprint(type(self.method)),
            **extra,
        }


@dataclass(frozen=True)
class ExplainRequest:
    """How every record is explained."""

    methods: tuple[CorpusMethod, ...]
    seed: int
    target: str | None


@dataclass(frozen=True)
class ExplainedShard:
    """The files of a shard, not yet written; a worker on another machine sends them to the one that has the folder."""

    entry: ShardEntry
    content: bytes  # of the Parquet file
    error_lines: bytes  # empty: no record failed

    def store(self, folder: Path) -> ShardEntry:
        """Write the files; the shard is finished when its entry is in the manifest."""
        errors_path = shard_errors_path(folder, self.entry.index)
        if self.error_lines:
            store(errors_path, self.error_lines)
        else:
            errors_path.unlink(missing_ok=True)
        store(shard_path(folder, self.entry.index), self.content)
        return self.entry


def check_kind(model: Model, kind: str) -> None:
    """Raise an OptionError where the model does not read this kind of input."""
    if model.kind != kind:
        expected, noun = kind_named(model.kind).noun, kind_named(kind).noun
        raise OptionError(f"{model.name} is a model of {expected}s, but the input holds {noun}s; give another model")


def describe_model(model: Model) -> dict[str, Any]:
    """What decides a model's results, for the manifest."""
    return {
        "name": model.name,
        "kind": model.kind,
        "labels": list(model.labels),
        "unit": model.unit,
        "baseline": model.baseline,
        "fingerprint": model_fingerprint(model),
    }


def explain_shard(model: Model, request: ExplainRequest, shard: Shard, provenance: Mapping[str, Any]) -> ExplainedShard:
    """Explain the records of a shard with every method."""
    results: dict[int, list[dict[str, Any]]] = {record.position: [] for record in shard.records}
    failures: dict[int, BadRecord] = {}
    for method in request.methods:
        records = [record for record in shard.records if record.position not in failures]
        outcomes = explain_records(model, records, method, request)
        with garbage_collection_paused():
            for record, outcome in zip(records, outcomes, strict=True):
                if isinstance(outcome, BadRecord):
                    failures[record.position] = outcome
                else:
                    results[record.position].append(row_of(record, method.title, outcome))
        del outcomes  # their memory is needed for what follows
    rows = [row for position in sorted(results) if position not in failures for row in results[position]]
    units = sum(len(row["scores"]) for row in rows)
    bad_records = sorted([*shard.bad_records, *failures.values()], key=lambda bad: bad.position)
    content = serialized(rows, {**provenance, "shard": shard.index, "first": shard.first})
    lines = "".join(json.dumps(bad.to_dict(), ensure_ascii=True) + "\n" for bad in bad_records).encode()
    entry = ShardEntry(
        index=shard.index,
        first=shard.first,
        explained=len(shard.records) - len(failures),
        failed=len(bad_records),
        skipped=shard.skipped,
        rows=len(rows),
        units=units,
        steps=sum(row["steps"] for row in rows),
        digest=shard.digest,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        errors_sha256=hashlib.sha256(lines).hexdigest() if lines else None,
        reasons=dict(sorted(Counter(bad.reason for bad in bad_records).items())),
    )
    del results, rows
    release_free_memory()
    return ExplainedShard(entry, content, lines)


def explain_records(
    model: Model, records: Sequence[Record], method: CorpusMethod, request: ExplainRequest
) -> list[Rationale | BadRecord]:
    """The rationale of each record; where a batch fails, it is halved until the records that fail are alone."""
    if not records:
        return []
    try:
        rationales = explain(
            model,
            [record.raw_input for record in records],
            method=method.method,
            target=request.target,
            seed=request.seed,
            smooth=method.smooth,
            names=[record.id for record in records],
        )
        return list(rationales)
    except OptionError:
        raise
    except RECORD_ERRORS as error:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # an error may have been that of a full memory
        if len(records) == 1:
            return [_failure(records[0], method, error)]
    middle = len(records) // 2
    halves = (records[:middle], records[middle:])
    return [outcome for half in halves for outcome in explain_records(model, half, method, request)]


def _failure(record: Record, method: CorpusMethod, error: BaseException) -> BadRecord:
    message = " ".join(str(error).split())[:MAX_MESSAGE] or type(error).__name__
    if "NaN or infinite" in message:
        reason = "nan"
    elif isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        reason = "out-of-memory"
    elif isinstance(error, InputError) and record.image is not None:
        reason = "broken-image"
    elif isinstance(error, InputError):
        reason = "cannot-be-explained"
    else:
        reason, message = "model-failure", f"{type(error).__name__}: {message}"
    return BadRecord(record.position, record.location, reason, message, record.id, method.title)
