"""Reads the results of a corpus run, shard by shard: memory does not grow with the corpus."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from rationales.corpus.manifest import ERRORS, Manifest, load_manifest, shard_path
from rationales.corpus.reading.arrow_files import import_arrow
from rationales.corpus.row_format import rationale_of
from rationales.errors import DataError, InputError
from rationales.rationale import Grid, Rationale

ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class CorpusResults:
    """The results in a folder, also of a run that is not complete."""

    folder: Path
    manifest: Manifest

    @property
    def provenance(self) -> dict[str, Any]:
        """Model, methods, options and versions."""
        return self.manifest.settings

    @property
    def methods(self) -> list[str]:
        """The names of the methods in the results."""
        return [method["title"] for method in self.provenance["methods"]]

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Every row in the order of the input, with these columns or all."""
        for index in sorted(self.manifest.entries):
            yield from self._shard_rows(index, columns)

    def rationales(self, method: str | None = None) -> Iterator[Rationale]:
        """Every rationale in the order of the input, of one method or of all."""
        for row in self.rows():
            if method in (None, row["method"]):
                yield rationale_of(row, self.provenance)

    def record(self, identifier: str) -> list[Rationale]:
        """The rationales of one record, one for each method; `identifier` is its id, or # and its position."""
        rows = [self._display(row) for row in self._matching(identifier)]
        if rows:
            return rows
        if error := self._error(identifier):
            raise InputError(f"{identifier} was not explained ({error['reason']}): {error['message']}")
        raise InputError(f"{self.folder} has no record {identifier!r}; give an id, or #N for the record at position N")

    def positions(self, identifier: str) -> list[int]:
        """The positions of all records with this id that were explained; ids need not be unique."""
        arrow = import_arrow()
        import pyarrow.compute as untyped

        compute: Any = untyped
        positions: set[int] = set()
        for index in self.manifest.entries:
            for batch in self._batches(index, ["id", "position"]):
                rows = arrow.Table.from_batches([batch]).filter(compute.field("id") == identifier)
                positions.update(rows["position"].to_pylist())
        return sorted(positions)

    def records(self, positions: Collection[int]) -> Iterator[tuple[int, list[Rationale]]]:
        """(position, rationales) of the records at these positions that were explained, in order."""
        selected_positions = set(positions)
        for index, entry in sorted(self.manifest.entries.items()):
            if selected_positions.isdisjoint(range(entry.first, entry.first + entry.records)):
                continue
            rows = (row for row in self._shard_rows(index, None) if row["position"] in selected_positions)
            for position, group in groupby(rows, key=itemgetter("position")):
                yield position, [self._display(row) for row in group]

    def errors(self) -> Iterator[dict[str, Any]]:
        """The records that could not be explained."""
        path = self.folder / ERRORS
        if path.exists():
            with path.open(encoding="utf-8") as file:
                yield from map(json.loads, file)

    def _matching(self, identifier: str) -> Iterator[dict[str, Any]]:
        """The rows of the first record with this id or position."""
        position = int(identifier[1:]) if identifier.startswith("#") and identifier[1:].isdecimal() else None
        key, value = ("id", identifier) if position is None else ("position", position)
        for index, entry in sorted(self.manifest.entries.items()):
            if position is not None and not entry.first <= position < entry.first + entry.records:
                continue
            matches = [row["position"] for row in self._shard_rows(index, ["id", "position"]) if row[key] == value]
            if matches:
                yield from (row for row in self._shard_rows(index, None) if row["position"] == matches[0])
                return

    def _shard_rows(self, index: int, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
        for batch in self._batches(index, columns):
            yield from batch.to_pylist()

    def _batches(self, index: int, columns: Sequence[str] | None) -> Iterator[Any]:
        arrow = import_arrow()
        import pyarrow.parquet as untyped

        parquet: Any = untyped
        path = shard_path(self.folder, index)
        try:
            with parquet.ParquetFile(path) as file:
                yield from file.iter_batches(ROWS_AT_ONCE, columns=None if columns is None else list(columns))
        except (OSError, arrow.ArrowException) as error:
            raise DataError(f"cannot read {path}: {error}; run the same command again to repair it") from None

    def _display(self, row: dict[str, Any]) -> Rationale:
        """A rationale to show; that of an image at the size of the image, where its file is still there."""
        rationale = rationale_of(row, self.provenance)
        if row["image"] is None or not Path(row["image"]).is_file():
            return rationale
        return enlarged(rationale, row)

    def _error(self, identifier: str) -> dict[str, Any] | None:
        """The error of the record with this id; else of that at this position, if it has no id or # says so."""
        at_position: dict[str, Any] | None = None
        for error in self.errors():
            if error["id"] == identifier:
                return error
            number = f"#{error['position']}"
            if identifier == number or (error["id"] is None and f"#{identifier}" == number):
                at_position = at_position or error
        return at_position


def open_results(folder: str | os.PathLike[str]) -> CorpusResults:
    """The results of a run; a DataError where the folder has none."""
    if Path(folder).is_file():
        raise DataError(f"{folder} is a file; give the folder of a corpus run")
    manifest = load_manifest(Path(folder))
    if manifest is None:
        raise DataError(f"{folder} holds no results of a corpus run; 'rationales run INPUT --out {folder}' makes them")
    return CorpusResults(Path(folder), manifest)


def enlarged(rationale: Rationale, row: dict[str, Any]) -> Rationale:
    """The rationale of an image with its pixels; scores are interpolated from the stored cells."""
    from dataclasses import replace

    from PIL import Image

    from rationales.models.image.reading import read_image

    pixels = read_image(row["image"], row["id"]).pixels
    height, width = pixels.shape[:2]
    cells = Image.fromarray(rationale.scores.reshape(row["height"], row["width"]), mode="F")
    scores = np.asarray(cells.resize((width, height), Image.Resampling.BILINEAR), dtype=np.float32).reshape(-1)
    return replace(rationale, units=Grid(height, width), scores=scores, image=pixels)
