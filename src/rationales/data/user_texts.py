"""A user's own texts: tables (CSV, TSV) with columns text and label, or JSON lines; both may contain marked spans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rationales.data.example import Example, Extent, joined
from rationales.data.row_files import field, json_lines, table
from rationales.errors import DataError

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*DELIMITERS, ".jsonl")
TEXT, LABEL = "text", "label"
MARK_COLUMNS = ("spans", "pair_spans", "phrases", "pair_phrases")
SEPARATOR = "|"  # between the phrases of a cell


@dataclass(frozen=True)
class Columns:
    """The names of the columns with the texts and the labels."""

    text: str = TEXT
    label: str = LABEL


def read_texts(path: Path, columns: Columns = Columns()) -> Iterator[Example]:  # noqa: B008  # frozen
    """The examples of a file; docs/data.md lists the columns and fields that it may have."""
    suffix = _suffix(path)
    rows: Iterator[tuple[str, dict[str, Any]]] = (
        json_lines(path) if suffix == ".jsonl" else _cells(path, columns, DELIMITERS[suffix])
    )
    number = -1
    for number, (location, row) in enumerate(rows):
        yield _example(location, row, number, columns)
    if number < 0:
        raise DataError(f"{path} names its columns but holds no rows")


def is_text_file(path: Path) -> bool:
    """Whether the suffix is that of a table or of JSON lines, optionally with .gz."""
    return _suffix(path) in SUFFIXES


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _cells(path: Path, columns: Columns, delimiter: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(location, fields) of each row of a table; cells of marks are parsed, empty cells omitted."""
    needed = (columns.text,) if columns.label == LABEL else (columns.text, columns.label)
    for location, row in table(path, needed, delimiter):
        fields: dict[str, Any] = dict(row)
        for name in MARK_COLUMNS:
            if name in row and name not in (columns.text, columns.label):
                cell = fields.pop(name).strip()
                fields |= {name: _parsed(location, name, cell)} if cell else {}
        yield location, fields


def _parsed(location: str, name: str, cell: str) -> Any:
    """A cell of marks as a list."""
    if name.endswith("phrases"):
        return [phrase.strip() for phrase in cell.split(SEPARATOR) if phrase.strip()]
    try:
        return json.loads(cell)
    except (json.JSONDecodeError, RecursionError):
        raise DataError(f"{location}: {name} are JSON such as [[0, 4], [6, 11]], not {cell[:60]!r}") from None


def _example(location: str, row: dict[str, Any], number: int, columns: Columns) -> Example:
    text, label, pair = field(location, row, columns.text), row.get(columns.label), row.get("pair")
    if columns.label != LABEL:
        label = field(location, row, columns.label)
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{location}: the text is {'empty' if isinstance(text, str) else 'no text'}")
    if pair is not None and not isinstance(pair, str):
        raise DataError(f"{location}: the pair is no text")
    if isinstance(label, (list, dict, float)):
        raise DataError(f"{location}: the label is a name or a whole number, not {label!r}")
    name = row.get("name", row.get("id"))
    marks = {key: row.get(key) for key in MARK_COLUMNS if key not in (columns.text, columns.label)}
    return Example(
        name=str(number) if name in (None, "") else str(name),
        text=text,
        label=None if label in (None, "") else str(label),
        spans=_marks(location, marks.get("spans"), marks.get("phrases"), text),
        pair=pair or None,
        pair_spans=_marks(location, marks.get("pair_spans"), marks.get("pair_phrases"), pair or ""),
        location=location,
    )


def _marks(location: str, spans: Any, phrases: Any, text: str) -> tuple[Extent, ...] | None:
    """The marked spans from the fields spans and phrases; overlapping ones are joined."""
    if spans is None and phrases is None:
        return None
    return joined([*_spans(location, spans, text), *_phrases(location, phrases, text)])


def _spans(location: str, spans: Any, text: str) -> list[Extent]:
    """Marks as [[start, end], …] or [{"start": …, "end": …}, …], in characters."""
    if spans is None:
        return []
    if not isinstance(spans, list):
        raise DataError(f"{location}: spans are a list of [start, end], not {spans!r}")
    extents = []
    for span in spans:
        extent = [span.get("start"), span.get("end")] if isinstance(span, dict) else span
        if not (isinstance(extent, list) and len(extent) == 2 and all(type(edge) is int for edge in extent)):
            raise DataError(f"{location}: {span!r} is no span; two whole numbers in characters: [start, end]")
        if not 0 <= extent[0] < extent[1] <= len(text):
            raise DataError(f"{location}: the span {extent} lies outside of the text, which has {len(text)} characters")
        extents.append((extent[0], extent[1]))
    return extents


def _phrases(location: str, phrases: Any, text: str) -> list[Extent]:
    """All occurrences of these phrases in the text that do not begin or end inside a word."""
    if phrases is None:
        return []
    if not isinstance(phrases, list) or not all(isinstance(phrase, str) and phrase.strip() for phrase in phrases):
        raise DataError(f"{location}: phrases are a list of words from the text, not {phrases!r}")
    extents = []
    for phrase in phrases:
        marked = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(phrase.strip())}(?!\w)", text)]
        if not marked:
            name = repr(phrase.strip()[:60])
            raise DataError(f"{location}: the phrase {name} does not stand in the text, letter by letter")
        extents += marked
    return extents
