"""Downloads files from their official addresses and verifies size and checksum."""

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
CHUNK = 1 << 16  # bytes
TIMEOUT = 30.0  # seconds without a byte


@dataclass(frozen=True)
class Source:
    """A file at its official address, with the size and the SHA-256 that the download must have."""

    address: str
    size: int
    sha256: str

    @property
    def file(self) -> str:
        """The file's name."""
        return self.address.rpartition("/")[2]


def fetch(source: Source, folder: Path, progress: Progress | None = None) -> Path:
    """The path of the file in `folder`, downloaded unless it is there already."""
    target = make_folder(folder) / source.file
    if target.is_file():
        if digest(target) == source.sha256:
            return target
        raise DataError(
            f"{target} is not the file that {source.address} stands for (its checksum is another); remove it to get "
            "it anew"
        )
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{source.file}.", suffix=".part")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            checksum = _stream(source, file.write, progress)
        if checksum != source.sha256:
            raise DataError(
                f"what {source.address} sent is not what is expected: its SHA-256 is {checksum}, not {source.sha256}; "
                "nothing was kept"
            )
        temporary.chmod(0o644)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _stream(source: Source, write: Callable[[bytes], int], progress: Progress | None) -> str:
    """Write the downloaded bytes and return their SHA-256; more bytes than expected are a DataError."""
    request = urllib.request.Request(  # noqa: S310  # addresses come from the list of data sets alone
        source.address, headers={"User-Agent": f"rationales/{__version__}"}
    )
    checksum, received = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310  # as above
            while chunk := answer.read(CHUNK):
                received += len(chunk)
                if received > source.size:
                    raise DataError(f"{source.address} sends more than the {source.size} bytes it should; stopped")
                checksum.update(chunk)
                write(chunk)
                if progress is not None:
                    progress(received, source.size)
    except urllib.error.HTTPError as error:
        raise DataError(f"{source.address} answers {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"cannot reach {source.address}: {reason}") from None
    return checksum.hexdigest()
