"""How wide a rival is smoothed: chosen once for each, on validation reviews that the table is not made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rationales.evaluation.entries import MethodEntry, entries
from rationales.evaluation.study import Study
from rationales.experiments.marc_table1.rows import WIDTHS, RowSpec
from rationales.files import read_text, write_text

CRITERION = "average-precision"
Measured = Mapping[str, float]  # width as text, or "none" -> mean over the validation reviews


def measured(study: Study, spec: RowSpec) -> dict[str, float]:
    """The mAP of a method on validation reviews without smoothing and with every width; the method is asked once."""
    widths = [None, *WIDTHS]
    wanted = [MethodEntry(spec.method, spec.options, width, _name(width)) for width in widths]
    made = study.rows(entries(wanted, None, "text")[: len(wanted)])  # without the chance row, which is no part of this
    return {row.title: row.cells[CRITERION].estimate.mean for row in made}


def best(found: Measured) -> float:
    """The width with the highest mAP, the smallest of equals."""
    return max(WIDTHS, key=lambda width: (found[_name(width)], -width))


def _name(width: float | None) -> str:
    return "none" if width is None else f"{width:g}"


def load(path: Path) -> dict[str, dict[str, float]]:
    """What an earlier run wrote, by the key of the rival; nothing where there is none."""
    try:
        found = json.loads(read_text(path)) if path.is_file() else {}
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def save(path: Path, found: Mapping[str, Measured]) -> None:
    """Write them beside the table."""
    write_text(path, json.dumps(found, indent=1) + "\n")
