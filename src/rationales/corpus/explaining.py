"""Explains one shard with a loaded model; a record that fails is isolated, the others are kept.

This is what a worker does, in this process or in another. Nothing here depends on other shards, so results are the same
whoever explains a shard, and whenever.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from rationales.corpus.failures import (
    RECORD_ERRORS,
    FailingModelError,
    check_device,
    control_input,
    failed_record,
)
from rationales.corpus.manifest import ADVICE, ShardEntry, shard_errors_path, shard_path, store
from rationales.corpus.memory import release_free_memory
from rationales.corpus.records import DOUBTFUL_REASONS, OUT_OF_MEMORY, BadRecord, Record
from rationales.corpus.row_format import row_of, serialized
from rationales.corpus.shards import Shard
from rationales.errors import InputError, OptionError
from rationales.evaluation.scores.cache import model_fingerprint
from rationales.evaluation.scores.code_fingerprint import code_fingerprint
from rationales.methods import Method
from rationales.models.batch.execution import garbage_collection_paused
from rationales.models.kinds import kind_named
from rationales.models.load import load
from rationales.models.model import Model
from rationales.models.text.fingerprint import tokenizer_digest
from rationales.pipeline.explain import explain
from rationales.rationale import Rationale

OnShare = Callable[[float], None]  # called with the share of the work that is done


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
    """A method with its name in the results, its smoothing and the shape of its rationales."""

    title: str
    method: Method
    smooth: float | None = None
    shape: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything that decides the scores, for the manifest."""
        trained = self.method.trained_part_fingerprint()
        options = json.loads(json.dumps(asdict(self.method), default=repr))
        options |= {name: value for name in ("smooth", "shape") if (value := getattr(self, name)) is not None}
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
    tokenizer, prompt_settings = getattr(model, "tokenizer", None), getattr(model, "prompt_settings", None)
    return {
        "name": model.name,
        "kind": model.kind,
        "labels": list(model.labels),
        "unit": model.unit,
        "baseline": model.baseline,
        "fingerprint": model_fingerprint(model),
        **({} if tokenizer is None else {"tokenizer": tokenizer_digest(tokenizer)}),
        **({} if prompt_settings is None else {"prompt": prompt_settings()}),
    }


@dataclass(frozen=True)
class Outcomes:
    """What became of records: the rows of each by its position, and the records that failed."""

    rows: Mapping[int, Sequence[dict[str, Any]]]
    failures: Mapping[int, BadRecord]

    def joined(self, further: Outcomes) -> Outcomes:
        """These outcomes and those of other records."""
        return Outcomes({**self.rows, **further.rows}, {**self.failures, **further.failures})


def explain_shard(
    model: Model,
    request: ExplainRequest,
    shard: Shard,
    provenance: Mapping[str, Any],
    on_share: OnShare | None = None,
) -> ExplainedShard:
    """Explain the records of a shard with every method."""
    explained_shard = shard_files(shard, record_outcomes(model, request, shard.records, on_share), provenance)
    release_free_memory()
    return explained_shard


def record_outcomes(
    model: Model, request: ExplainRequest, records: Sequence[Record], on_share: OnShare | None = None
) -> Outcomes:
    """Explain records with every method; those that fail with one are left out of the next."""
    rows: dict[int, list[dict[str, Any]]] = {record.position: [] for record in records}
    failures: dict[int, BadRecord] = {}
    share = 1 / len(request.methods)
    for number, method in enumerate(request.methods):
        remaining = [record for record in records if record.position not in failures]
        outcomes = _MethodPass(model, method, request).outcomes(remaining, _scaled(on_share, number * share, share))
        with garbage_collection_paused():
            for record, outcome in zip(remaining, outcomes, strict=True):
                if isinstance(outcome, BadRecord):
                    failures[record.position] = outcome
                else:
                    rows[record.position].append(row_of(record, method.title, outcome))
        del outcomes  # their memory is needed for what follows
    return Outcomes({position: rows[position] for position in rows if position not in failures}, failures)


def shard_files(shard: Shard, outcomes: Outcomes, provenance: Mapping[str, Any]) -> ExplainedShard:
    """The files of a shard whose records had these outcomes."""
    _check_memory(shard, outcomes)
    rows = [row for position in sorted(outcomes.rows) for row in outcomes.rows[position]]
    bad_records = sorted([*shard.bad_records, *outcomes.failures.values()], key=lambda bad: bad.position)
    content = serialized(rows, {**provenance, "shard": shard.index, "first": shard.first})
    lines = "".join(json.dumps(bad.to_dict(), ensure_ascii=True) + "\n" for bad in bad_records).encode()
    entry = ShardEntry(
        index=shard.index,
        first=shard.first,
        explained=len(shard.records) - len(outcomes.failures),
        failed=len(bad_records),
        skipped=shard.skipped,
        rows=len(rows),
        units=sum(len(row["scores"]) for row in rows),
        tokens=sum(row["tokens"] for row in rows),
        steps=sum(row["steps"] for row in rows),
        digest=shard.digest,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        errors_sha256=hashlib.sha256(lines).hexdigest() if lines else None,
        reasons=dict(sorted(Counter(bad.reason for bad in bad_records).items())),
    )
    return ExplainedShard(entry, content, lines)


def explain_control(model: Model, request: ExplainRequest) -> None:
    """Explain a plain input with every method; only whether this process survives it matters."""
    for method in request.methods:
        _MethodPass(model, method, request).failure(control_input(model.kind))


@dataclass
class _MethodPass:
    """One method over the records of a shard; where a batch fails, it is halved until the records that fail are alone.

    Where a record fails, a record of the shard that was explained before is explained again, or a plain input: if that
    fails too, the cause is not the record, and a FailingModelError stops the run.
    """

    model: Model
    method: CorpusMethod
    request: ExplainRequest
    longest: Record | None = field(default=None, init=False)  # of the records that were explained

    def outcomes(self, records: Sequence[Record], on_share: OnShare | None = None) -> list[Rationale | BadRecord]:
        """The rationale of each record, or why it has none."""
        if not records:
            return []
        try:
            raw_inputs, names = [record.raw_input for record in records], [record.id for record in records]
            rationales = self._explain(raw_inputs, names, on_share)
            self.longest = max([*records, *filter(None, [self.longest])], key=lambda record: record.size)
            return list(rationales)
        except OptionError:
            raise
        except RECORD_ERRORS as error:
            check_device(error)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()  # an error may have been that of a full memory
            if len(records) == 1:
                bad = failed_record(records[0], self.method.title, error)
                self._check_control(records[0], bad)
                return [bad]
        middle = len(records) // 2
        halves = ((records[:middle], 0.0), (records[middle:], 0.5))
        return [outcome for half, begin in halves for outcome in self.outcomes(half, _scaled(on_share, begin, 0.5))]

    def failure(self, raw_input: Any) -> BaseException | None:
        """What is raised for an input; None where it is explained."""
        try:
            self._explain([raw_input], None, None)
        except OptionError:
            raise
        except RECORD_ERRORS as error:
            check_device(error)
            return error
        return None

    def _explain(self, raw_inputs: list[Any], names: list[str] | None, on_share: OnShare | None) -> Sequence[Rationale]:
        return explain(
            self.model,
            raw_inputs,
            method=self.method.method,
            target=self.request.target,
            seed=self.request.seed,
            smooth=self.method.smooth,
            shape=self.method.shape,
            names=names,
            progress=on_share,
        )

    def _check_control(self, record: Record, bad: BadRecord) -> None:
        if bad.reason not in DOUBTFUL_REASONS:
            return
        if self.longest is not None:
            control, control_name = self.longest.raw_input, f"on {self.longest.location}, which it explained before"
        else:
            control, control_name = control_input(self.model.kind, pair=record.pair is not None), "on a plain input"
        error = self.failure(control)
        if error is not None and not isinstance(error, InputError):
            raise FailingModelError(
                f"{self.method.title} fails on {record.location} and also {control_name}, so that the cause is not the "
                f"record: {bad.message}. No record of this shard was stored; {ADVICE}"
            )


def _check_memory(shard: Shard, outcomes: Outcomes) -> None:
    """Raise a FailingModelError where memory did not suffice for any of several records."""
    count, reasons = len(shard.records), {bad.reason for bad in outcomes.failures.values()}
    if 1 < count == len(outcomes.failures) and reasons == {OUT_OF_MEMORY}:
        first = shard.records[0]
        raise FailingModelError(
            f"memory ran out for each of the {count} records from {first.location} on: "
            f"{outcomes.failures[first.position].message}. Free memory, use fewer --workers, or leave long texts out "
            f"with --max-words; {ADVICE}"
        )


def _scaled(on_share: OnShare | None, begin: float, share: float) -> OnShare | None:
    return None if on_share is None else lambda done: on_share(begin + share * done)
