"""How wide a rival is smoothed: chosen once for each, on validation reviews that the table is not made of.

There people marked a part of the evidence (7 % of the words, spans of 7), on the test reviews all of it (31 %, spans of
23). A width that is best for the one is too narrow for the other, so marks count twice: as they are, and widened to
whole sentences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rationales.data import Example
from rationales.evaluation.agreement.word_marks import gold_words
from rationales.evaluation.collecting import Progress
from rationales.evaluation.entries import MethodEntry, resolve_entries
from rationales.evaluation.preparation import PreparedEvaluation
from rationales.experiments.marc_table1.rows import WIDTHS, RowSpec
from rationales.files import read_text, write_text
from rationales.models.units import sentences

CRITERION = "average-precision"
Measured = Mapping[str, float]  # width as text, or "none" -> mean over the validation reviews


def measured(study: PreparedEvaluation, spec: RowSpec, progress: Progress | None = None) -> dict[str, float]:
    """The mAP of a method on validation reviews without smoothing and with every width; the method is asked once.

    The mean of two: against the marks as they are, and against the sentences that hold one.
    """
    widths = [None, *WIDTHS]
    wanted = [MethodEntry(spec.method, spec.options, width, _name(width)) for width in widths]
    chosen = resolve_entries(wanted, None, "text")[: len(wanted)]  # without the chance row, which is no part of this
    # the first row asks the method, and all others only smooth what it said
    made = study.rows(chosen, None if progress is None else lambda done: progress(min(1.0, done * len(chosen))))
    widened = [in_sentences(example) for example in study.examples]
    wide = replace(study, examples=widened, gold=[gold_words(example) for example in widened])  # what is held is shared
    return {
        one.title: (one.cells[CRITERION].estimate.mean + other.cells[CRITERION].estimate.mean) / 2
        for one, other in zip(made, wide.rows(chosen), strict=True)
    }


def in_sentences(example: Example) -> Example:
    """The example with every marked span widened to the sentences that it touches."""
    if not example.spans:
        return example
    touched = [
        (start, end)
        for start, end in sentences(example.text)
        if any(start < last and first < end for first, last in example.spans)
    ]
    return replace(example, spans=tuple(touched))


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
