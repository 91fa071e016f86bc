"""The smoothing width of each rival, smoothed or shaped by clauses, selected on validation reviews by one criterion.

Annotators marked only some of the evidence there (7 % of the words, spans of 7), but all of it in the test reviews
(31 %, spans of 23), for which the best validation width would be too narrow. So the criterion is the mean of two: with
the marks as they are, and with the marks widened to full sentences.
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
from rationales.experiments.marc_table1.row_specs import WIDTHS, RowSpec
from rationales.files import read_text, write_text
from rationales.models.text.units import sentences

CRITERION = "average-precision"
WidthMeans = Mapping[str, float]  # width as text, or "none" -> mean over the validation reviews


def measure(study: PreparedEvaluation, spec: RowSpec, progress: Progress | None = None) -> dict[str, float]:
    """Width -> mAP of a row on validation reviews, without smoothing and with every width; the method scores once.

    The mean of two: against the marks as they are, and against the sentences that contain a mark.
    """
    widths = [None, *WIDTHS]
    requested = [
        MethodEntry(spec.method, spec.options, width, title=_name(width), shape=spec.shape) for width in widths
    ]
    selected = resolve_entries(requested, None, "text")[: len(requested)]  # without the chance row
    # the first row computes the scores, all others only smooth them
    rows = study.rows(selected, None if progress is None else lambda done: progress(min(1.0, done * len(selected))))
    widened = [in_sentences(example) for example in study.examples]
    wide = replace(study, examples=widened, gold=[gold_words(example) for example in widened])  # shares cached scores
    return {
        row.title: (row.cells[CRITERION].estimate.mean + wide_row.cells[CRITERION].estimate.mean) / 2
        for row, wide_row in zip(rows, wide.rows(selected), strict=True)
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


def best(means: WidthMeans, spec: RowSpec) -> float | None:
    """The width of `spec.widths` with the highest mAP, the smallest of equals."""
    return max(spec.widths, key=lambda width: (means[_name(width)], -(width or 0.0)))


def _name(width: float | None) -> str:
    return "none" if width is None else f"{width:g}"


def load(path: Path) -> dict[str, dict[str, float]]:
    """Rival -> width -> mAP, as written by `save`; empty where there is no such file."""
    try:
        widths = json.loads(read_text(path)) if path.is_file() else {}
    except json.JSONDecodeError:
        return {}
    return widths if isinstance(widths, dict) else {}


def save(path: Path, widths: Mapping[str, WidthMeans]) -> None:
    """Write the means as JSON."""
    write_text(path, json.dumps(widths, indent=1) + "\n")
