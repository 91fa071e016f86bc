"""A user's own texts: tables (CSV, TSV) with columns text and label, or JSON lines that may hold highlights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rationales.data.example import Example, Extent, joined
from rationales.data.tables import field, json_lines, table
from rationales.errors import DataError

TABLES = {".csv": ",", ".tsv": "\t"}
ENDS = (*TABLES, ".jsonl")


def texts(path: Path) -> Iterator[Example]:
    """The rows of a file; which columns and fields it may have stands in docs/data.md."""
    end = _end(path)
    rows: Iterator[tuple[str, dict[str, Any]]] = (
        json_lines(path) if end == ".jsonl" else table(path, ("text",), TABLES[end])
    )
    number = -1
    for number, (place, row) in enumerate(rows):
        yield _example(place, row, number)
    if number < 0:
        raise DataError(f"{path} names its columns but holds no rows")


def is_texts(path: Path) -> bool:
    """Whether the name is one of a table or of JSON lines, packed or not."""
    return _end(path) in ENDS


def _end(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _example(place: str, row: dict[str, Any], number: int) -> Example:
    text, label, pair = field(place, row, "text"), row.get("label"), row.get("pair")
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{place}: the text is empty" if isinstance(text, str) else f"{place}: the text is no text")
    if pair is not None and not isinstance(pair, str):
        raise DataError(f"{place}: the pair is no text")
    if isinstance(label, (list, dict, float)):
        raise DataError(f"{place}: the label is a name or a whole number, not {label!r}")
    name = row.get("name", row.get("id"))
    return Example(
        name=str(number) if name in (None, "") else str(name),
        text=text,
        label=None if label in (None, "") else str(label),
        spans=_spans(place, row.get("spans"), text),
        pair=pair or None,
        pair_spans=_spans(place, row.get("pair_spans"), pair or ""),
    )


def _spans(place: str, told: Any, text: str) -> tuple[Extent, ...] | None:
    """Highlights as [[start, end], …]; overlapping ones become one."""
    if told is None:
        return None
    if not isinstance(told, list):
        raise DataError(f"{place}: spans are a list of [start, end], not {told!r}")
    for one in told:
        whole = isinstance(one, list) and len(one) == 2 and all(type(number) is int for number in one)
        if not whole:
            raise DataError(f"{place}: {one!r} is no span; two whole numbers in characters: [start, end]")
        if not 0 <= one[0] < one[1] <= len(text):
            raise DataError(f"{place}: the span {one} lies outside of the text, which has {len(text)} characters")
    return joined((start, end) for start, end in told)
