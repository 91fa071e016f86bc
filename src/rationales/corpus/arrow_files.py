"""Streams the rows of Parquet and Arrow files, and imports pyarrow with an error that says how to install it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rationales.corpus.tables import BadRow, Row
from rationales.errors import OptionError

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


def arrow_rows(path: Path, name: str, columns: list[str]) -> Iterator[Row | BadRow]:
    """The rows of a .parquet or .arrow file, with those of the columns that the file has."""
    arrow = import_arrow()
    number = 0
    try:
        for batch in _batches(arrow, path, columns):
            present = [column for column in columns if column in batch.schema.names]
            arrays = [batch.column(column) for column in present]
            for row in range(batch.num_rows):
                number += 1
                location = f"{name}, row {number}"
                try:
                    values = {column: array[row].as_py() for column, array in zip(present, arrays, strict=True)}
                except UnicodeDecodeError:
                    yield BadRow(location, "not-utf-8", "a value is not UTF-8")
                    continue
                yield Row(location, values)
    except (OSError, arrow.ArrowException) as error:
        message = f"cannot be read from here on: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        yield BadRow(f"{name}, row {number + 1}", "unreadable-file", message, ends_file=True)


def _batches(arrow: Any, path: Path, columns: list[str]) -> Iterator[Any]:
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as untyped

        parquet: Any = untyped
        with parquet.ParquetFile(path) as file:
            present = [column for column in columns if column in file.schema_arrow.names]
            yield from file.iter_batches(BATCH_ROWS, columns=present)
        return
    with path.open("rb") as raw:  # data sets of Hugging Face are streams, other writers make files
        try:
            reader = arrow.ipc.open_stream(raw)
        except arrow.ArrowInvalid:
            raw.seek(0)
            reader = arrow.ipc.open_file(raw)
            for index in range(reader.num_record_batches):
                yield from _slices(reader.get_batch(index))
            return
        for batch in reader:
            yield from _slices(batch)


def _slices(batch: Any) -> Iterator[Any]:
    for begin in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(begin, BATCH_ROWS)


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
