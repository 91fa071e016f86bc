"""Helpers for tests of corpus runs: a small corpus, a cheap run, and the bytes of a folder."""

from __future__ import annotations

import csv
import functools
from pathlib import Path
from typing import Any

from reviews import known_model

import rationales
from rationales import corpus

WORDS = ["bread", "sea", "owl", "film", "heart", "cup", "hill", "door", "song", "lamp"]


@functools.cache
def small_model() -> Any:
    """A model that says positive where it reads 'bread'."""
    return rationales.load(*known_model())


def texts(count: int) -> list[str]:
    return [
        " ".join(WORDS[(number * step + step) % 10] for step in range(1, 4 + number % 5)) for number in range(count)
    ]


def write_table(path: Path, count: int = 20) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "lang"])
        writer.writerows((f"r{number}", text, "en" if number % 2 else "de") for number, text in enumerate(texts(count)))
    return path


def run(inputs: Any, out: Path, **options: Any) -> corpus.RunSummary:
    """A run with the small model and random scores."""
    return corpus.run(inputs, out, **{"model": small_model(), "methods": ["random"], "shard_size": 4, **options})


def content(folder: Path) -> dict[str, bytes]:
    """Relative path -> bytes of every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def rows(folder: Path) -> list[dict[str, Any]]:
    """All rows of a run, in order."""
    import pyarrow.parquet as parquet

    return [
        row for path in sorted((folder / "shards").glob("*.parquet")) for row in parquet.read_table(path).to_pylist()
    ]
