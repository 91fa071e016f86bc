"""A user's own texts: tables (CSV, TSV) with columns text and label, or JSON lines; both may hold people's marks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rationales.data.example import Example, Extent, joined
from rationales.data.tables import field, json_lines, table
from rationales.errors import DataError

TABLES = {".csv": ",", ".tsv": "\t"}
ENDS = (*TABLES, ".jsonl")
TEXT, LABEL = "text", "label"
MARKS = ("spans", "pair_spans", "phrases", "pair_phrases")
SEPARATOR = "|"  # between the phrases of a cell


@dataclass(frozen=True)
class Columns:
    """What a file calls its texts and labels."""

    text: str = TEXT
    label: str = LABEL


def texts(path: Path, columns: Columns = Columns()) -> Iterator[Example]:  # noqa: B008  # frozen
    """The rows of a file; which columns and fields it may have stands in docs/data.md."""
    end = _end(path)
    rows: Iterator[tuple[str, dict[str, Any]]] = (
        json_lines(path) if end == ".jsonl" else _cells(path, columns, TABLES[end])
    )
    number = -1
    for number, (place, row) in enumerate(rows):
        yield _example(place, row, number, columns)
    if number < 0:
        raise DataError(f"{path} names its columns but holds no rows")


def is_texts(path: Path) -> bool:
    """Whether the name is one of a table or of JSON lines, packed or not."""
    return _end(path) in ENDS


def _end(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _cells(path: Path, columns: Columns, delimiter: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of a table in the form of JSON lines: cells of marks become lists, and empty ones are left out."""
    needed = (columns.text,) if columns.label == LABEL else (columns.text, columns.label)
    for place, row in table(path, needed, delimiter):
        fields: dict[str, Any] = dict(row)
        for name in MARKS:
            if name in row and name not in (columns.text, columns.label):
                cell = fields.pop(name).strip()
                fields |= {name: _parsed(place, name, cell)} if cell else {}
        yield place, fields


def _parsed(place: str, name: str, cell: str) -> Any:
    """A cell of marks as a list."""
    if name.endswith("phrases"):
        return [phrase.strip() for phrase in cell.split(SEPARATOR) if phrase.strip()]
    try:
        return json.loads(cell)
    except (json.JSONDecodeError, RecursionError):
        raise DataError(f"{place}: {name} are JSON such as [[0, 4], [6, 11]], not {cell[:60]!r}") from None


def _example(place: str, row: dict[str, Any], number: int, columns: Columns) -> Example:
    text, label, pair = field(place, row, columns.text), row.get(columns.label), row.get("pair")
    if columns.label != LABEL:
        label = field(place, row, columns.label)
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{place}: the text is empty" if isinstance(text, str) else f"{place}: the text is no text")
    if pair is not None and not isinstance(pair, str):
        raise DataError(f"{place}: the pair is no text")
    if isinstance(label, (list, dict, float)):
        raise DataError(f"{place}: the label is a name or a whole number, not {label!r}")
    name = row.get("name", row.get("id"))
    marks = {key: row.get(key) for key in MARKS if key not in (columns.text, columns.label)}
    return Example(
        name=str(number) if name in (None, "") else str(name),
        text=text,
        label=None if label in (None, "") else str(label),
        spans=_marks(place, marks.get("spans"), marks.get("phrases"), text),
        pair=pair or None,
        pair_spans=_marks(place, marks.get("pair_spans"), marks.get("pair_phrases"), pair or ""),
        place=place,
    )


def _marks(place: str, spans: Any, phrases: Any, text: str) -> tuple[Extent, ...] | None:
    """What people marked, from spans, from phrases or from both; overlapping marks become one."""
    if spans is None and phrases is None:
        return None
    return joined([*_spans(place, spans, text), *_phrases(place, phrases, text)])


def _spans(place: str, spans: Any, text: str) -> list[Extent]:
    """Marks as [[start, end], …] or [{"start": …, "end": …}, …], in characters."""
    if spans is None:
        return []
    if not isinstance(spans, list):
        raise DataError(f"{place}: spans are a list of [start, end], not {spans!r}")
    extents = []
    for span in spans:
        extent = [span.get("start"), span.get("end")] if isinstance(span, dict) else span
        if not (isinstance(extent, list) and len(extent) == 2 and all(type(edge) is int for edge in extent)):
            raise DataError(f"{place}: {span!r} is no span; two whole numbers in characters: [start, end]")
        if not 0 <= extent[0] < extent[1] <= len(text):
            raise DataError(f"{place}: the span {extent} lies outside of the text, which has {len(text)} characters")
        extents.append((extent[0], extent[1]))
    return extents


def _phrases(place: str, phrases: Any, text: str) -> list[Extent]:
    """Every occurrence of these phrases in the text that does not begin or end inside of a word."""
    if phrases is None:
        return []
    if not isinstance(phrases, list) or not all(isinstance(phrase, str) and phrase.strip() for phrase in phrases):
        raise DataError(f"{place}: phrases are a list of words from the text, not {phrases!r}")
    extents = []
    for phrase in phrases:
        occurrences = re.finditer(rf"(?<!\w){re.escape(phrase.strip())}(?!\w)", text)
        marked = [match.span() for match in occurrences]
        if not marked:
            raise DataError(f"{place}: the phrase {phrase.strip()[:60]!r} does not stand in the text, letter by letter")
        extents += marked
    return extents
