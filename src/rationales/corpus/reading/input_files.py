"""The files of an input: those that are named, and those in folders and behind globs, always in the same order."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rationales.corpus.reading.arrow_files import dataset_files
from rationales.data.image_folders import SUFFIXES as IMAGE_SUFFIXES
from rationales.errors import DataError, OptionError

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "lines")
TEXT_FORMATS = ("csv", "tsv", "jsonl", "lines")  # tables that are texts, in some encoding
TEXT_SUFFIXES = (".txt", ".text", ".md")
STDIN = "-"
_BY_SUFFIX = {f".{name}": name for name in FORMATS[:-1]} | {".ndjson": "jsonl"}


@dataclass(frozen=True)
class InputFile:
    """One file of the input; `format` is one of `FORMATS`, or text or image for a file that is one record."""

    path: str
    name: str  # in locations and, for a file that is one record, its id
    format: str
    size: int

    @property
    def is_record(self) -> bool:
        """Whether the file is one record, not a table of them."""
        return self.format in ("text", "image")

    @property
    def weight(self) -> int:
        """What the file counts for in the progress: its bytes; all images count the same."""
        return 1 if self.format == "image" else self.size


@dataclass
class InputFiles:
    """The files behind some paths; iterating lists them anew."""

    paths: tuple[str, ...]
    input_format: str | None  # in place of what the names of the files say
    outputs: frozenset[str] = frozenset()  # real paths of files and folders that the run itself writes, never read
    folder_formats: dict[str, str] = field(init=False)  # what each folder is read as

    def __post_init__(self) -> None:
        folders = [path for path in self.paths if path != STDIN and Path(path).is_dir()]
        self.folder_formats = {folder: self._folder_format(folder) for folder in folders}

    def __iter__(self) -> Iterator[InputFile]:
        for path in self.paths:
            yield from self._files(path)

    def _files(self, path: str) -> Iterator[InputFile]:
        """The files behind one path, those of a folder in the order of their names."""
        if path == STDIN:
            yield InputFile(STDIN, "standard input", self.input_format or "lines", 0)
            return
        if path in self.folder_formats:
            for inner in self._walk(path):
                if self._group(inner) == self.folder_formats[path]:
                    name = printable(Path(inner).relative_to(path).as_posix())
                    yield InputFile(inner, name, self._format(inner) or "", Path(inner).stat().st_size)
            return
        file_format = self._format(path)
        if file_format is None:
            raise DataError(f"cannot tell what {path} holds by its name; say --format, one of {', '.join(FORMATS)}")
        name = Path(path).name if file_format in ("text", "image") else path
        yield InputFile(path, printable(name), file_format, Path(path).stat().st_size)

    def _walk(self, folder: str) -> Iterator[str]:
        """All files below a folder, sorted within each folder; only one folder's names are in memory."""
        listed = dataset_files(Path(folder))
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.name.startswith(".") or (listed is not None and entry.is_file() and entry.name not in listed):
                continue
            if self._is_output(entry):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(entry.path)
            elif entry.is_file():
                yield entry.path

    def _is_output(self, entry: os.DirEntry[str]) -> bool:
        return any(Path(path).name == entry.name and os.path.realpath(entry.path) == path for path in self.outputs)

    def _format(self, path: str) -> str | None:
        suffix = Path(Path(path).name.removesuffix(".gz")).suffix.lower()
        if self.input_format is not None:
            return self.input_format
        if suffix in TEXT_SUFFIXES:
            return "text"
        return "image" if suffix in IMAGE_SUFFIXES else _BY_SUFFIX.get(suffix)

    def _group(self, path: str) -> str | None:
        """text, image or table: a folder is read as one of them."""
        file_format = self._format(path)
        return file_format if file_format in ("text", "image", None) else "table"

    def _folder_format(self, folder: str) -> str:
        """What a folder is read as: texts where it has any, else tables, else images."""
        groups = {self._group(path) for path in self._walk(folder)}
        group = next((group for group in ("text", "table", "image") if group in groups), None)
        if group is None:
            suffixes = (*TEXT_SUFFIXES, *_BY_SUFFIX, *IMAGE_SUFFIXES)
            raise DataError(f"there is nothing to explain in the folder {folder}; looked for {', '.join(suffixes)}")
        return group


def list_files(
    paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    input_format: str | None,
    outputs: Sequence[str | os.PathLike[str]] = (),
) -> InputFiles:
    """The files behind these paths, without `outputs` and what is in them; a DataError where a path leads nowhere."""
    if input_format is not None and input_format not in FORMATS:
        raise OptionError(f"the format of an input is one of {', '.join(FORMATS)}, not {input_format!r}")
    named = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    output_paths = frozenset(map(os.path.realpath, outputs))
    expanded = [path for name in named for path in _expanded(os.fspath(name), output_paths)]
    if not expanded:
        raise OptionError("no input: name a file, a folder, a glob, or - for standard input")
    if STDIN in expanded and len(expanded) > 1:
        raise OptionError("standard input (-) cannot be joined with files")
    return InputFiles(tuple(expanded), input_format, output_paths)


def _expanded(path: str, outputs: frozenset[str]) -> list[str]:
    if path == STDIN:
        return [path]
    if Path(path).exists():
        if output := _output_around(path, outputs):
            raise OptionError(f"the input {path} lies where the run writes, in {output}; give another --out or --log")
        return [path]
    if not glob.has_magic(path):
        raise DataError(f"there is no file {path}")
    matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207  # may be absolute
    inputs = [match for match in matches if not _output_around(match, outputs)]
    if not inputs:
        raise DataError(f"no file matches {path}")
    return inputs


def _output_around(path: str, outputs: frozenset[str]) -> str | None:
    """The output that a path is, or lies in."""
    real = os.path.realpath(path)
    return next((output for output in outputs if Path(real).is_relative_to(output)), None)


def printable(path: str) -> str:
    """A path that can be written as UTF-8: bytes of its name that are not UTF-8 are escaped."""
    return path.encode("utf-8", "backslashreplace").decode()
