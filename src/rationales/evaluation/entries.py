"""The rows that a table is asked for: a method by name, or with options, smoothing and a title of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from rationales.errors import OptionError
from rationales.evaluation.metrics import check_names
from rationales.evaluation.protocol import Protocol
from rationales.evaluation.protocol import protocol as find_protocol
from rationales.evaluation.selection import Selection
from rationales.evaluation.selection import selection as find_selection
from rationales.methods import Method, build
from rationales.options import check_option

RANDOM = "random"


class _AsTheTable:
    """Stands for a smoothing that is not given: the table's own."""

    def __repr__(self) -> str:
        return "as the table"


AS_THE_TABLE = _AsTheTable()


@dataclass(frozen=True)
class MethodEntry:
    """A row to be: `smooth` None means none, and left out it means what the table says."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    smooth: float | _AsTheTable | None = AS_THE_TABLE
    title: str = ""


@dataclass(frozen=True)
class Entry:
    """A row that can be made."""

    title: str
    method: Method
    smooth: float | None


def entries(wanted: Sequence[str | Mapping[str, Any] | MethodEntry], smooth: float | None, kind: str) -> list[Entry]:
    """The rows, checked and built; a random one comes last where none was asked for."""
    if isinstance(wanted, str):
        raise OptionError(f"methods is a list of methods: [{wanted!r}]")
    if not wanted:
        raise OptionError("no method to evaluate; name at least one")
    given = [_entry(one) for one in wanted]
    if all(one.name != RANDOM for one in given):
        given.append(MethodEntry(RANDOM))
    made = [_built(one, smooth, kind) for one in given]
    titles = [one.title for one in made]
    if twice := [title for number, title in enumerate(titles) if title in titles[:number]]:
        raise OptionError(f"two rows are called {twice[0]!r}; give them titles")
    return made


def check_request(
    methods: Sequence[str | Mapping[str, Any] | MethodEntry],
    protocol: str | Protocol,
    metrics: Sequence[str] | None,
    smooth: float | None = None,
    selection: str | Selection | None = None,
    kinds: Sequence[str] = ("text", "image"),
) -> None:
    """Raise an OptionError where a name or an option fits none of these kinds of input; nothing has to be loaded."""
    if metrics is not None:
        check_names(metrics)
    if selection is not None:
        find_selection(selection)
    errors = []
    for kind in kinds:
        try:
            entries(methods, smooth, kind)
            find_protocol(protocol, kind)
        except OptionError as error:
            errors.append(error)
    if len(errors) == len(kinds):
        raise errors[0]


def _entry(one: str | Mapping[str, Any] | MethodEntry) -> MethodEntry:
    if isinstance(one, MethodEntry):
        return one
    if isinstance(one, str):
        return MethodEntry(one)
    known = {option.name for option in fields(MethodEntry)}
    if "name" not in one or not set(one) <= known:
        raise OptionError(f"a method is a name or has {', '.join(sorted(known))}; not {dict(one)!r}")
    return MethodEntry(**one)


def _built(one: MethodEntry, smooth: float | None, kind: str) -> Entry:
    width = smooth if isinstance(one.smooth, _AsTheTable) else one.smooth
    if width is not None:
        check_option("smooth", width, "float", ())
        if width <= 0:
            raise OptionError(f"smooth must be a number greater than 0, not {width!r}")
    method = build(one.name, dict(one.options), kind)
    said = [f"{name}={value}" for name, value in one.options.items()]
    said += [f"smooth {width:g}"] if width is not None else []
    return Entry(one.title or (f"{one.name} ({', '.join(said)})" if said else one.name), method, width)
