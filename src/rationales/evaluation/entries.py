"""The requested rows of a table: methods by name, or with options, smoothing, a shape and a title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from rationales.errors import OptionError
from rationales.evaluation.metrics import check_metric_names
from rationales.evaluation.protocols import Protocol, find_protocol
from rationales.evaluation.selection.rules import SelectionRule, find_selection
from rationales.methods import Method, resolve_method
from rationales.methods.selected_by_metric import selected_by_metric
from rationales.options import check_option
from rationales.pipeline.scoring import check_shape
from rationales.rationale import Rule

RANDOM = "random"


class _TableDefault:
    """Stands for a smoothing or a shape that was not set: the table's own."""

    def __repr__(self) -> str:
        return "as the table"


TABLE_DEFAULT = _TableDefault()


@dataclass(frozen=True)
class MethodEntry:
    """A requested row; `smooth` None means no smoothing, `shape` None as the method does it; left out, the table's."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    smooth: float | _TableDefault | None = TABLE_DEFAULT
    title: str = ""
    method: Method | None = None  # a method object in place of a name and options
    shape: str | _TableDefault | None = TABLE_DEFAULT  # of the rationale, which agreement with people is measured on
    oracle: str = ""  # metric that selects the best of several variants on the explained input (`selected_by_metric`)


@dataclass(frozen=True)
class ResolvedEntry:
    """A row with its method built and its title, smoothing and shape settled."""

    title: str
    method: Method
    smooth: float | None
    shape: str | None = None


def resolve_entries(
    methods: Sequence[str | Method | Mapping[str, Any] | MethodEntry],
    smooth: float | None,
    kind: str,
    shape: str | None = None,
) -> list[ResolvedEntry]:
    """The rows, checked and built; a row of random scores is added at the end unless it was requested."""
    if isinstance(methods, str):
        raise OptionError(f"methods is a list of methods: [{methods!r}]")
    if not methods:
        raise OptionError("no method to evaluate; name at least one")
    requested = [_as_entry(entry) for entry in methods]
    if all(entry.name != RANDOM or entry.oracle for entry in requested):
        requested.append(MethodEntry(RANDOM))
    resolved = [_resolve(entry, smooth, shape, kind) for entry in requested]
    titles = [entry.title for entry in resolved]
    if duplicates := [title for number, title in enumerate(titles) if title in titles[:number]]:
        raise OptionError(f"two rows are called {duplicates[0]!r}; give them titles")
    return resolved


def selection_remarks(entries: Sequence[ResolvedEntry]) -> tuple[str, ...]:
    """A note on rows that are selected by a metric on the example that they are measured on; nothing if none is."""
    rows = [f"{entry.title} (by {entry.method.selected_by})" for entry in entries if entry.method.selected_by]
    if not rows:
        return ()
    note = (
        f"Selected by a metric on the test example itself: {', '.join(rows)}. Compare selected rows with each other "
        "alone, random scores selected likewise among them (random:oracle=METRIC), never with rows of fixed settings."
    )
    return (note,)


def check_request(
    methods: Sequence[str | Method | Mapping[str, Any] | MethodEntry],
    protocol: str | Protocol,
    metrics: Sequence[str] | None,
    smooth: float | None = None,
    selection: str | Rule | SelectionRule | None = None,
    kinds: Sequence[str] = ("text", "image"),
    shape: str | None = None,
) -> None:
    """Raise an OptionError where a name or an option fits none of these kinds of input; nothing has to be loaded."""
    if metrics is not None:
        check_metric_names(metrics)
    if selection is not None:
        find_selection(selection)
    errors = []
    for kind in kinds:
        try:
            resolve_entries(methods, smooth, kind, shape)
            find_protocol(protocol, kind)
        except OptionError as error:
            errors.append(error)
    if len(errors) == len(kinds):
        raise errors[0]


def _as_entry(method: str | Method | Mapping[str, Any] | MethodEntry) -> MethodEntry:
    if isinstance(method, MethodEntry):
        return method
    if isinstance(method, Method):
        return MethodEntry(method.name, method=method)
    if isinstance(method, str):
        return MethodEntry(method)
    known = {option.name for option in fields(MethodEntry)} - {"method"}
    if "name" not in method or not set(method) <= known:
        raise OptionError(f"a method is a name or has {', '.join(sorted(known))}; not {dict(method)!r}")
    return MethodEntry(**method)


def _resolve(entry: MethodEntry, smooth: float | None, shape: str | None, kind: str) -> ResolvedEntry:
    width = smooth if isinstance(entry.smooth, _TableDefault) else entry.smooth
    if width is not None:
        check_option("smooth", width, "float", ())
        if width <= 0:
            raise OptionError(f"smooth must be a number greater than 0, not {width!r}")
    method = resolve_method(entry.method or entry.name, entry.options, kind)
    settings = [f"{name}={value}" for name, value in entry.options.items()]
    if entry.oracle:
        if kind != "text":
            raise OptionError(f"oracle={entry.oracle}: only scores of texts are selected by a metric; leave it out")
        method = selected_by_metric(method, entry.oracle)
        settings.append(f"oracle {entry.oracle}")
    settings += [f"smooth {width:g}"] if width is not None else []
    row_shape = shape if isinstance(entry.shape, _TableDefault) else entry.shape
    check_shape(row_shape, kind)
    settings += [f"shape {row_shape}"] if row_shape is not None else []
    title = f"{entry.name} ({', '.join(settings)})" if settings else entry.name
    return ResolvedEntry(entry.title or title, method, width, row_shape)
