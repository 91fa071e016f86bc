"""Reads compressed files with limits, so that a small file cannot fill the memory or the disk."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import BinaryIO

from rationales.errors import DataError

MEGABYTE = 1 << 20
UNCHECKED_SIZE = 16 * MEGABYTE  # bytes that any compressed file may unpack to
MAX_RATIO = 200  # of unpacked to packed bytes beyond that size; texts reach 10, gzip can reach 1,000
MAX_READ = 16 * MEGABYTE  # bytes at once; readers of archives read small pieces unless a header is forged
_GZIP = b"\x1f\x8b"


class BoundedGzip(gzip.GzipFile):
    """A gzip file that raises a DataError when it unpacks to far more than its size, or on too large a read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._path = path

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= MAX_READ:
            raise DataError(f"{self._path} holds a part of {size} bytes that should be a short header; refused")
        piece = super().read(size)
        self._check()
        return piece

    def readline(self, size: int | None = -1) -> bytes:
        line = super().readline(-1 if size is None else size)
        self._check()
        return line

    def _check(self) -> None:
        unpacked = self.tell()
        if unpacked > UNCHECKED_SIZE:
            check_ratio(self._path, unpacked, self.fileobj.tell())  # type: ignore[union-attr]  # None once closed


def check_ratio(path: Path, unpacked: int, packed: int) -> None:
    """Raise a DataError where the ratio of unpacked to packed bytes is implausible."""
    if unpacked > UNCHECKED_SIZE and unpacked > MAX_RATIO * packed:
        raise DataError(
            f"{path} unpacks to more than {MAX_RATIO} times its size; refused, for no real data does. "
            "If you trust it, unpack it yourself"
        )


def is_gzip(path: Path) -> bool:
    """Whether the content is gzip data, whatever the name of the file."""
    with path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def open_packed(path: Path) -> BinaryIO | BoundedGzip:
    """The file opened for reading, decompressed when its name ends in .gz."""
    return BoundedGzip(path) if path.suffix.lower() == ".gz" else path.open("rb")
