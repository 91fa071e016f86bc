"""How far a corpus run is, and what it came to."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rationales.corpus.manifest import ADVICE, ShardEntry, StorageError
from rationales.corpus.shards import Shard


@dataclass(frozen=True)
class Progress:
    """How far a run is, passed to `on_progress` after every shard and, once in a while, while shards are open."""

    totals: Mapping[str, int]  # of all finished shards: records, explained, failed, skipped, rows, units, tokens, ...
    open_records: int  # of open shards that are done, estimated from the share of their work
    records_now: int  # explained or failed in this call, those of open shards among them
    share: float  # of the input; 0 where it is unknown
    resumed_share: float  # of the input that was finished before this call
    seconds: float  # since the first shard of this call was begun

    @property
    def records_per_second(self) -> float:
        """Records explained or failed in this call per second; skipped ones take no time worth counting."""
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
    tokens: int  # that the model read, all rows together; 0 for images
    steps: int  # of optimisation, all rows together
    bytes: int  # of all shards
    shards: int
    shards_now: int  # explained in this call, not found finished
    seconds: float
    records_per_second: float  # explained or failed in this call
    units_per_second: float
    tokens_per_second: float
    steps_per_second: float
    peak_open_records: int  # in memory at once
    reasons: Mapping[str, int] = field(default_factory=dict)  # of failures

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain data."""
        return {**asdict(self), "folder": str(self.folder)}


@dataclass
class _OpenShard:
    """A shard that is being explained."""

    records: int  # without skipped ones
    share: float  # of the input
    done: float = 0.0  # share of its work


@dataclass
class ProgressMeter:
    """Counts what a call finishes, and how much of the input that is."""

    began: float = field(default_factory=time.perf_counter)
    shards: int = 0  # finished in this call, as all counts
    records: int = 0  # explained or failed
    units: int = 0
    tokens: int = 0
    steps: int = 0
    share: float = 0.0  # of the input, finished in this call or before
    resumed_share: float = 0.0
    _read_share: float = 0.0  # of the input, up to the last shard that was read
    _open: dict[int, _OpenShard] = field(default_factory=dict)

    def skip(self, shard: Shard) -> None:
        """A shard was finished before this call."""
        share = self._next_share(shard)
        self.share, self.resumed_share = self.share + share, self.resumed_share + share

    def begin(self, shard: Shard) -> None:
        """A shard is read and will be explained."""
        self._open[shard.index] = _OpenShard(shard.count - shard.skipped, self._next_share(shard))

    def advance(self, index: int, done: float) -> None:
        """So large a share of the work on an open shard is done."""
        self._open[index].done = done

    def finish(self, entry: ShardEntry) -> None:
        """A shard is explained and stored."""
        self.share += self._open.pop(entry.index).share
        self.shards, self.records = self.shards + 1, self.records + entry.explained + entry.failed
        self.units, self.tokens = self.units + entry.units, self.tokens + entry.tokens
        self.steps += entry.steps

    def progress(self, totals: Mapping[str, int]) -> Progress:
        """How far the run is; `totals` of all finished shards."""
        open_records = int(sum(shard.records * shard.done for shard in self._open.values()))
        share = self.share + sum(shard.share * shard.done for shard in self._open.values())
        seconds = time.perf_counter() - self.began
        records_now = self.records + open_records
        return Progress(totals, open_records, records_now, min(round(share, 9), 1.0), self.resumed_share, seconds)

    def rates(self) -> dict[str, Any]:
        """Seconds, and what this call finished in each of them."""
        seconds = time.perf_counter() - self.began
        names = ("records", "units", "tokens", "steps")
        return {"seconds": seconds, **{f"{name}_per_second": getattr(self, name) / seconds for name in names}}

    def _next_share(self, shard: Shard) -> float:
        share, self._read_share = shard.share - self._read_share, shard.share
        return share


@dataclass(frozen=True)
class EventLog:
    """A file of JSON lines, one for each event of a run: `start`, `shard`, `end`, `stopped`; nothing without a path."""

    path: Path | None

    def write(self, event: str, **values: Any) -> None:
        """Append an event with the time in seconds since 1970."""
        if self.path is None:
            return
        line = json.dumps({"event": event, "time": time.time(), **values}, ensure_ascii=False, default=str)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise StorageError(f"cannot write the log {self.path}: {error.strerror}; {ADVICE}") from error
