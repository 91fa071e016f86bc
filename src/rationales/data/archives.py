"""The cache folder for data, archives unpacked into it, and files found by name."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from rationales.data.unpacking import BoundedGzip, check_ratio, is_gzip
from rationales.errors import DataError

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip", ".whl")
MAX_UNPACKED = 64 * 1024**3  # bytes that an archive may unpack to
MAX_DEPTH = 4  # levels of folders in which a file is searched


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/rationales/data`, by default below ~/.cache."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    # the standard ignores relative paths
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".cache"
    return base / "rationales" / "data"


def make_folder(folder: Path) -> Path:
    """Create the folder unless it exists, and return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        advice = "set XDG_CACHE_HOME to a folder that can be written"
        raise DataError(f"cannot create the folder {folder}: {error.strerror}; {advice}") from None
    return folder


def is_archive(path: Path) -> bool:
    """Whether the file is unpacked before it is read; a single .gz file is not."""
    return path.name.lower().endswith(ARCHIVES)


def unpacked(path: Path, into: Path | None = None) -> Path:
    """The path itself, or for an archive the folder below `into` (default: the cache) that it is unpacked to."""
    if not is_archive(path) or path.is_dir():
        return path
    stem = next(path.name[: -len(end)] for end in ARCHIVES if path.name.lower().endswith(end))
    home = (into or cache_folder()) / f"{stem}-{digest(path)[:16]}"  # by content: a changed archive gets a new folder
    if home.is_dir():
        return home
    make_folder(home.parent)
    temporary = Path(tempfile.mkdtemp(dir=home.parent, prefix=f".{stem}."))
    try:
        _unpack(path, temporary)
        temporary.chmod(0o755)
        temporary.rename(home)
    except OSError as error:
        if not home.is_dir():  # else another process has unpacked the same archive meanwhile
            raise DataError(f"cannot unpack {path} into {home}: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return home


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    total = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                total.update(piece)
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    return total.hexdigest()


def _unpack(path: Path, folder: Path) -> None:
    """Unpack an archive into the folder; a member that points outside of it is an error."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                _check_size(path, (member.file_size for member in packed.infolist()))
                for member in packed.infolist():
                    member_path = (folder / member.filename).resolve()
                    if not member_path.is_relative_to(folder.resolve()):
                        raise DataError(f"{path} holds {member.filename!r}, which points out of its folder")
                packed.extractall(folder)  # noqa: S202  # every name was checked above; links become plain files
        else:
            content: BinaryIO | BoundedGzip = BoundedGzip(path) if is_gzip(path) else path.open("rb")
            with content, tarfile.open(fileobj=content, mode="r:") as bundle:
                _check_size(path, (entry.size for entry in bundle))  # before a member is skipped
                bundle.extractall(folder, filter="data")
    except tarfile.FilterError as error:
        raise DataError(f"{path} is not safe to unpack: {error}") from None
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise DataError(f"{path} cannot be unpacked ({reason}); it may be incomplete: get it again") from None


def _check_size(path: Path, sizes: Iterable[int]) -> None:
    """Raise a DataError where the members would fill the disk, or unpack to implausibly many bytes."""
    total, packed = 0, path.stat().st_size
    for size in sizes:
        total += size
        if total > MAX_UNPACKED:
            size_limit = f"{total / 1024**3:.0f} GB, more than {MAX_UNPACKED // 1024**3}"
            raise DataError(f"{path} would unpack to {size_limit}; refused")
        check_ratio(path, total, packed)


def find(root: Path, *names: str) -> Path | None:
    """The file or folder with one of these names nearest to `root`, or `root` itself; hidden ones are excluded."""
    if root.name in names and root.exists():
        return root
    candidates = (folder / name for folder in folders(root) for name in names)
    return next((path for path in candidates if path.exists()), None)


def find_required(root: Path, name: str, expected: str) -> Path:
    """The file of this name nearest to `root`; a DataError says what is `expected` there."""
    path = find(root, name)
    if path is None:
        raise DataError(f"there is no {name} in {root}; {expected}")
    return path


def folders(root: Path) -> Iterator[Path]:
    """`root` and the folders below it, level by level, in the order of their names."""
    level = [root] if root.is_dir() else []
    for _ in range(MAX_DEPTH):
        yield from level
        entries = (entry for folder in level for entry in sorted(folder.iterdir()))
        level = [entry for entry in entries if entry.is_dir() and not entry.name.startswith((".", "__MACOSX"))]
