"""Lines, tables and JSON lines, read so that a mistake is told with its file and line."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rationales.errors import DataError, InputError
from rationales.files import decode

Row = tuple[str, dict[str, str]]  # where it stands ("FILE, line 3"), and column -> value


def text_of(path: Path, encoding: str = "utf-8") -> str:
    """The whole file, unpacked when its name ends in .gz; a mark of the byte order is left out."""
    try:
        raw = path.read_bytes()
        if path.suffix == ".gz":
            raw = gzip.decompress(raw)
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}; it may be incomplete") from None
    try:
        content = decode(raw, str(path)) if encoding == "utf-8" else raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not {encoding} (byte {error.start})") from None
    except InputError as error:
        raise DataError(str(error)) from None
    content = content.removeprefix("\ufeff")
    if not content.strip():
        raise DataError(f"{path} is empty")
    return content


def lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """Where each line stands, and the line; empty ones are left out."""
    # Not splitlines(): texts hold characters (U+2028, U+0085) that it takes for the end of a line.
    for number, line in enumerate(text_of(path, encoding).split("\n"), start=1):
        if line.strip():
            yield f"{path}, line {number}", line.removesuffix("\r")


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each object stands, and the object."""
    for place, line in lines(path):
        try:
            found = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{place} is not JSON: {error.msg} (character {error.colno})") from None
        if not isinstance(found, dict):
            raise DataError(f"{place}: an object in braces is expected, not {type(found).__name__}")
        yield place, found


def table(path: Path, needed: Sequence[str], delimiter: str = ",", quoted: bool = True) -> Iterator[Row]:
    """The rows of a table whose first line names its columns; `needed` must be among them."""
    rows = csv.reader(
        _kept_ends(text_of(path)),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=quoted,
    )
    header: list[str] = []
    try:
        for row in rows:
            if not row:
                continue
            if not header:
                header = [column.strip() for column in row]
                check_columns(path, header, needed)
                continue
            place = f"{path}, line {rows.line_num}"  # where the row ends
            if len(row) != len(header):
                raise DataError(f"{place}: {len(row)} columns where the first line names {len(header)}")
            yield place, dict(zip(header, row, strict=True))
    except csv.Error as error:
        advice = "; keep texts as long as this as JSON lines" if "limit" in str(error) else ""
        raise DataError(f"{path}, line {rows.line_num}: {error}{advice}") from None


def check_columns(path: Path, there: Iterable[str], needed: Sequence[str]) -> None:
    """Say which columns are missing."""
    found = list(there)
    missing = [column for column in needed if column not in found]
    if missing:
        raise DataError(f"{path} has no column {', '.join(missing)}; it has: {', '.join(found)}")


def field(place: str, row: dict[str, Any], name: str) -> Any:
    """A field that must be there."""
    if name not in row:
        raise DataError(f"{place}: there is no field {name!r}; there is: {', '.join(map(str, row)) or 'nothing'}")
    return row[name]


def _kept_ends(content: str) -> Iterator[str]:
    """Lines with their ends, split at line feeds only: a quoted field may hold any other character."""
    for line in content.split("\n"):
        yield line + "\n"
