"""The manifest of a corpus run: its settings and, for every finished shard, counts and checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rationales.corpus.records import DOUBTFUL_REASONS
from rationales.errors import DataError, RationalesError
from rationales.files import write_parts

FORMAT = 3  # raised when the folder changes so that older ones would be misread
MANIFEST, ERRORS = "manifest.json", "errors.jsonl"
SHARDS, SHARD_ERRORS, REPORT = "shards", "errors", "report"  # folders
INDEX, RECORD_PAGES = "index.html", "records"  # of the report
ADVICE = "finished shards are intact; put it right and run the same command again, which goes on from there"


class StorageError(RationalesError):
    """Results cannot be written; what was written before is intact."""


@dataclass(frozen=True)
class ShardEntry:
    """A finished shard."""

    index: int
    first: int  # position of its first record
    explained: int
    failed: int
    skipped: int
    rows: int
    units: int  # scores
    tokens: int  # that the model read, all rows together; 0 for images
    steps: int  # of optimisation, all rows together
    digest: str  # of its records
    bytes: int
    sha256: str
    errors_sha256: str | None  # None: it has no file of errors
    reasons: Mapping[str, int]  # reason -> number of failed records

    @property
    def records(self) -> int:
        """All records of the shard."""
        return self.explained + self.failed + self.skipped

    @property
    def doubtful(self) -> bool:
        """Whether a record failed for a reason that may lie in the machine."""
        return any(reason in DOUBTFUL_REASONS for reason in self.reasons)

    @cached_property
    def line(self) -> str:
        """The entry as JSON; kept, because the manifest is written once per shard with the entries of all."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass
class Manifest:
    """What is finished in a folder."""

    settings: dict[str, Any]
    entries: dict[int, ShardEntry] = field(default_factory=dict)
    complete: bool = False

    def save(self, folder: Path) -> None:
        """Write the manifest atomically."""
        data = {
            "format": FORMAT,
            "complete": self.complete,
            "totals": self.totals(),
            "settings": self.settings,
        }
        head = json.dumps(data, ensure_ascii=False, indent=1, sort_keys=True).removesuffix("\n}")
        lines = ",\n".join(self.entries[index].line for index in sorted(self.entries))
        store(folder / MANIFEST, f'{head},\n "shards": [\n{lines}\n ]\n}}\n'.encode())

    def totals(self) -> dict[str, int]:
        """Sums over all finished shards; records = explained + failed + skipped."""
        names = ("records", "explained", "failed", "skipped", "rows", "units", "tokens", "steps", "bytes")
        return {name: sum(getattr(entry, name) for entry in self.entries.values()) for name in names}

    def reasons(self) -> dict[str, int]:
        """Reason -> number of failed records."""
        totals: dict[str, int] = {}
        for entry in self.entries.values():
            for reason, number in entry.reasons.items():
                totals[reason] = totals.get(reason, 0) + number
        return dict(sorted(totals.items()))


def load_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; None where there is none."""
    path = folder / MANIFEST
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise DataError(f"{path} is no manifest of this version")
    try:
        entries = [ShardEntry(**entry) for entry in data["shards"]]
        return Manifest(data["settings"], {entry.index: entry for entry in entries}, bool(data["complete"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is incomplete ({error})") from None


def shard_path(folder: Path, index: int) -> Path:
    """The Parquet file of a shard."""
    return folder / SHARDS / f"{index:06}.parquet"


def shard_errors_path(folder: Path, index: int) -> Path:
    """The bad records of a shard; there is no such file where there are none."""
    return folder / SHARD_ERRORS / f"{index:06}.jsonl"


def is_intact(folder: Path, entry: ShardEntry) -> bool:
    """Whether the files of a shard are there and have their checksums."""
    if checksum(shard_path(folder, entry.index)) != entry.sha256:
        return False
    return checksum(shard_errors_path(folder, entry.index)) == entry.errors_sha256


def checksum(path: Path) -> str | None:
    """SHA-256 of a file; None where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()


def store(path: Path, content: bytes) -> None:
    """Write a file durably; a StorageError says what to do where the disk is full or the folder is read-only."""
    store_parts(path, [content])


def store_parts(path: Path, parts: Iterable[bytes]) -> None:
    """The same with content that need not be in memory at once."""
    try:
        write_parts(path, parts, durable=True)
    except (RationalesError, OSError) as error:
        raise StorageError(f"{error}; {ADVICE}") from error


def clear(folder: Path) -> None:
    """Remove the results of an earlier run, and nothing else."""
    for path in _result_files(folder):
        path.unlink(missing_ok=True)


def remove_partial_files(folder: Path) -> None:
    """Remove what a killed process left half-written."""
    for home in (folder, folder / SHARDS, folder / SHARD_ERRORS):
        for path in home.glob(".*.part") if home.is_dir() else ():
            path.unlink(missing_ok=True)


def _result_files(folder: Path) -> list[Path]:
    shards, errors = (folder / SHARDS).glob("*.parquet"), (folder / SHARD_ERRORS).glob("*.jsonl")
    pages = report_pages(folder / REPORT)
    return [folder / MANIFEST, folder / ERRORS, *sorted(shards), *sorted(errors), *pages]


def report_pages(folder: Path) -> list[Path]:
    """The pages of an earlier report."""
    records = (path for path in (folder / RECORD_PAGES).glob("*.html") if path.stem.isdecimal())
    return [folder / INDEX, *sorted(records)]
