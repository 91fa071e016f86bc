"""What a corpus run was asked for: methods, columns, and whether it is the request that the folder was begun with."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from rationales.corpus.arrow_files import header_of
from rationales.corpus.explaining import CorpusMethod
from rationales.corpus.sources import CorpusInput
from rationales.errors import DataError, OptionError, RationalesError
from rationales.methods import METHODS, Method, resolve_method
from rationales.version import __version__, installed_version


class ChangedRunError(RationalesError):
    """The folder holds results of another input, model or option."""


def resolve_methods(
    methods: Sequence[str | Method | Mapping[str, Any]], options: Mapping[str, Any], smooth: float | None, kind: str
) -> tuple[CorpusMethod, ...]:
    """The methods, built and checked; `options` go to each method that has them, and must be known to one."""
    if isinstance(methods, str) or not methods:
        raise OptionError("methods is a list of methods, such as ['marc', 'occlusion']")
    resolved: list[CorpusMethod] = []
    unused = set(options)
    for entry in methods:
        spec: dict[str, Any] = dict(entry) if isinstance(entry, Mapping) else {"name": entry}
        name, values = spec["name"], dict(spec.get("options") or {})
        if isinstance(name, str) and name in METHODS:
            known = {option.name for option in fields(METHODS[name])}
            known |= {"preset"} if METHODS[name].presets.get(kind) else set()
            applicable = {key: value for key, value in options.items() if key in known}
            unused -= set(applicable)
            values = applicable | values
        method = resolve_method(name, values, kind)
        resolved.append(CorpusMethod(spec.get("title") or method.name, method, spec.get("smooth", smooth)))
    if unused:
        names = ", ".join(method.method.name for method in resolved)
        raise OptionError(f"no option {', '.join(sorted(unused))} in {names}; 'rationales methods NAME' lists options")
    titles = [method.title for method in resolved]
    if len(set(titles)) < len(titles):
        raise OptionError("two methods have the same name; give them titles: occlusion:window=1:title=single")
    return tuple(resolved)


def check_columns(source: CorpusInput) -> None:
    """Raise a DataError where the first file lacks a column or cannot be read, before anything is explained."""
    file = next(source.files())
    if file.path == "-" or file.format in ("text", "image"):
        return
    header = header_of(Path(file.path)) if file.format == "parquet" else None
    row, _ = next(source.rows(file), (None, 0))
    if getattr(row, "ends_file", False):
        raise DataError(f"{getattr(row, 'location', file.name)}: {getattr(row, 'message', '')}")
    if header is None and row is not None and file.format in ("csv", "tsv"):
        header = list(row.values)
    if not header:
        return
    columns = [("--text-column", source.columns.text), ("--id-column", source.columns.id)]
    columns += [("--where", condition.column) for condition in source.selection.where]
    for option, column in columns:
        if column is not None and column not in header:
            raise DataError(f"{file.name} has no column {column!r}; say {option}, one of: {', '.join(header)}")


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
