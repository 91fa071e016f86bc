"""Streams the rows of text files: lines, CSV and TSV tables, JSON lines; errors name the file and the line."""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rationales.data.unpacking import MEGABYTE, open_packed
from rationales.errors import DataError, InputError
from rationales.files import decode

LocatedRow = tuple[str, dict[str, str]]  # location ("FILE, line 3"), and column -> value

MAX_LENGTH = 4 * MEGABYTE  # bytes of a line, of a row of a table, or of a document: about 700,000 words


def text_of(path: Path, encoding: str = "utf-8") -> str:
    """The content of a file without byte-order mark, decompressed when its name ends in .gz."""
    with _data_errors(path), open_packed(path) as file:
        raw = file.read(MAX_LENGTH + 1)
    if len(raw) > MAX_LENGTH:
        raise DataError(f"{path} is longer than {MAX_LENGTH // MEGABYTE} MB, which is too much for one document")
    content = _decoded(raw, str(path), encoding).removeprefix("\ufeff")
    if not content.strip():
        raise DataError(f"{path} is empty")
    return content


def lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """(location, line) of each line that is not empty."""
    for number, line in _raw_lines(path, encoding):
        if line.strip():
            yield f"{path}, line {number}", line.removesuffix("\n").removesuffix("\r")


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(location, object) of each line."""
    for location, line in lines(path):
        try:
            content = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{location} is not JSON: {error.msg} (character {error.colno})") from None
        except RecursionError:
            raise DataError(f"{location}: lists or objects are nested too deeply") from None
        if not isinstance(content, dict):
            raise DataError(f"{location}: an object in braces is expected, not {type(content).__name__}")
        yield location, content


def table(path: Path, needed: Sequence[str], delimiter: str = ",", quoted: bool = True) -> Iterator[LocatedRow]:
    """The rows of a table whose first line names its columns; the `needed` columns must be among them."""
    source = _RowLines(path)
    rows = csv.reader(
        source, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE, strict=quoted
    )
    header: list[str] = []
    try:
        for row in rows:
            source.row_size = 0
            if not row:
                continue
            if not header:
                header = [column.strip() for column in row]
                if missing := [column for column in needed if column not in header]:
                    raise DataError(f"{path} has no column {', '.join(missing)}; it has: {', '.join(header)}")
                continue
            location = f"{path}, line {rows.line_num}"  # the last line of the row
            if len(row) != len(header):
                raise DataError(f"{location}: {len(row)} columns where the first line names {len(header)}")
            yield location, dict(zip(header, row, strict=True))
    except csv.Error as error:
        advice = "; keep texts as long as this as JSON lines" if "limit" in str(error) else ""
        raise DataError(f"{path}, line {rows.line_num}: {error}{advice}") from None


def field(location: str, row: dict[str, Any], name: str) -> Any:
    """The value of a required field."""
    if name not in row:
        raise DataError(f"{location}: there is no field {name!r}; there is: {', '.join(map(str, row)) or 'nothing'}")
    return row[name]


class _RowLines:
    """The lines of a table; quoted cells may span several, but a row is no longer than `MAX_LENGTH`."""

    def __init__(self, path: Path) -> None:
        self.row_size = 0  # characters of the current row; reset by the reader of rows
        self._path, self._lines = path, _raw_lines(path, "utf-8")

    def __iter__(self) -> _RowLines:
        return self

    def __next__(self) -> str:
        number, line = next(self._lines)
        self.row_size += len(line)
        if self.row_size > MAX_LENGTH:
            raise DataError(
                f"{self._path}, line {number}: a row is longer than {MAX_LENGTH // MEGABYTE} MB; is a quote missing?"
            )
        return line


def _raw_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """(number from 1, line with its end) of each line; a file without visible characters is an error."""
    # Split at line feeds only: str.splitlines would also split at U+2028 and U+0085, which occur in texts.
    number, empty = 0, True
    with _data_errors(path), open_packed(path) as file:
        while raw := file.readline(MAX_LENGTH + 1):
            number += 1
            if len(raw) > MAX_LENGTH:
                raise DataError(f"{path}, line {number} is longer than {MAX_LENGTH // MEGABYTE} MB; refused")
            line = _decoded(raw, f"{path}, line {number}", encoding)
            line = line.removeprefix("\ufeff") if number == 1 else line
            empty = empty and not line.strip()
            yield number, line
    if empty:
        raise DataError(f"{path} is empty")


@contextmanager
def _data_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading into a DataError that names the file."""
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
