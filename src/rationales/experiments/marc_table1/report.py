"""The sections below the table, in Markdown: claims, calibrated rationales, published figures, widths, times."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.table import Table, TableRow, short
from rationales.experiments.claims import claims_markdown
from rationales.experiments.marc_table1 import row_specs
from rationales.experiments.marc_table1.claims import NAMES, claims
from rationales.experiments.marc_table1.row_specs import DEFAULT, MARC, RANDOM, ROWS, RULE_METRICS, RULES
from rationales.experiments.marc_table1.widths import best as best_width

HEADINGS = {**NAMES, "sufficiency": "suff. ↓", "comprehensiveness": "comp. ↑", "selected-share": "share"}
RULE_TITLES = {
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
    """(title, text) of every section that is not empty."""
    rows = {key: row for row in table.rows if (key := row_specs.key_of(row.title)) is not None}
    levels = len(table.protocol.levels) if table.protocol is not None else 0
    candidates = [
        ("The paper's claims", claims_markdown(claims(table))),
        ("Calibrated rationales: how many words, with and without people's marks", calibrated(rows)),
        ("The paper's own figures (BERT-base)", published()),
        (
            f"Widths, by mAP on {validation} validation reviews (marks as they are, and their sentences)",
            width_table(widths),
        ),
        ("Time", times(rows, len(table.inputs), seconds, levels)),
    ]
    return [(title, text) for title, text in candidates if text]


def calibrated(rows: Mapping[str, TableRow]) -> str:
    """Token F1, IoU F1 and the share of selected words of the rules that need no marks, beside the fitted rule."""
    keys = [key for key in (MARC, DEFAULT, RANDOM) if key in rows]
    if not keys or keys == [RANDOM]:
        return ""
    headings = [f"{ROWS[key].title}: {HEADINGS[metric]}" for key in keys for metric in RULE_METRICS]
    lines = []
    for rule in RULES:
        names = [metric if rule == RULES[0] else f"{metric}@{rule}" for metric in RULE_METRICS]
        lines.append([RULE_TITLES[rule], *(_cell(rows[key], name) for key in keys for name in names)])
    return markdown.table(["words selected by", *headings], lines)


def published() -> str:
    """Table 1 as published."""
    lines = [[spec.title, *(short(figure) for figure in spec.published)] for spec in ROWS.values() if spec.published]
    return markdown.table(["method", *(HEADINGS[name] for name in row_specs.PUBLISHED_COLUMNS)], lines)


def width_table(widths: Mapping[str, Mapping[str, float]]) -> str:
    """The criterion at every width; the selected width is bold."""
    names = ["none", *(f"{width:g}" for width in row_specs.WIDTHS)]
    lines = []
    for key, means in widths.items():
        if key not in ROWS or set(names) - set(means):
            continue
        width = best_width(means, ROWS[key])
        best = "none" if width is None else f"{width:g}"
        lines.append([ROWS[key].title, *(f"**{short(means[n])}**" if n == best else short(means[n]) for n in names)])
    if not lines:
        return ""
    remark = "People marked only part of what matters in these reviews, so all figures are lower than on test reviews."
    table = markdown.table(["method", "not smoothed", *(f"s = {name}" for name in names[1:])], lines)
    return f"{table}\n\n{remark}"


def times(rows: Mapping[str, TableRow], inputs: int, seconds: float, levels: int) -> str:
    """The duration of this run, of scoring, and of the metrics relative to scoring."""
    scored_rows = [row for key, row in rows.items() if key == ROWS[key].plain_key and not math.isnan(row.seconds)]
    scoring = sum(row.seconds for row in scored_rows) * inputs
    lines = [f"This run took {duration(seconds)}; scoring for all rows took {duration(scoring)} when they were made."]
    for key in (MARC, DEFAULT):
        if key in rows and rows[key].seconds > 0 and not math.isnan(rows[key].measuring):
            share = rows[key].measuring / rows[key].seconds
            explain, measure = f"{rows[key].seconds:.3g} s a review to explain", f"{rows[key].measuring:.3g} s"
            measured = f"{measure} to measure {levels} levels of faithfulness"
            lines.append(f"{ROWS[key].title}: {explain}, {measured}, {share:.2f} of that.")
    return "\n\n".join(lines)


def _cell(row: TableRow, name: str) -> str:
    return markdown.estimate(row.cells[name].estimate) if name in row.cells else "–"


def duration(seconds: float) -> str:
    """12.3 s, 4.5 min, 6.7 h."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
