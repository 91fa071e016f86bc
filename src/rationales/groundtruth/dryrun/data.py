"""A user's own data for a dry run: any folder of pictures, any file of texts, with labels or without."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rationales.data import DATASETS, Example, read
from rationales.data.pictures import ENDS as PICTURES
from rationales.data.tables import json_lines, table
from rationales.data.texts import TABLES, is_texts
from rationales.errors import DataError, OptionError
from rationales.evaluation.sampling import evenly
from rationales.groundtruth.modify import SHARES, shortened
from rationales.groundtruth.shots import load_shots
from rationales.groundtruth.theory import smallest_test

TOLD = 3  # unreadable pictures that a message names


@dataclass(frozen=True)
class Material:
    """Examples ready for planting, and what was done to them."""

    name: str
    kind: str  # image or text
    examples: tuple[Example, ...]
    notes: tuple[str, ...] = ()


def material(
    data: str | os.PathLike[str] | Sequence[Example],
    *,
    text_column: str = "",
    label_column: str = "",
    limit: int | None = None,
    size: int = 112,
    words: int = 100,
    progress: Callable[[float], None] | None = None,
) -> Material:
    """Read data and make them fit: pictures of `size` pixels a side, texts of at most `words` words, unique names."""
    given, name = _given(data, text_column, label_column)
    notes: list[str] = []
    some = evenly(given, limit)
    if len(some) < len(given):
        notes.append(f"{len(some):,} of {len(given):,} examples are used, evenly spread; limit says how many")
    kinds = {one.picture is not None for one in some}
    if len(kinds) > 1:
        raise DataError(f"{name} holds pictures and texts; give one of the two")
    some = _named_apart(some)
    if not kinds.pop():
        return Material(name, "text", tuple(_texts(some, words, notes)), tuple(notes))
    loaded = load_shots(some, size, progress)
    if loaded.unreadable:
        told = "; ".join(reason for _, reason in loaded.unreadable[:TOLD])
        more = len(loaded.unreadable) - TOLD
        notes.append(
            f"left out {len(loaded.unreadable)} of {len(some)} pictures that cannot be read: {told}"
            + (f"; and {more} more" if more > 0 else "")
        )
    return Material(name, "image", loaded.shots, tuple(notes))


def check_count(count: int, bound: float) -> None:
    """Raise a DataError where so many examples cannot show that a model relies on a plant."""
    enough = -(-smallest_test(bound) // min(SHARES))
    if count < enough:
        raise DataError(
            f"there are {count} examples, too few to train, to stop and to test; give about {enough:.0f} or more"
        )


def _given(
    data: str | os.PathLike[str] | Sequence[Example], text_column: str, label_column: str
) -> tuple[list[Example], str]:
    if not isinstance(data, (str, os.PathLike)):
        if not data:
            raise DataError("there are no examples")
        return list(data), "examples"
    path = Path(data).expanduser()
    name = path.name or str(data)
    if data in DATASETS and not path.exists():
        return read(data), str(data)
    if path.is_dir() and not any(path.iterdir()):
        raise DataError(f"the folder {path} is empty; put pictures into it ({', '.join(PICTURES)})")
    if path.is_file() and is_texts(path):
        return list(_rows(path, text_column or "text", label_column or "label")), name
    if text_column or label_column:
        raise OptionError(f"columns are those of a file of texts ({', '.join(TABLES)}, .jsonl), and {path} is none")
    return read(path), name


def _rows(path: Path, text_column: str, label_column: str) -> Iterator[Example]:
    """The texts of a file and their labels; rows that hold no text are an error that says where."""
    end = Path(path.name.removesuffix(".gz")).suffix.lower()
    rows: Iterator[tuple[str, Mapping[str, Any]]] = (
        json_lines(path) if end not in TABLES else table(path, (), TABLES[end])
    )
    number = -1
    for number, (place, row) in enumerate(rows):
        for what, column in (("text", text_column), ("label", label_column)):
            if column not in row and (what, column) != ("label", "label"):  # texts may have no label
                there = ", ".join(map(str, row)) or "nothing"
                advice = f"say which is the {what} column (--{what}-column), one of: {there}"
                raise DataError(f"{place}: there is no column {column!r}; {advice}")
        text, label = row[text_column], row.get(label_column)
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{place}: the text is empty; leave the row out")
        if isinstance(label, (list, dict, float)):
            raise DataError(f"{place}: the label is a name or a whole number, not {label!r}")
        yield Example(name=f"text {number + 1}", text=text, label=None if label in (None, "") else str(label))
    if number < 0:
        raise DataError(f"{path} names its columns but holds no rows")


def _texts(examples: Sequence[Example], words: int, notes: list[str]) -> list[Example]:
    if words < 1:
        raise OptionError(f"texts are cut after one word or more, not {words}")
    cut = shortened(examples, words)
    long = sum(len(one.text) < len(before.text) for one, before in zip(cut, examples, strict=True))
    if long:
        notes.append(f"{long:,} of {len(cut):,} texts are cut after {words} words; words says how many")
    if any(one.pair is not None for one in cut):
        notes.append("of pairs of texts only the first is used")
    return [Example(one.name, one.text, one.label) for one in cut]


def _named_apart(examples: Sequence[Example]) -> list[Example]:
    """The same examples; where two have one name, all are numbered, since labels are drawn from names."""
    if len({one.name for one in examples}) == len(examples):
        return list(examples)
    return [replace(one, name=f"{one.name} ({number})") for number, one in enumerate(examples, 1)]
