"""Options of `rationales evaluate` that need more than a line: protocols and fillers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rationales.cli.inputs import options
from rationales.errors import OptionError

if TYPE_CHECKING:
    from rationales.evaluation.protocols import Protocol


def protocol_named(text: str) -> str | Protocol:
    """The preset that `text` names, with the fields that it sets."""
    from rationales.evaluation.protocols import PRESETS, unknown_protocol

    name, *settings = text.split(":")
    if not settings:
        return name
    if name not in PRESETS:
        raise unknown_protocol(name)
    changed: dict[str, Any] = options(settings, f"--protocol {name}:")
    fields = PRESETS[name].to_dict()
    changes = ", ".join(f"{field}={value}" for field, value in changed.items())
    return replace(type(PRESETS[name]).from_dict(fields | changed), name=f"{name} ({changes})")


def with_filler(rows: Sequence[dict[str, Any]], filler: str | None) -> list[dict[str, Any]]:
    """The rows of methods; those that fill words in and name no filler take this one."""
    if filler is None:
        return list(rows)
    from rationales.methods import METHODS

    filled = []
    for row in rows:
        method = METHODS.get(row["name"])
        takes_one = method is not None and "filler" in method.__dataclass_fields__ and "filler" not in row["options"]
        # without a title of its own the row would be called after the filler
        filled.append(
            row | {"options": row["options"] | {"filler": filler}, "title": row.get("title", _title(row))}
            if takes_one
            else row
        )
    return filled


def _title(row: dict[str, Any]) -> str:
    settings = [f"{name}={value}" for name, value in row["options"].items()]
    settings += [f"smooth {row['smooth']:g}"] if "smooth" in row else []
    return f"{row['name']} ({', '.join(settings)})" if settings else str(row["name"])


def check_comparison(
    compared: Sequence[str | Protocol], base: str | Protocol, metrics: Sequence[str] | None, selection: str | None
) -> None:
    """Say what is wrong with --protocols before anything is loaded."""
    from rationales.evaluation.bias.protocol_comparison import compared_metrics
    from rationales.evaluation.bias.removal_operations import resolve_protocols
    from rationales.evaluation.protocols import find_protocol

    if selection is not None:
        raise OptionError("--selection is for metrics of selected words; --protocols compares those that remove words")
    resolve_protocols(compared, base, "text")
    compared_metrics(metrics, find_protocol(base))
