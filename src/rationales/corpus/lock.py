"""One process per output folder: a locked file that names the process which holds it.

The system ends the lock with its process, however that ended: what a killed process left behind locks nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rationales.corpus.manifest import StorageError
from rationales.errors import RationalesError

LOCK = ".lock"


class LockedError(RationalesError):
    """Another process writes to the folder."""


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Inside the block no other process can have the lock of this folder."""
    path = folder / LOCK
    descriptor = _acquire(path)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
        yield
    finally:
        with contextlib.suppress(OSError):  # on POSIX it is removed while it is locked: nobody waits for this file
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path) -> int:
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StorageError(f"cannot write into {path.parent}: {error.strerror}") from None
        if not _try_lock(descriptor):
            os.close(descriptor)
            raise LockedError(f"{_holder(path)} is writing to {path.parent}; wait for it, or give another folder")
        if _is_current(path, descriptor):
            return descriptor
        os.close(descriptor)  # the holder removed the file meanwhile: a lock on it protects nothing


def _try_lock(descriptor: int) -> bool:
    """Lock an open file unless another process has locked it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # beyond the content, which others may read
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_current(path: Path, descriptor: int) -> bool:
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _holder(path: Path) -> str:
    """The process that the file names."""
    try:
        data = json.loads(path.read_bytes())
        return f"process {int(data['pid'])} on {data['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
