"""How far a corpus run is, and what it came to."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rationales.corpus.manifest import ADVICE, StorageError


@dataclass(frozen=True)
class Progress:
    """How far a run is, passed to `on_progress` after every shard."""

    totals: Mapping[str, int]  # of all finished shards: records, explained, failed, skipped, rows, units, steps, bytes
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
    steps: int  # of optimisation, all rows together
    bytes: int  # of all shards
    shards: int
    shards_now: int  # explained in this call, not found finished
    seconds: float
    records_per_second: float
    units_per_second: float
    steps_per_second: float
    peak_open_records: int  # in memory at once
    reasons: Mapping[str, int] = field(default_factory=dict)  # of failures

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain data."""
        return {**asdict(self), "folder": str(self.folder)}


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
