"""Two-sample t-tests of the accuracies of retrained classifiers, and the sentences about them below a table."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations

from rationales.evaluation.entries import RANDOM
from rationales.evaluation.tables.statistics import holm, welch
from rationales.evaluation.tables.table import Table, short

ONE_SEED = "One seed: no t-test. Train at least two, better five."
ONE_ROW = "One row: no t-test between methods."
TESTS = ", two-sample t-tests (Welch, over seeds):"  # what a remark with tests has after the name of its column


@dataclass(frozen=True)
class RoarTest:
    """Two-sample t-test (Welch, two-sided) of the accuracies of two rows at one level."""

    metric: str
    first: str
    second: str
    difference: float  # of the mean accuracies, first minus second
    p: float
    adjusted: float  # after Holm's correction over all tests of the table


def roar_tests(table: Table) -> list[RoarTest]:
    """Every two rows at every level by Welch's two-sample t-test over seeds, corrected after Holm; NaN for one seed."""
    pairs = [
        (metric, first, second)
        for metric in table.metrics
        if not metric.endswith("@0%")
        for first, second in combinations(table.rows, 2)
    ]
    tests = [welch(first.cells[metric].values, second.cells[metric].values) for metric, first, second in pairs]
    adjusted = holm([p for _, p in tests]) if tests else []
    return [
        RoarTest(metric, first.title, second.title, difference, p, value)
        for (metric, first, second), (difference, p), value in zip(pairs, tests, adjusted, strict=True)
    ]


def with_tests(table: Table) -> Table:
    """The table with its tests among the remarks: against random scores first, then between methods.

    Tests that are among the remarks already, of these or of further rows, are left out.
    """
    remarks = [line for line in table.remarks if line not in (ONE_SEED, ONE_ROW) and TESTS not in line]
    if len(table.inputs) < 2 or len(table.rows) < 2:
        return replace(table, remarks=(*remarks, ONE_SEED if len(table.inputs) < 2 else ONE_ROW))
    titles = {row.title for row in table.rows if row.method == RANDOM}
    all_tests = roar_tests(table)
    lines = []
    for metric in table.metrics[1:]:
        tests = [test for test in all_tests if test.metric == metric]
        tests.sort(key=lambda test: test.second not in titles)
        written = [
            f"{test.first} − {test.second} {short(test.difference)}, p = {_p(test.p)} (Holm {_p(test.adjusted)})"
            for test in tests
        ]
        lines.append(f"{metric}{TESTS} {'; '.join(written)}.")
    return replace(table, remarks=(*remarks, *lines))


def _p(value: float) -> str:
    return "–" if math.isnan(value) else "< .0001" if value < 0.0001 else f"{value:.4f}".lstrip("0")
