"""Streams the rows of Parquet and Arrow files, and imports pyarrow with an error that says how to install it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rationales.corpus.reading.tables import BadRow, Row
from rationales.errors import DataError, OptionError

BATCH_ROWS = 256  # rows in memory at once, beside the page that they are decoded from


def import_arrow() -> Any:
    """The module pyarrow, or an OptionError that says how to install it."""
    try:
        import pyarrow as pa
    except ImportError:
        raise OptionError(
            "a corpus run writes Parquet and needs pyarrow: pip install 'rationales[corpus]' or pip install pyarrow"
        ) from None
    return pa


def arrow_rows(path: Path, name: str, columns: list[str]) -> Iterator[tuple[Row | BadRow, float]]:
    """(row, share of the file read so far) of a .parquet or .arrow file; a row has those columns that the file has."""
    arrow = import_arrow()
    number = 0
    try:
        for batch, begin, end in _batches(arrow, path, columns):
            present = [column for column in columns if column in batch.schema.names]
            _check_unique(batch.schema.names, present)
            arrays = [batch.column(column) for column in present]
            for row in range(batch.num_rows):
                number += 1
                location, share = f"{name}, row {number}", begin + (end - begin) * (row + 1) / batch.num_rows
                try:
                    values = {column: array[row].as_py() for column, array in zip(present, arrays, strict=True)}
                except UnicodeDecodeError:
                    yield BadRow(location, "not-utf-8", "a value is not UTF-8"), share
                    continue
                yield Row(location, values), share
    except DataError as error:
        yield BadRow(name, "unreadable-file", str(error), ends_file=True), 1.0
    except (OSError, arrow.ArrowException) as error:
        message = f"cannot be read from here on: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        yield BadRow(f"{name}, row {number + 1}", "unreadable-file", message, ends_file=True), 1.0


def _check_unique(names: list[str], needed: list[str]) -> None:
    for column in needed:
        if names.count(column) > 1:
            raise DataError(f"there are {names.count(column)} columns {column!r}; rename all but the one to be read")


def _batches(arrow: Any, path: Path, columns: list[str]) -> Iterator[tuple[Any, float, float]]:
    """(rows, share of the file before them, share with them)."""
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as untyped

        parquet: Any = untyped
        with parquet.ParquetFile(path) as file:
            present = [column for column in columns if column in file.schema_arrow.names]
            total, done = file.metadata.num_rows, 0
            for batch in file.iter_batches(BATCH_ROWS, columns=present):
                yield batch, done / total, (done + batch.num_rows) / total
                done += batch.num_rows
        return
    size, begin = path.stat().st_size, 0.0
    with path.open("rb") as raw:
        for batch in _record_batches(arrow, raw):
            end = raw.tell() / size
            for first in range(0, batch.num_rows, BATCH_ROWS):
                rows = batch.slice(first, BATCH_ROWS)
                per_row = (end - begin) / batch.num_rows
                yield rows, begin + per_row * first, begin + per_row * (first + rows.num_rows)
            begin = end


def _record_batches(arrow: Any, raw: BinaryIO) -> Iterator[Any]:
    """The batches of an .arrow file: data sets of Hugging Face are streams, other writers make files."""
    try:
        reader = arrow.ipc.open_stream(raw)
    except arrow.ArrowInvalid:
        raw.seek(0)
        file = arrow.ipc.open_file(raw)
        yield from (file.get_batch(index) for index in range(file.num_record_batches))
        return
    yield from reader


def header_of(path: Path) -> list[str] | None:
    """The columns of a .parquet file; None for an .arrow file and where it cannot be read."""
    arrow = import_arrow()
    if path.suffix.lower() != ".parquet":
        return None
    import pyarrow.parquet as untyped

    parquet: Any = untyped
    try:
        names: list[str] = parquet.read_schema(path).names
    except (OSError, arrow.ArrowException):
        return None
    return names


def dataset_files(folder: Path) -> set[str] | None:
    """The names of the data files that a data set of Hugging Face on disk lists; None for any other folder.

    Such a folder may also hold cached results of transformations, which are Arrow files too.
    """
    try:
        state = json.loads((folder / "state.json").read_bytes())
        return {entry["filename"] for entry in state["_data_files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None
