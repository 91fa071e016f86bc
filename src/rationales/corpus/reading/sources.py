"""The input of a corpus run: files, folders, globs or standard input, as one stream of records in a fixed order."""

from __future__ import annotations

import codecs
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rationales.corpus.reading.arrow_files import arrow_rows
from rationales.corpus.reading.input_files import STDIN, InputFile, InputFiles, list_files
from rationales.corpus.reading.tables import (
    READ_ERRORS,
    BadRow,
    Row,
    Transcoded,
    csv_rows,
    is_utf8,
    json_rows,
    plain_rows,
)
from rationales.corpus.records import MAX_ID, BadRecord, Record, Selection
from rationales.data.row_files import MAX_LENGTH
from rationales.data.unpacking import MEGABYTE, open_packed
from rationales.errors import DataError, OptionError

ID_COLUMNS = ("id", "name")  # the first that a row has, unless a column is named
PAIR = "pair"
_HASH_BYTES = MEGABYTE

Item = Record | BadRecord | None  # None: a record that the selection skips


@dataclass(frozen=True)
class RecordColumns:
    """Where the rows of a table have what is read."""

    text: str = "text"
    id: str | None = None  # None: the first of `ID_COLUMNS` that there is

    def needed(self, selection: Selection) -> list[str]:
        """All columns that may be read."""
        names = [self.text, PAIR, *([self.id] if self.id else ID_COLUMNS), *(rule.column for rule in selection.where)]
        return list(dict.fromkeys(names))


@dataclass(frozen=True)
class TextFormat:
    """How files of text are read."""

    encoding: str = "utf-8"
    delimiter: str | None = None  # between the columns of a table; None: a comma, in a .tsv file a tab

    def __post_init__(self) -> None:
        try:
            "a".encode(self.encoding)
        except LookupError as error:
            raise OptionError(f"{error}; an encoding is for instance utf-8, utf-16 or cp1252") from None
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise OptionError(f"a delimiter is one character, for instance ';', not {self.delimiter!r}")

    @property
    def is_utf8(self) -> bool:
        """Whether the bytes are UTF-8."""
        return codecs.lookup(self.encoding).name in ("utf-8", "ascii")


@dataclass
class CorpusInput:
    """The records of all files; `kind` is text or image. Iterating streams (item, share of the input read)."""

    files: InputFiles
    kind: str
    columns: RecordColumns
    selection: Selection
    text_format: TextFormat
    weight: int  # of all files; 0: unknown

    def __iter__(self) -> Iterator[tuple[Item, float]]:
        position, admitted, done = 0, 0, 0
        for file in self.files:
            for row, share_of_file in self.rows(file):
                item: Item = self._item(row, position)
                position += 1
                admitted += item is not None
                yield item, self._share(done + share_of_file * file.weight, admitted)
                if admitted == self.selection.limit:
                    return
            done += file.weight

    def _share(self, done: float, admitted: int) -> float:
        shares = [min(1.0, done / self.weight)] if self.weight else []
        shares += [admitted / self.selection.limit] if self.selection.limit else []
        return max(shares, default=0.0)

    def rows(self, file: InputFile) -> Iterator[tuple[Row | BadRow, float]]:
        """(row, share of the file read so far); 0 where its size is unknown."""
        if file.is_record:
            yield _single(file, self.columns.text, self.text_format.encoding), 1.0
            return
        if file.format in ("parquet", "arrow"):
            yield from arrow_rows(Path(file.path), file.name, self.columns.needed(self.selection))
            return
        try:
            stream: BinaryIO = _open(file)
        except READ_ERRORS as error:
            message = str(getattr(error, "strerror", None) or error)
            yield BadRow(file.name, "unreadable-file", message, ends_file=True), 1.0
            return
        with stream:
            raw: Any = getattr(stream, "fileobj", None) or stream  # of a gzip file: the packed bytes
            lines: Any = stream if self.text_format.is_utf8 else Transcoded(stream, self.text_format.encoding)
            for row in self._parsed(lines, file):
                yield row, raw.tell() / file.size if file.size else 0.0

    def _parsed(self, lines: BinaryIO, file: InputFile) -> Iterator[Row | BadRow]:
        if file.format in ("csv", "tsv"):
            return csv_rows(lines, file.name, self.text_format.delimiter or ("," if file.format == "csv" else "\t"))
        if file.format == "jsonl":
            return json_rows(lines, file.name)
        return plain_rows(lines, file.name, self.columns.text)

    def _item(self, row: Row | BadRow, position: int) -> Item:
        if not self.selection.samples(position):
            return None
        if isinstance(row, BadRow):
            return BadRecord(position, row.location, row.reason, row.message)
        record = self._record(row, position)
        if isinstance(record, BadRecord):
            return record
        for condition in self.selection.where:
            if condition.column not in row.values:
                message = f"there is no column {condition.column!r}, which a filter names"
                return BadRecord(position, row.location, "missing-column", message, record.id)
        return record if self.selection.admits(record, row.values) else None

    def _record(self, row: Row, position: int) -> Record | BadRecord:
        """The record of a row, checked."""

        def bad(reason: str, message: str) -> BadRecord:
            return BadRecord(position, row.location, reason, message, identifier)

        identifier: str | None = None
        names = [self.columns.id] if self.columns.id else [name for name in ID_COLUMNS if name in row.values]
        if self.columns.id and self.columns.id not in row.values:
            return bad("missing-column", f"there is no column {self.columns.id!r}; there is: {_listed(row)}")
        value = row.values[names[0]] if names else None
        identifier = str(position) if value in (None, "") else str(value)[:MAX_ID]
        if not is_utf8(identifier):
            identifier = None
            return bad("not-utf-8", "the id is not UTF-8")
        if "image" in row.values and self.kind == "image":
            return Record(position, identifier, row.location, image=row.values["image"], content=row.values["content"])
        if self.columns.text not in row.values:
            return bad("missing-column", f"there is no column {self.columns.text!r}; there is: {_listed(row)}")
        text, pair = row.values[self.columns.text], row.values.get(PAIR)
        text = _decoded(text) if isinstance(text, bytes) else text
        if text is None or (isinstance(text, float) and text != text):
            return bad("empty", "the text is missing")
        if not isinstance(text, str) or not (pair is None or isinstance(pair, str)):
            return bad("not-text", f"the {'pair' if isinstance(text, str) else 'text'} is no text")
        if not (is_utf8(text) and is_utf8(pair or "")):
            return bad("not-utf-8", "the text is not UTF-8, or holds half a character")
        if "\x00" in text or "\x00" in (pair or ""):
            return bad("not-text", "the text is binary: it holds a NUL character")
        if not text.strip():
            return bad("empty", "the text is empty")
        if len(text) + len(pair or "") > MAX_LENGTH:
            return bad("too-long", f"longer than {MAX_LENGTH // MEGABYTE} million characters")
        return Record(position, identifier, row.location, text, pair or None)


def open_input(
    paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    columns: RecordColumns,
    selection: Selection,
    input_format: str | None = None,
    text_format: TextFormat | None = None,
    outputs: Sequence[str | os.PathLike[str]] = (),
) -> CorpusInput:
    """The records behind these paths; a DataError where nothing can be read at all.

    `outputs`: files and folders that the run writes; they are left out of the folders and globs of the input.
    """
    files = list_files(paths, input_format, outputs)
    kinds, weight = set(), 0
    for file in files:
        kinds.add("image" if file.format == "image" else "text")
        weight += file.weight
    if not kinds:
        raise DataError(f"there is nothing to explain in {', '.join(files.paths)}")
    if len(kinds) > 1:
        raise DataError("the input has both texts and images; run them one after the other")
    if selection.where and kinds == {"image"}:
        raise OptionError("a filter names a column of a table; images have none")
    return CorpusInput(files, kinds.pop(), columns, selection, text_format or TextFormat(), weight)


def is_utf16(file: InputFile) -> bool:
    """Whether a file begins with the byte order mark of UTF-16."""
    try:
        with _open(file) as stream:
            return stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    except READ_ERRORS:
        return False


def _open(file: InputFile) -> BinaryIO:
    if file.path == STDIN:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb") if _has_descriptor() else sys.stdin.buffer
    return open_packed(Path(file.path))  # type: ignore[return-value]  # a gzip file reads like a binary file


def _has_descriptor() -> bool:
    try:
        sys.stdin.fileno()
    except (OSError, ValueError):
        return False
    return True


def _single(file: InputFile, text_column: str, encoding: str) -> Row | BadRow:
    """The one record that a text file or an image is."""
    try:
        with open_packed(Path(file.path)) as stream:
            if file.format == "image":
                digest = hashlib.blake2b(digest_size=20)
                while block := stream.read(_HASH_BYTES):
                    digest.update(block)
                return Row(file.name, {"id": file.name, "image": file.path, "content": digest.hexdigest()})
            raw = stream.read(MAX_LENGTH + 1)
    except READ_ERRORS as error:
        message = str(getattr(error, "strerror", None) or error)
        return BadRow(file.name, "unreadable-file", message)
    if len(raw) > MAX_LENGTH:
        return BadRow(file.name, "too-long", f"longer than {MAX_LENGTH // MEGABYTE} MB")
    try:
        text = raw.decode(encoding, "surrogateescape").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        return BadRow(file.name, "not-utf-8", f"the text is not {encoding} (byte {error.start})")
    return Row(file.name, {"id": file.name, text_column: text})


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _listed(row: Row) -> str:
    names = ", ".join(str(name)[:40] for name in list(row.values)[:20])
    return names.encode("utf-8", "replace").decode() or "nothing"
