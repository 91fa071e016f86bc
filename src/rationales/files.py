"""Reads and writes files; writing is atomic, so that an interruption leaves the old file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from rationales.errors import InputError


def write_text(path: str | os.PathLike[str], content: str) -> Path:
    """Write `content` as UTF-8 atomically; returns the path."""
    try:
        raw = content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"cannot write {path}: the text holds half a character (character {error.start})") from None
    return write_bytes(path, raw)


def write_bytes(path: str | os.PathLike[str], content: bytes, *, durable: bool = False) -> Path:
    """Write `content` to a temporary file beside `path`, then rename it; returns the path.

    `durable`: on the disk before this returns, so that a power failure cannot take it back.
    """
    return write_parts(path, [content], durable=durable)


def write_parts(path: str | os.PathLike[str], parts: Iterable[bytes], *, durable: bool = False) -> Path:
    """The same as `write_bytes`, with content that need not be in memory at once."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a folder; give a file name")
    if not target.parent.is_dir():
        raise InputError(f"cannot write {target}: the folder {target.parent} does not exist")
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
        if durable:
            _sync_folder(target.parent)
    except BaseException as error:  # Ctrl-C included: no half-written file stays behind
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError):
            raise InputError(f"cannot write {target}: {error.strerror}") from error
        raise
    return target


def read_text(path: str | os.PathLike[str]) -> str:
    """The content of a UTF-8 text file; an InputError for anything else."""
    source = Path(path)
    try:
        raw = source.read_bytes()
    except FileNotFoundError:
        raise InputError(f"there is no file {source}") from None
    except OSError as error:
        raise InputError(f"cannot read {source}: {error.strerror}") from error
    return decode(raw, str(source))


def decode(raw: bytes, name: str) -> str:
    """Bytes as UTF-8 text; error messages call their source `name`."""
    if b"\x00" in raw:
        raise InputError(f"{name} is binary, not a text; give UTF-8 text")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        position = f"byte {error.start} is {raw[error.start]:#04x}"
        raise InputError(f"{name} is not UTF-8 ({position}); convert it to UTF-8 first") from None


def _sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
