"""What stands below the table: claims, calibrated rationales, the paper's own figures, widths, times. Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rationales.evaluation.tables.table import Table, TableRow, short
from rationales.experiments.marc_table1.claims import Claim, claims
from rationales.experiments.marc_table1.rows import (
    DEFAULT,
    MARC,
    PARTS,
    PUBLISHED_COLUMNS,
    RANDOM,
    ROWS,
    RULES,
    WIDTHS,
    key_of,
)

HEADS = {
    "token-f1": "token F1",
    "average-precision": "mAP",
    "iou-f1": "IoU F1",
    "sufficiency": "suff. ↓",
    "comprehensiveness": "comp. ↑",
    "selected-share": "share",
}
SAID = {
    "fitted": "fitted, leave-one-out (needs marks)",
    "gold-length": "as many as people marked (oracle)",
    "sufficient": "sufficient: 90 % of the probability",
    "keep-sum": "keep-sum: as many as the keeps add up to",
    "otsu": "otsu: two groups of scores",
    "gap": "gap: the largest step in the scores",
    "threshold=0.5": "keep above 0.5",
}


def sections(
    table: Table, widths: Mapping[str, Mapping[str, float]], validation: int, seconds: float
) -> list[tuple[str, str]]:
    """Title and text of every section that has something to say."""
    rows = {key: row for row in table.rows if (key := key_of(row.title)) is not None}
    found = [
        ("The paper's claims", claim_list(claims(table))),
        ("Calibrated rationales: how many words, with and without people's marks", calibrated(rows)),
        ("The paper's own figures (BERT-base)", published()),
        (
            f"Widths, by mAP on {validation} validation reviews (marks as they are, and their sentences)",
            width_table(widths),
        ),
        ("Time", times(rows, len(table.inputs), seconds)),
    ]
    return [(title, text) for title, text in found if text]


def claim_list(found: Sequence[Claim]) -> str:
    """Every claim with a line for each reading."""
    lines = []
    for one in found:
        lines.append(f"- **{one.text}**")
        lines += [f"  - {verdict.reading}: **{verdict.word}** ({verdict.figures})" for verdict in one.verdicts]
    return "\n".join(lines)


def calibrated(rows: Mapping[str, TableRow]) -> str:
    """Rules that need no marks beside the fitted one: token F1, IoU F1 and the share of words they select."""
    shown = [key for key in (MARC, DEFAULT, RANDOM) if key in rows]
    if not shown or shown == [RANDOM]:
        return ""
    heads = [f"{ROWS[key].title}: {HEADS[part]}" for key in shown for part in PARTS]
    lines = []
    for rule in RULES:
        names = [part if rule == RULES[0] else f"{part}@{rule}" for part in PARTS]
        lines.append([SAID[rule], *(_cell(rows[key], name) for key in shown for name in names)])
    return _table(["words selected by", *heads], lines)


def published() -> str:
    """Table 1 as printed."""
    lines = [[one.title, *(short(figure) for figure in one.published)] for one in ROWS.values() if one.published]
    return _table(["method", *(HEADS[name] for name in PUBLISHED_COLUMNS)], lines)


def width_table(widths: Mapping[str, Mapping[str, float]]) -> str:
    """The criterion at every width; the chosen one is bold."""
    names = ["none", *(f"{width:g}" for width in WIDTHS)]
    lines = []
    for key, found in widths.items():
        if key not in ROWS or set(names) - set(found):
            continue
        best = max(names[1:], key=lambda name: (found[name], -float(name)))
        lines.append([ROWS[key].title, *(f"**{short(found[n])}**" if n == best else short(found[n]) for n in names)])
    said = "People marked only part of what matters in these reviews, so all figures are lower than on test reviews."
    return (
        _table(["method", "not smoothed", *(f"s = {name}" for name in names[1:])], lines) + f"\n\n{said}"
        if lines
        else ""
    )


def times(rows: Mapping[str, TableRow], inputs: int, seconds: float) -> str:
    """How long this run took, what its rows took when they were made, and what measuring costs beside explaining."""
    made = sum(row.seconds for row in rows.values() if row.smooth is None and not math.isnan(row.seconds)) * inputs
    said = [f"This run took {duration(seconds)}; scoring for all rows took {duration(made)} when they were made."]
    for key in (MARC, DEFAULT):
        if key in rows and rows[key].seconds > 0 and not math.isnan(rows[key].measuring):
            share = rows[key].measuring / rows[key].seconds
            explain, measure = f"{rows[key].seconds:.3g} s a review to explain", f"{rows[key].measuring:.3g} s"
            said.append(
                f"{ROWS[key].title}: {explain}, {measure} to measure 19 levels of faithfulness, {share:.2f} of that."
            )
    return "\n\n".join(said)


def _cell(row: TableRow, name: str) -> str:
    own = row.cells[name].estimate if name in row.cells else None
    if own is None or own.n == 0:
        return "–"
    return short(own.mean) + ("" if math.isnan(own.low) else f" [{short(own.low)} {short(own.high)}]")


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(
        [
            "| " + " | ".join(heads) + " |",
            "| --- " * len(heads) + "|",
            *("| " + " | ".join(one) + " |" for one in lines),
        ]
    )


def duration(seconds: float) -> str:
    """12.3 s, 4.5 min, 6.7 h."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
