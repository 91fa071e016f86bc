"""What `explain` is given: a text, files, folders or tables of texts, images, sounds; one input or many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rationales.cli.inputs import source
from rationales.errors import DataError, InputError, OptionError
from rationales.files import read_text

TEXT_ENDS = (".txt", ".text", ".md")  # files of a folder that are read as texts

Named = tuple[Any, str | None]  # an input, and what to call it


@dataclass(frozen=True)
class Sources:
    """Inputs of one kind. `several`: a list in, a list out, even where it holds one input only."""

    kind: str  # text, image, image-text or audio
    inputs: list[Any]
    names: list[str | None]
    several: bool

    @property
    def raw_inputs(self) -> Any:
        """The inputs as `rationales.explain` takes them."""
        return self.inputs if self.several else self.inputs[0]

    @property
    def titles(self) -> Any:
        """Their names likewise; several inputs all have one."""
        if not self.several:
            return self.names[0]
        return [name or f"input {number}" for number, name in enumerate(self.names, 1)]


def gather(
    arguments: Sequence[str],
    files: Sequence[Path],
    images: Sequence[Path],
    sounds: Sequence[Path],
    pair: str | None,
    text_column: str | None = None,
    limit: int | None = None,
    *,
    command: str = "explain",
) -> Sources:
    """The inputs that a command line names. Behind --file, --image or --audio further arguments are further paths."""
    kinds = [kind for kind, paths in (("text", files), ("image", images), ("audio", sounds)) if paths]
    paths = [*files, *images, *sounds]
    if len(kinds) == 1 and arguments and all(Path(argument).exists() for argument in arguments):
        paths, arguments = [*paths, *map(Path, arguments)], []
    if kinds == ["image"] and len(images) == 1 and (arguments or pair is not None):
        return _captioned(images[0], arguments, pair)
    if len(kinds) > 1 or (kinds and arguments):
        if kinds == ["text"]:
            raise OptionError("give a text or --file, not both")
        with_sound = "give one input: a sound, an image or a text"
        raise OptionError(with_sound if "audio" in kinds else "give an image or a text, not both")
    if len(arguments) > 1:
        raise OptionError(
            f"one text is expected, not {len(arguments)}: put quotation marks around it, or give files with --file"
        )
    kind = kinds[0] if kinds else "text"
    if text_column is not None and not (kind == "text" and any(map(_is_table, paths))):
        raise OptionError("--text-column names a column of a table given with --file (.csv, .tsv, .jsonl)")
    if len(paths) > 1 or any(path.is_dir() or (kind == "text" and _is_table(path)) for path in paths):
        if pair is not None:
            raise OptionError("--pair goes with one text; a table of pairs has a column 'pair'")
        return _many(kind, paths, text_column or "text", limit)
    path = paths[0] if paths else None
    by_kind = {name: path if kind == name else None for name in ("text", "image", "audio")}
    text = arguments[0] if arguments else None
    raw_input = source(text, by_kind["text"], by_kind["image"], by_kind["audio"], pair, command)
    return Sources(kind, [raw_input], [path.name if path else None], several=False)


def _captioned(path: Path, arguments: Sequence[str], pair: str | None) -> Sources:
    """An image with its text, for a model that reads both."""
    if pair is not None:
        raise OptionError("--pair is a second text; the text that belongs to an image is the argument itself")
    if len(arguments) > 1:
        raise OptionError(f"one text is expected beside --image, not {len(arguments)}: put quotation marks around it")
    image = source(None, None, path, None, None)
    text = source(arguments[0], None, None, None, None)
    return Sources("image-text", [(image, text)], [path.name], several=False)


def _many(kind: str, paths: Sequence[Path], column: str, limit: int | None) -> Sources:
    """All inputs behind several paths, the first `limit` of them."""
    if kind == "text" and all(path.is_dir() for path in paths) and not any(_files(path, TEXT_ENDS) for path in paths):
        kind = "image"  # a folder says itself what it holds
    each = (named for path in paths for named in _inputs(kind, path, column))
    inputs = list(islice(each, limit))
    if not inputs:
        raise InputError(f"there is nothing to explain in {', '.join(map(str, paths))}")
    return Sources(kind, [raw_input for raw_input, _ in inputs], [name for _, name in inputs], several=True)


def _inputs(kind: str, path: Path, column: str) -> Iterator[Named]:
    if path.is_dir():
        yield from _in_folder(kind, path)
    elif kind == "text" and _is_table(path):
        yield from _rows(path, column)
    elif kind == "text":
        yield read_text(path), path.name
    elif not path.exists():
        raise InputError(f"there is no file {path}")
    else:
        yield str(path), path.name


def _in_folder(kind: str, folder: Path) -> Iterator[Named]:
    """The files of a folder and the folders below it, in the order of their paths."""
    from rationales.data.image_folders import SUFFIXES as PICTURE_ENDS

    ends = {"text": TEXT_ENDS, "image": PICTURE_ENDS, "audio": (".wav",)}[kind]
    files = _files(folder, ends)
    if not files:
        looked_for = ends if kind != "image" else (*TEXT_ENDS, *ends)
        raise InputError(f"there is nothing to explain in the folder {folder}; looked for {', '.join(looked_for)}")
    for path in files:
        name = path.relative_to(folder).as_posix()
        yield (read_text(path) if kind == "text" else str(path)), name


def _files(folder: Path, ends: Sequence[str]) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in ends and path.is_file() and not path.name.startswith(".")
    )


def _is_table(path: Path) -> bool:
    return Path(path.name.removesuffix(".gz")).suffix.lower() in (".csv", ".tsv", ".jsonl")


def _rows(path: Path, column: str) -> Iterator[Named]:
    """The texts of a table's column, with `pair` and `name` (or `id`) where it has them."""
    from rationales.data.row_files import json_lines, table

    end = Path(path.name.removesuffix(".gz")).suffix.lower()
    rows: Iterator[tuple[str, dict[str, Any]]] = (
        json_lines(path) if end == ".jsonl" else table(path, (), "\t" if end == ".tsv" else ",")
    )
    for number, (location, row) in enumerate(rows, 1):
        if column not in row:
            raise DataError(f"{location}: there is no column {column!r}; say --text-column, one of: {', '.join(row)}")
        text, pair, name = row[column], row.get("pair"), row.get("name", row.get("id"))
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{location}: the column {column!r} holds no text")
        if pair is not None and not isinstance(pair, str):
            raise DataError(f"{location}: the pair is no text")
        yield (text if not pair else (text, pair)), f"{path.name} {number}" if name in (None, "") else str(name)
