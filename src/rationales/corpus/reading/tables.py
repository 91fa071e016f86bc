"""Streams the rows of tables, JSON lines and plain lines; a bad row is an item of the stream, not an exception.

Memory is bounded: a line longer than `MAX_LENGTH` is skipped and reported, and so is a longer row of a CSV table, whose
quotes are followed up to `LOOK_AHEAD`. A broken row costs one line: reading goes on with the next, even if a quote was
never closed.
"""

from __future__ import annotations

import csv
import io
import json
import threading
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from rationales.data.row_files import MAX_LENGTH
from rationales.data.unpacking import MEGABYTE
from rationales.errors import DataError

LOOK_AHEAD = 4 * MAX_LENGTH  # characters of a row; a quote that is open for longer counts as one that is not closed
READ_ERRORS = (OSError, EOFError, zlib.error, DataError)
_FIELD_LIMIT_LOCK = threading.Lock()  # one reader at a time changes the limit
_LINE = "line"  # the only column of plain lines


@dataclass(frozen=True, slots=True)
class Row:
    """A row: where it stands, and column -> value."""

    location: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be read; `ends_file`: neither can what follows in the file; `values`: the columns, if known."""

    location: str
    reason: str
    message: str
    ends_file: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)


def is_utf8(text: str) -> bool:
    """Whether a decoded text held only valid UTF-8: no escaped byte, no lone surrogate."""
    if text.isascii():
        return True
    return not any("\ud800" <= character <= "\udfff" for character in text)


@contextmanager
def _long_fields() -> Iterator[None]:
    """Fields of any length up to `LOOK_AHEAD`; the csv module's limit, which holds for the process, is restored."""
    with _FIELD_LIMIT_LOCK:
        usual = csv.field_size_limit(LOOK_AHEAD)
        try:
            yield
        finally:
            csv.field_size_limit(usual)


def csv_rows(file: BinaryIO, name: str, delimiter: str) -> Iterator[Row | BadRow]:
    """The rows of a table whose first row names its columns."""
    feed = _LineFeed(file)
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    header: list[str] = []
    while True:
        try:
            with _long_fields():
                cells = next(reader)
        except StopIteration:
            return
        except (csv.Error, _LineTooLongError) as error:
            several = feed.row_lines > 1  # then it is a quote that was not closed
            number = feed.drop_first_line()
            too_long = isinstance(error, _LineTooLongError) and not several
            message = "a quote is not closed" if several else str(error)
            bad = BadRow(f"{name}, line {number}", "too-long" if too_long else "broken-row", message)
            if header:
                yield bad
                continue
            yield BadRow(bad.location, bad.reason, f"the first row must name the columns: {bad.message}", True)
            return
        except READ_ERRORS as error:
            yield _unreadable(f"{name}, line {feed.last_number + 1}", error)
            return
        row_size, number = feed.row_size, feed.end_row()
        if not cells:
            continue
        if not header:
            header = [column.strip() for column in cells]
            continue
        location = f"{name}, line {number}"
        if row_size > MAX_LENGTH:
            yield BadRow(location, "too-long", _too_long_message())
        elif len(cells) != len(header):
            message = f"{len(cells)} columns where the first line names {len(header)}"
            yield BadRow(location, "broken-row", message, values=dict.fromkeys(header))
        else:
            yield Row(location, dict(zip(header, cells, strict=True)))


def json_rows(file: BinaryIO, name: str) -> Iterator[Row | BadRow]:
    """The objects of JSON lines."""
    for item in line_rows(file, name):
        if isinstance(item, BadRow):
            yield item
            continue
        line = item.values[_LINE]
        if not is_utf8(line):
            yield BadRow(item.location, "not-utf-8", "the line is not UTF-8")
            continue
        try:
            content = json.loads(line)
        except RecursionError:
            yield BadRow(item.location, "broken-row", "lists or objects are nested too deeply")
            continue
        except ValueError as error:
            yield BadRow(item.location, "broken-row", f"not JSON: {error}")
            continue
        if isinstance(content, dict):
            yield Row(item.location, content)
        else:
            yield BadRow(item.location, "broken-row", f"an object in braces is expected, not {type(content).__name__}")


def line_rows(file: BinaryIO, name: str) -> Iterator[Row | BadRow]:
    """Every line that is not empty, as a row with the column `line`."""
    number = 0
    try:
        for number, line in _numbered_lines(file):
            location = f"{name}, line {number}"
            if line is None:
                yield BadRow(location, "too-long", _too_long_message())
            elif line.strip():
                yield Row(location, {_LINE: line.removesuffix("\n").removesuffix("\r")})
    except READ_ERRORS as error:
        yield _unreadable(f"{name}, line {number + 1}", error)


def plain_rows(file: BinaryIO, name: str, column: str) -> Iterator[Row | BadRow]:
    """Every line that is not empty, as a row with one column of this name."""
    for item in line_rows(file, name):
        yield item if isinstance(item, BadRow) else Row(item.location, {column: item.values[_LINE]})


class Transcoded:
    """A file in another encoding, read as lines of UTF-8."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._text = io.TextIOWrapper(file, encoding, errors="surrogateescape", newline="\n")
        self._encoding = encoding

    def readline(self, size: int) -> bytes:
        """At most `size` characters up to the end of the line."""
        try:
            return self._text.readline(size).encode("utf-8", "surrogateescape")
        except UnicodeError:
            raise DataError(f"it is not {self._encoding}") from None


class _LineTooLongError(Exception):
    """A line is longer than `MAX_LENGTH`, or a row than `LOOK_AHEAD`."""


class _LineFeed:
    """The lines of a table for csv.reader; remembers those of the current row, so that they can be read again."""

    def __init__(self, file: BinaryIO) -> None:
        self.last_number = 0
        self._lines = _numbered_lines(file)
        self._again: deque[tuple[int, str | None]] = deque()
        self._row: list[tuple[int, str | None]] = []
        self.row_size = 0  # characters of the current row so far

    def __iter__(self) -> _LineFeed:
        return self

    def __next__(self) -> str:
        number, line = self._again.popleft() if self._again else next(self._lines)
        self.last_number = number
        self._row.append((number, line))
        self.row_size += len(line or "")
        if line is None or self.row_size > LOOK_AHEAD:
            raise _LineTooLongError(_too_long_message())
        return line

    @property
    def row_lines(self) -> int:
        """Lines of the current row so far."""
        return len(self._row)

    def end_row(self) -> int:
        """Forget the lines of the row; the number of its first line."""
        number = self._row[0][0] if self._row else self.last_number
        self._row, self.row_size = [], 0
        return number

    def drop_first_line(self) -> int:
        """Give up the first line of the row and read its further lines again; the number of the first."""
        self._again.extendleft(reversed(self._row[1:]))
        return self.end_row()


def _numbered_lines(file: BinaryIO) -> Iterator[tuple[int, str | None]]:
    """(number from 1, line with its end) of each line; None in place of a line that is too long.

    Split at line feeds only: str.splitlines would also split at U+2028 and U+0085, which occur in texts.
    """
    number = 0
    while raw := file.readline(MAX_LENGTH + 1):
        number += 1
        if len(raw) > MAX_LENGTH:
            while raw and not raw.endswith(b"\n"):
                raw = file.readline(MEGABYTE)
            yield number, None
            continue
        line = raw.decode("utf-8", "surrogateescape")
        yield number, line.removeprefix("\ufeff") if number == 1 else line


def _too_long_message() -> str:
    return f"longer than {MAX_LENGTH // MEGABYTE} MB"


def _unreadable(location: str, error: Exception) -> BadRow:
    reason = getattr(error, "strerror", None) or str(error)
    return BadRow(location, "unreadable-file", f"cannot be read from here on: {reason}", ends_file=True)
