"""Reading and writing files so that nothing is lost: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from rationales.errors import InputError


def write_text(path: str | os.PathLike[str], content: str) -> Path:
    """Write `content` as UTF-8, atomically: an interrupted write leaves what was there before."""
    try:
        raw = content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"cannot write {path}: the text holds half a character (character {error.start})") from None
    return write_bytes(path, raw)


def write_bytes(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write `content` beside `path`, then move it into place."""
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
            file.write(content)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException as error:  # Ctrl-C included: no half-written file stays behind
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError):
            raise InputError(f"cannot write {target}: {error.strerror}") from error
        raise
    return target


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a UTF-8 text file; anything else is an error that says so."""
    source = Path(path)
    try:
        raw = source.read_bytes()
    except FileNotFoundError:
        raise InputError(f"there is no file {source}") from None
    except OSError as error:
        raise InputError(f"cannot read {source}: {error.strerror}") from error
    return decode(raw, str(source))


def decode(raw: bytes, name: str) -> str:
    """Bytes as UTF-8 text; `name` says in a message where they came from."""
    if b"\x00" in raw:
        raise InputError(f"{name} is binary, not a text; give UTF-8 text")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte {error.start} is {raw[error.start]:#04x}"
        raise InputError(f"{name} is not UTF-8 ({place}); convert it to UTF-8 first") from None


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
