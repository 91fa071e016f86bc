"""The data of a dry run: any folder of images, any file of texts, with or without labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rationales.data import DATASETS, Example, read_data
from rationales.data.image_folders import SUFFIXES as IMAGE_SUFFIXES
from rationales.data.row_files import json_lines, table
from rationales.data.user_texts import DELIMITERS, is_text_file
from rationales.errors import DataError, OptionError
from rationales.evaluation.sampling import evenly
from rationales.groundtruth.image_examples import load_images
from rationales.groundtruth.modified_data import SHARES, truncate_texts
from rationales.groundtruth.theory import min_test_size

LISTED_ERRORS = 3  # unreadable images that a message lists


@dataclass(frozen=True)
class InputData:
    """Examples ready for planting, with notes on how they were prepared."""

    name: str
    kind: str  # image or text
    examples: tuple[Example, ...]
    notes: tuple[str, ...] = ()


def prepare_data(
    data: str | os.PathLike[str] | Sequence[Example],
    *,
    text_column: str = "",
    label_column: str = "",
    limit: int | None = None,
    size: int = 112,
    max_words: int = 100,
    progress: Callable[[float], None] | None = None,
) -> InputData:
    """Read data and bring them into form: images of size x size, texts of at most `max_words` words, unique names."""
    all_examples, name = _read_examples(data, text_column, label_column)
    notes: list[str] = []
    examples = evenly(all_examples, limit)
    if len(examples) < len(all_examples):
        notes.append(f"{len(examples):,} of {len(all_examples):,} examples are used, evenly spread; see the limit")
    kinds = {example.image is not None for example in examples}
    if len(kinds) > 1:
        raise DataError(f"{name} holds images and texts; give one of the two")
    examples = _with_unique_names(examples)
    if not kinds.pop():
        return InputData(name, "text", tuple(_prepare_texts(examples, max_words, notes)), tuple(notes))
    loaded = load_images(examples, size, progress)
    if loaded.unreadable:
        listed = "; ".join(reason for _, reason in loaded.unreadable[:LISTED_ERRORS])
        n_unlisted = len(loaded.unreadable) - LISTED_ERRORS
        notes.append(
            f"left out {len(loaded.unreadable)} of {len(examples)} images that cannot be read: {listed}"
            + (f"; and {n_unlisted} more" if n_unlisted > 0 else "")
        )
    return InputData(name, "image", loaded.examples, tuple(notes))


def check_count(n: int, bound: float) -> None:
    """Raise a DataError if so few examples cannot show that a model relies on a plant."""
    enough = -(-min_test_size(bound) // min(SHARES))
    if n < enough:
        raise DataError(f"there are {n} examples, too few to train, validate and test; give about {enough:.0f} or more")


def _read_examples(
    data: str | os.PathLike[str] | Sequence[Example], text_column: str, label_column: str
) -> tuple[list[Example], str]:
    if not isinstance(data, (str, os.PathLike)):
        if not data:
            raise DataError("there are no examples")
        return list(data), "examples"
    path = Path(data).expanduser()
    name = path.name or str(data)
    if data in DATASETS and not path.exists():
        return read_data(data), str(data)
    if path.is_dir() and not any(path.iterdir()):
        raise DataError(f"the folder {path} is empty; put images into it ({', '.join(IMAGE_SUFFIXES)})")
    if path.is_file() and is_text_file(path):
        return list(_read_rows(path, text_column or "text", label_column or "label")), name
    if text_column or label_column:
        raise OptionError(f"columns are those of a file of texts ({', '.join(DELIMITERS)}, .jsonl), and {path} is none")
    return read_data(path), name


def _read_rows(path: Path, text_column: str, label_column: str) -> Iterator[Example]:
    """The texts of a file with their labels; a row without a text is an error that names the line."""
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    rows: Iterator[tuple[str, Mapping[str, Any]]] = (
        json_lines(path) if suffix not in DELIMITERS else table(path, (), DELIMITERS[suffix])
    )
    index = -1
    for index, (line, row) in enumerate(rows):
        for role, column in (("text", text_column), ("label", label_column)):
            if column not in row and (role, column) != ("label", "label"):  # labels are optional
                columns = ", ".join(map(str, row)) or "nothing"
                advice = f"say which is the {role} column (--{role}-column), one of: {columns}"
                raise DataError(f"{line}: there is no column {column!r}; {advice}")
        text, label = row[text_column], row.get(label_column)
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{line}: the text is empty; leave the row out")
        if isinstance(label, (list, dict, float)):
            raise DataError(f"{line}: the label is a name or an integer, not {label!r}")
        yield Example(name=f"text {index + 1}", text=text, label=None if label in (None, "") else str(label))
    if index < 0:
        raise DataError(f"{path} names its columns but holds no rows")


def _prepare_texts(examples: Sequence[Example], max_words: int, notes: list[str]) -> list[Example]:
    if max_words < 1:
        raise OptionError(f"texts are cut after one word or more, not {max_words}")
    truncated = truncate_texts(examples, max_words)
    n_cut = sum(len(short.text) < len(full.text) for short, full in zip(truncated, examples, strict=True))
    if n_cut:
        notes.append(f"{n_cut:,} of {len(truncated):,} texts are cut after {max_words} words; see the option words")
    if any(example.pair is not None for example in truncated):
        notes.append("of pairs of texts only the first is used")
    return [Example(example.name, example.text, example.label) for example in truncated]


def _with_unique_names(examples: Sequence[Example]) -> list[Example]:
    """The same examples; numbered if two have the same name, since labels are drawn from names."""
    if len({example.name for example in examples}) == len(examples):
        return list(examples)
    return [replace(example, name=f"{example.name} ({number})") for number, example in enumerate(examples, 1)]
