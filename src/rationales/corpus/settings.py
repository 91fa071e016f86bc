"""What a corpus run was asked for: methods, columns, and whether it is the request that the folder was begun with."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from rationales.corpus.explaining import CorpusMethod
from rationales.corpus.reading.arrow_files import header_of
from rationales.corpus.reading.input_files import STDIN, TEXT_FORMATS
from rationales.corpus.reading.sources import CorpusInput, is_utf16
from rationales.errors import DataError, OptionError, RationalesError
from rationales.methods import Method, find_method, resolve_method
from rationales.pipeline.scoring import check_shape
from rationales.version import __version__, installed_version

METHOD_KEYS = ("name", "options", "smooth", "shape", "title")  # of a method that is a mapping


class ChangedRunError(RationalesError):
    """The folder holds results of another input, model or option."""


def resolve_methods(
    methods: Sequence[str | Method | Mapping[str, Any]],
    options: Mapping[str, Any],
    smooth: float | None,
    shape: str | None,
    kind: str,
) -> tuple[CorpusMethod, ...]:
    """The methods, built and checked; `options` go to each method that has them, and must be known to one."""
    if isinstance(methods, str) or not methods:
        raise OptionError("methods is a list of methods, such as ['marc', 'occlusion']")
    resolved: list[CorpusMethod] = []
    unused = set(options)
    for entry in methods:
        spec: dict[str, Any] = dict(entry) if isinstance(entry, Mapping) else {"name": entry}
        if "name" not in spec or not set(spec) <= set(METHOD_KEYS):
            raise OptionError(f"a method is a name or has {', '.join(METHOD_KEYS)}; not {spec!r}")
        name, values = spec["name"], dict(spec.get("options") or {})
        registered = find_method(name) if isinstance(name, str) else None
        if registered is not None:
            known = {option.name for option in fields(registered)}
            known |= {"preset"} if registered.presets.get(kind) else set()
            applicable = {key: value for key, value in options.items() if key in known}
            unused -= set(applicable)
            values = applicable | values
        method = resolve_method(name, values, kind)
        method_shape = spec.get("shape", shape)
        check_shape(method_shape, kind)
        title = spec.get("title") or method.name
        resolved.append(CorpusMethod(title, method, spec.get("smooth", smooth), method_shape))
    if unused:
        names = ", ".join(method.method.name for method in resolved)
        raise OptionError(f"no option {', '.join(sorted(unused))} in {names}; 'rationales methods NAME' lists options")
    titles = [method.title for method in resolved]
    if len(set(titles)) < len(titles):
        raise OptionError("two methods have the same name; give them titles: occlusion:window=1:title=single")
    return tuple(resolved)


def check_columns(source: CorpusInput) -> None:
    """Raise a DataError where the first file lacks a column or cannot be read, before anything is explained."""
    file = next(iter(source.files))
    if file.path == STDIN or file.is_record:
        return
    if source.text_format.is_utf8 and file.format in TEXT_FORMATS and is_utf16(file):
        raise DataError(f"{file.name} is UTF-16, not UTF-8; say --encoding utf-16")
    header = header_of(Path(file.path)) if file.format == "parquet" else None
    row, _ = next(source.rows(file), (None, 0.0))
    if getattr(row, "ends_file", False):
        raise DataError(f"{getattr(row, 'location', file.name)}: {getattr(row, 'message', '')}")
    if header is None and row is not None and file.format in ("csv", "tsv"):
        header = list(row.values)
    if header:
        _check_header(source, file.name, header)


def _check_header(source: CorpusInput, name: str, header: Sequence[str]) -> None:
    columns = [("--text-column", source.columns.text), ("--id-column", source.columns.id)]
    columns += [("--where", condition.column) for condition in source.selection.where]
    for option, column in columns:
        if column is None or column in header:
            continue
        delimiter = next((mark for mark in ";\t|," if mark in header[0]), None) if len(header) == 1 else None
        if delimiter is not None:
            how = "--format tsv" if delimiter == "\t" else f"--delimiter '{delimiter}'"
            raise DataError(
                f"{name} has no column {column!r}, but its columns are separated by {delimiter!r}; say {how}"
            )
        raise DataError(f"{name} has no column {column!r}; say {option}, one of: {', '.join(header)}")


def check_settings(stored: Mapping[str, Any], current: Mapping[str, Any], folder: Path) -> None:
    """Raise a ChangedRunError where a setting differs from that of the earlier run."""
    if differences := sorted(_differences(stored, current, ""), key=lambda line: line.startswith("the code")):
        raise ChangedRunError(refusal(folder, "; ".join(differences[:3])))


def first_difference(stored: Any, current: Any) -> str | None:
    """One difference between two descriptions, in words; None where they are the same."""
    return next(_differences(stored, current, ""), None)


def _differences(stored: Any, current: Any, name: str) -> Iterator[str]:
    if isinstance(stored, Mapping) and isinstance(current, Mapping):
        for key in sorted({*stored, *current}):
            yield from _differences(stored.get(key), current.get(key), f"{name}.{key}" if name else key)
    elif isinstance(stored, list) and isinstance(current, list) and len(stored) == len(current):
        for number, (before, now) in enumerate(zip(stored, current, strict=True)):
            yield from _differences(before, now, f"{name}[{number}]")
    elif stored != current and name.endswith(".code"):
        yield f"the code of {name.removesuffix('.code')} changed"
    elif stored != current:
        yield f"{name} was {_short(stored)} and is {_short(current)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def refusal(folder: Path, difference: str) -> str:
    """The message of a ChangedRunError."""
    return (
        f"{folder} holds results of another run: {difference}. Give another folder, the same input and "
        "options as before, or --restart to remove the earlier results"
    )


def versions() -> dict[str, str]:
    """Versions of what decides the bytes of the results."""
    return {
        "rationales": __version__,
        "torch": torch.__version__,
        "transformers": installed_version("transformers"),
        "pyarrow": installed_version("pyarrow"),
        "python": platform.python_version(),
    }
