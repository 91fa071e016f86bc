"""Lines, tables and JSON lines, read piece by piece so that any size fits; a mistake is told with its file and line."""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rationales.data.unpacking import MEGABYTE, open_packed
from rationales.errors import DataError, InputError
from rationales.files import decode

Row = tuple[str, dict[str, str]]  # where it stands ("FILE, line 3"), and column -> value

LONGEST = 4 * MEGABYTE  # bytes of a line, of a row of a table, or of a document: some 700,000 words


def text_of(path: Path, encoding: str = "utf-8") -> str:
    """The whole file, unpacked when its name ends in .gz; a mark of the byte order is left out."""
    with _told(path), open_packed(path) as file:
        raw = file.read(LONGEST + 1)
    if len(raw) > LONGEST:
        raise DataError(f"{path} is longer than {LONGEST // MEGABYTE} MB, which is too much for one document")
    content = _decoded(raw, str(path), encoding).removeprefix("\ufeff")
    if not content.strip():
        raise DataError(f"{path} is empty")
    return content


def lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """Where each line stands, and the line; empty ones are left out."""
    for number, line in _raw_lines(path, encoding):
        if line.strip():
            yield f"{path}, line {number}", line.removesuffix("\n").removesuffix("\r")


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each object stands, and the object."""
    for place, line in lines(path):
        try:
            content = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{place} is not JSON: {error.msg} (character {error.colno})") from None
        except RecursionError:
            raise DataError(f"{place}: lists or objects are nested too deeply") from None
        if not isinstance(content, dict):
            raise DataError(f"{place}: an object in braces is expected, not {type(content).__name__}")
        yield place, content


def table(path: Path, needed: Sequence[str], delimiter: str = ",", quoted: bool = True) -> Iterator[Row]:
    """The rows of a table whose first line names its columns; `needed` must be among them."""
    source = _RowLines(path)
    rows = csv.reader(
        source,
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=quoted,
    )
    header: list[str] = []
    try:
        for row in rows:
            source.row_size = 0
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
    columns = list(there)
    missing = [column for column in needed if column not in columns]
    if missing:
        raise DataError(f"{path} has no column {', '.join(missing)}; it has: {', '.join(columns)}")


def field(place: str, row: dict[str, Any], name: str) -> Any:
    """A field that must be there."""
    if name not in row:
        raise DataError(f"{place}: there is no field {name!r}; there is: {', '.join(map(str, row)) or 'nothing'}")
    return row[name]


class _RowLines:
    """The lines of a table; cells in quotes may go over several, but a row is no longer than `LONGEST`."""

    def __init__(self, path: Path) -> None:
        self.row_size = 0  # characters since the last row began; set back by the reader of rows
        self._path, self._lines = path, _raw_lines(path, "utf-8")

    def __iter__(self) -> _RowLines:
        return self

    def __next__(self) -> str:
        number, line = next(self._lines)
        self.row_size += len(line)
        if self.row_size > LONGEST:
            raise DataError(
                f"{self._path}, line {number}: a row is longer than {LONGEST // MEGABYTE} MB; is a quote missing?"
            )
        return line


def _raw_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """The number of each line from 1, and the line with its end; a file without any visible character is an error."""
    # Split at line feeds only: texts hold characters (U+2028, U+0085) that str.splitlines takes for the end of a line.
    number, empty = 0, True
    with _told(path), open_packed(path) as file:
        while raw := file.readline(LONGEST + 1):
            number += 1
            if len(raw) > LONGEST:
                raise DataError(f"{path}, line {number} is longer than {LONGEST // MEGABYTE} MB; refused")
            line = _decoded(raw, f"{path}, line {number}", encoding)
            line = line.removeprefix("\ufeff") if number == 1 else line
            empty = empty and not line.strip()
            yield number, line
    if empty:
        raise DataError(f"{path} is empty")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What can go wrong with a file becomes a DataError that names it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}; it may be incomplete") from None


def _decoded(raw: bytes, name: str, encoding: str) -> str:
    try:
        return decode(raw, name) if encoding == "utf-8" else raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not {encoding} (byte {error.start})") from None
    except InputError as error:
        raise DataError(str(error)) from None
