"""Getting a file from its official address: whole, with the right checksum, or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rationales.data.archives import digest, make_folder
from rationales.errors import DataError
from rationales.version import __version__

Progress = Callable[[int, int], None]  # bytes so far, bytes in all
PIECE = 1 << 16
PATIENCE = 30.0  # seconds without a byte


@dataclass(frozen=True)
class Source:
    """A file at the address its makers gave it; what arrives must have this size and this SHA-256."""

    address: str
    size: int
    sha256: str

    @property
    def file(self) -> str:
        """The file's name."""
        return self.address.rpartition("/")[2]


def fetch(source: Source, folder: Path, progress: Progress | None = None) -> Path:
    """The file in `folder`, downloaded unless it is there already."""
    target = make_folder(folder) / source.file
    if target.is_file():
        if digest(target) == source.sha256:
            return target
        raise DataError(
            f"{target} is not the file that {source.address} stands for (its checksum is another); remove it to get "
            "it anew"
        )
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{source.file}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            found = _stream(source, file.write, progress)
        if found != source.sha256:
            raise DataError(
                f"what {source.address} sent is not what is expected: its SHA-256 is {found}, not {source.sha256}; "
                "nothing was kept"
            )
        part.chmod(0o644)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def _stream(source: Source, write: Callable[[bytes], int], progress: Progress | None) -> str:
    """Pass the bytes on and give their SHA-256; more of them than expected is an error."""
    request = urllib.request.Request(  # noqa: S310  # addresses come from the list of data sets alone
        source.address, headers={"User-Agent": f"rationales/{__version__}"}
    )
    total, seen = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310  # as above
            while piece := answer.read(PIECE):
                seen += len(piece)
                if seen > source.size:
                    raise DataError(f"{source.address} sends more than the {source.size} bytes it should; stopped")
                total.update(piece)
                write(piece)
                if progress is not None:
                    progress(seen, source.size)
    except urllib.error.HTTPError as error:
        raise DataError(f"{source.address} answers {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"cannot reach {source.address}: {reason}") from None
    return total.hexdigest()
