"""The input of a corpus run: files, folders, globs or standard input, as one stream of records in a fixed order."""

from __future__ import annotations

import glob
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rationales.corpus.arrow_files import arrow_rows, dataset_files
from rationales.corpus.records import MAX_ID, BadRecord, Record, Selection
from rationales.corpus.tables import READ_ERRORS, BadRow, Row, csv_rows, is_utf8, json_rows, plain_rows
from rationales.data.image_folders import SUFFIXES as IMAGE_SUFFIXES
from rationales.data.row_files import MAX_LENGTH
from rationales.data.unpacking import MEGABYTE, open_packed
from rationales.errors import DataError, OptionError

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "lines")
TEXT_SUFFIXES = (".txt", ".text", ".md")
STDIN = "-"
ID_COLUMNS = ("id", "name")  # the first that a row has, unless a column is named
PAIR = "pair"
_BY_SUFFIX = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".parquet": "parquet", ".arrow": "arrow"}
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
class InputFile:
    """One file of the input; `format` is one of `FORMATS`, or text or image for a file that is one record."""

    path: str
    name: str  # in locations and, for a file that is one record, its id
    format: str
    size: int


@dataclass
class CorpusInput:
    """The records of all files; `kind` is text or image. Iterating streams (item, share of the input read)."""

    files: Callable[[], Iterator[InputFile]]
    kind: str
    columns: RecordColumns
    selection: Selection
    total: int  # bytes, or files where each is one record; 0: unknown
    by_files: bool

    def __iter__(self) -> Iterator[tuple[Item, float]]:
        position, admitted, done = 0, 0, 0
        for file in self.files():
            for row, consumed in self.rows(file):
                item: Item = self._item(row, position)
                position += 1
                admitted += item is not None
                share = self._share(done + consumed, admitted)
                yield item, share
                if admitted == self.selection.limit:
                    return
            done += 1 if self.by_files else file.size

    def _share(self, done: int, admitted: int) -> float:
        shares = [min(1.0, done / self.total)] if self.total else []
        shares += [admitted / self.selection.limit] if self.selection.limit else []
        return max(shares, default=0.0)

    def rows(self, file: InputFile) -> Iterator[tuple[Row | BadRow, int]]:
        """(row, bytes of the file read so far)."""
        if file.format in ("text", "image"):
            yield _single(file, self.columns.text), 1
            return
        if file.format in ("parquet", "arrow"):
            for row in arrow_rows(Path(file.path), file.name, self.columns.needed(self.selection)):
                yield row, 0
            return
        try:
            stream: BinaryIO = _open(file)
        except READ_ERRORS as error:
            message = str(getattr(error, "strerror", None) or error)
            yield BadRow(file.name, "unreadable-file", message, ends_file=True), 0
            return
        with stream:
            raw: Any = getattr(stream, "fileobj", None) or stream  # of a gzip file: the packed bytes
            for row in _parsed(stream, file, self.columns.text):
                yield row, raw.tell() if file.path != STDIN else 0

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
) -> CorpusInput:
    """The records behind these paths; a DataError where nothing can be read at all."""
    if input_format is not None and input_format not in FORMATS:
        raise OptionError(f"the format of an input is one of {', '.join(FORMATS)}, not {input_format!r}")
    named = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    expanded = [path for name in named for path in _expanded(os.fspath(name))]
    if not expanded:
        raise OptionError("no input: name a file, a folder, a glob, or - for standard input")
    if STDIN in expanded and len(expanded) > 1:
        raise OptionError("standard input (-) cannot be joined with files")

    def files() -> Iterator[InputFile]:
        for path in expanded:
            yield from _files(path, input_format, formats)

    formats = {path: _folder_format(path, input_format) for path in expanded if path != STDIN and Path(path).is_dir()}
    kinds, count, size = set(), 0, 0
    for file in files():
        kinds.add("image" if file.format == "image" else "text")
        by_files = file.format in ("text", "image", "parquet", "arrow")
        count, size = count + by_files, size + file.size
    if not kinds:
        raise DataError(f"there is nothing to explain in {', '.join(expanded)}")
    if len(kinds) > 1:
        raise DataError("the input has both texts and images; run them one after the other")
    if selection.where and kinds == {"image"}:
        raise OptionError("a filter names a column of a table; images have none")
    return CorpusInput(files, kinds.pop(), columns, selection, total=count or size, by_files=count > 0)


def _expanded(path: str) -> list[str]:
    if path == STDIN or Path(path).exists():
        return [path]
    if glob.has_magic(path):
        matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207  # may be absolute
        if not matches:
            raise DataError(f"no file matches {path}")
        return matches
    raise DataError(f"there is no file {path}")


def _files(path: str, input_format: str | None, folder_formats: dict[str, str]) -> Iterator[InputFile]:
    """The files behind one path, those of a folder in the order of their names."""
    if path == STDIN:
        yield InputFile(STDIN, "standard input", input_format or "lines", 0)
        return
    if Path(path).is_dir():
        for inner in _walk(path):
            if _group(inner, input_format) == folder_formats[path]:
                name = Path(inner).relative_to(path).as_posix()
                yield InputFile(inner, name, input_format or _format(inner) or "", Path(inner).stat().st_size)
        return
    file_format = input_format or _format(path)
    if file_format is None:
        raise DataError(f"cannot tell what {path} holds by its name; say --format, one of {', '.join(FORMATS)}")
    name = Path(path).name if file_format in ("text", "image") else path
    yield InputFile(path, name, file_format, Path(path).stat().st_size)


def _walk(folder: str) -> Iterator[str]:
    """All files below a folder, sorted within each folder; only one folder's names are in memory."""
    listed = dataset_files(Path(folder))
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith(".") or (listed is not None and entry.is_file() and entry.name not in listed):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
        elif entry.is_file():
            yield entry.path


def _format(path: str) -> str | None:
    suffix = Path(Path(path).name.removesuffix(".gz")).suffix.lower()
    if suffix in TEXT_SUFFIXES:
        return "text"
    return "image" if suffix in IMAGE_SUFFIXES else _BY_SUFFIX.get(suffix)


def _group(path: str, input_format: str | None) -> str | None:
    """text, image or table: a folder is read as one of them."""
    file_format = input_format or _format(path)
    return file_format if file_format in ("text", "image", None) else "table"


def _folder_format(folder: str, input_format: str | None) -> str:
    """What a folder is read as: texts where it has any, else tables, else images."""
    groups = {_group(path, input_format) for path in _walk(folder)}
    group = next((group for group in ("text", "table", "image") if group in groups), None)
    if group is None:
        suffixes = (*TEXT_SUFFIXES, *_BY_SUFFIX, *IMAGE_SUFFIXES)
        raise DataError(f"there is nothing to explain in the folder {folder}; looked for {', '.join(suffixes)}")
    return group


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


def _parsed(stream: BinaryIO, file: InputFile, text_column: str) -> Iterator[Row | BadRow]:
    if file.format in ("csv", "tsv"):
        return csv_rows(stream, file.name, "," if file.format == "csv" else "\t")
    if file.format == "jsonl":
        return json_rows(stream, file.name)
    return plain_rows(stream, file.name, text_column)


def _single(file: InputFile, text_column: str) -> Row | BadRow:
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
    text = raw.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    return Row(file.name, {"id": file.name, text_column: text})


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _listed(row: Row) -> str:
    names = ", ".join(str(name)[:40] for name in list(row.values)[:20])
    return names.encode("utf-8", "replace").decode() or "nothing"
