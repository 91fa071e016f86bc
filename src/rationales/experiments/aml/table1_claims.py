"""What the paper says about Table 1 (section 4.1), judged on our scenarios.

A scenario is a data set with an encoder; a statement about several of them needs each of their paired tests (sign
flips over inputs), or as many of them as it speaks of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rationales.evaluation.tables.statistics import compare
from rationales.evaluation.tables.table import Table, TableRow, short
from rationales.experiments.aml.row_specs import (
    DECOMPX,
    FAML,
    METRICS,
    PAML,
    PAPER_NAMES,
    RANDOM,
    RIVALS,
    ROWS,
    SELECTED,
    SIG,
    SOLVEX,
)
from rationales.experiments.aml.scenarios import Scenario
from rationales.experiments.claims import ClaimVerdict, PaperClaim, p_at_least

Tables = Mapping[Scenario, Table]
SELECTED_RIVALS = tuple(row.key for row in ROWS.values() if row.group == SELECTED and not row.has_masker)
RUNNERS_UP = (DECOMPX, SOLVEX, SIG)
SECTION = "4.1"


def claims(tables: Tables) -> list[PaperClaim]:
    """All claims with their verdicts."""
    fixed, selected = with_rows(tables, [FAML]), with_rows(tables, ["faml-selected"])
    return [
        PaperClaim(
            SECTION,
            "fAML is the best method in most of the scenarios",
            (
                best_in_most(fixed, FAML, (PAML, *RIVALS), "fixed budgets, the paper's methods"),
                best_in_most(fixed, FAML, (PAML, *RIVALS, "marc", "words"), "fixed budgets, with MaRC"),
                best_in_most(selected, "faml-selected", SELECTED_RIVALS, "all selected by the metric"),
            ),
        ),
        PaperClaim(SECTION, "The runners-up are DecompX, Solvex and sequential IG", (_runners_up(tables),)),
        PaperClaim(SECTION, "DecompX underperforms with DistilBERT on every data set", (_weak_decompx(tables),)),
        PaperClaim(SECTION, "fAML is better than pAML by Comp in every scenario", (better_in_all(fixed, FAML, PAML),)),
        PaperClaim("", "pAML is better than random scores by Comp everywhere", (better_in_all(fixed, PAML, RANDOM),)),
        PaperClaim("", "fAML is better than random scores by Comp everywhere", (better_in_all(fixed, FAML, RANDOM),)),
    ]


def _row(table: Table, key: str) -> TableRow | None:
    return next((row for row in table.rows if row.title == ROWS[key].title), None)


def with_rows(tables: Tables, keys: Sequence[str]) -> Tables:
    return {s: table for s, table in tables.items() if all(_row(table, key) is not None for key in keys)}


def _higher(metric: str) -> bool:
    return metric.endswith("comprehensiveness")


def _mean(row: TableRow, metric: str) -> float:
    return row.cells[metric].estimate.mean


def _is_better(first: TableRow, second: TableRow, metric: str) -> bool:
    difference = _mean(first, metric) - _mean(second, metric)
    return difference > 0 if _higher(metric) else difference < 0


def _p(first: TableRow, second: TableRow, metric: str) -> float:
    return compare(np.array(first.cells[metric].values), np.array(second.cells[metric].values)).p


def _present(table: Table, keys: Sequence[str], metric: str) -> list[TableRow]:
    return [row for key in keys if (row := _row(table, key)) is not None and metric in row.cells]


def best_in_most(tables: Tables, key: str, rivals: Sequence[str], reading: str) -> ClaimVerdict:
    """Whether a row is better than all rivals in more than half of scenarios times metrics."""
    total, p_values = 0, []
    for table in tables.values():
        row = _row(table, key)
        for metric in METRICS:
            rows = _present(table, rivals, metric)
            if row is None or metric not in row.cells or not rows:
                continue
            total += 1
            if all(_is_better(row, rival, metric) for rival in rows):
                p_values.append(max(_p(row, rival, metric) for rival in rows))
    if not total:
        return ClaimVerdict(None, f"no row {ROWS[key].title}", reading)
    needed = total // 2 + 1
    figures = f"best in {len(p_values)} of {total} combinations of scenario and metric"
    return ClaimVerdict(len(p_values) >= needed, figures, reading, p_at_least(p_values, needed, total))


def _ranks(table: Table, keys: Sequence[str], metric: str) -> dict[str, int]:
    """Key -> rank of the row among these, 1 being the best."""
    present = [key for key in keys if (row := _row(table, key)) is not None and metric in row.cells]
    means = {key: _mean(row, metric) for key in present if (row := _row(table, key)) is not None}
    ordered = sorted(present, key=lambda key: means[key], reverse=_higher(metric))
    return {key: rank for rank, key in enumerate(ordered, 1)}


def _runners_up(tables: Tables) -> ClaimVerdict:
    """Whether the three have better ranks than the other rivals, on average; tested over scenarios and metrics."""
    first, second = [], []
    for table in tables.values():
        for metric in METRICS:
            ranks = _ranks(table, RIVALS, metric)
            upper = [rank for key, rank in ranks.items() if key in RUNNERS_UP]
            lower = [rank for key, rank in ranks.items() if key not in RUNNERS_UP]
            if upper and lower:
                first.append(float(np.mean(upper)))
                second.append(float(np.mean(lower)))
    if not first:
        return ClaimVerdict(None, "not all of the rows are there")
    figures = f"mean rank {np.mean(first):.1f}, of the other rivals {np.mean(second):.1f}"
    return ClaimVerdict(float(np.mean(first)) < float(np.mean(second)), figures, p=_p_of(first, second))


def _p_of(first: Sequence[float], second: Sequence[float]) -> float:
    return compare(np.array(first), np.array(second)).p


def _weak_decompx(tables: Tables) -> ClaimVerdict:
    """Whether DecompX is worse than sequential IG by Comp with DistilBERT, on every data set."""
    chosen = {s: table for s, table in with_rows(tables, [DECOMPX, SIG]).items() if s.encoder == "distilbert"}
    return better_in_all(chosen, SIG, DECOMPX)


def better_in_all(tables: Tables, key: str, rival: str, metric: str = "comprehensiveness") -> ClaimVerdict:
    """Whether the mean of a row is better than that of a rival in every scenario; p is the largest of all tests."""
    chosen = with_rows(tables, [key, rival])
    pairs = {
        scenario: (first, second)
        for scenario, table in chosen.items()
        if (first := _row(table, key)) is not None and (second := _row(table, rival)) is not None
    }
    if not pairs:
        return ClaimVerdict(None, f"no scenario with rows {ROWS[key].title} and {ROWS[rival].title}")
    wins = [_is_better(first, second, metric) for first, second in pairs.values()]
    p_values = [_p(first, second, metric) for first, second in pairs.values()]
    means = [np.mean([_mean(rows[number], metric) for rows in pairs.values()]) for number in (0, 1)]
    figures = (
        f"in {sum(wins)} of {len(wins)} scenarios; mean {PAPER_NAMES[metric]} "
        f"{ROWS[key].title} {short(float(means[0]))}, {ROWS[rival].title} {short(float(means[1]))}"
    )
    return ClaimVerdict(all(wins), figures, p=max(p_values, default=math.nan))
