"""Table 1: faithfulness of twelve methods by five metrics, on four data sets and three families of encoders."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.table import Table, short
from rationales.experiments.aml.row_specs import (
    COLUMNS,
    FAML,
    PAPER_NAMES,
    ROWS,
    MethodRow,
    row_names,
    select_rows,
)
from rationales.experiments.aml.scenario_run import ScenarioRun, StudySettings, masker_folder, pooled
from rationales.experiments.aml.scenarios import CORPORA, ENCODERS, Scenario, choose_scenarios
from rationales.experiments.aml.table1_claims import claims
from rationales.experiments.claims import claims_markdown
from rationales.experiments.registry import ExperimentReport, Request

TITLE = "AML, Table 1: faithfulness of explanations of encoders"
NORMALISERS = (
    "All scenarios pooled; the tables of each are below. Suff, LO and Comp are of the best 20 % of the words, A-S and "
    "A-C the sum over 1, 5, 10, 20 and 50 % divided by 6, as the authors computed it; @mean: the same sum divided by "
    "5, the number of levels."
)
SELECTED_ROWS = (
    "Rows 'best of 11 by the metric' were selected by the metric itself on the explained input; they are compared "
    "with each other, never with rows of a fixed budget."
)


def names() -> list[str]:
    """The names that `--rows` accepts: rows, groups, data sets and encoders."""
    return [*row_names(), *CORPORA, *ENCODERS]


def reproduce(request: Request, settings: StudySettings | None = None) -> ExperimentReport:
    """The pooled table, the tables of all scenarios, and the claims."""
    started = time.perf_counter()
    settings = settings or StudySettings()
    choice = choose_scenarios(request.rows)
    specs = select_rows(choice.row_names)
    tables = scenario_tables(choice.scenarios(), specs, request, settings)
    return report(tables, time.perf_counter() - started)


def scenario_tables(
    scenarios: Sequence[Scenario],
    specs: Sequence[MethodRow],
    request: Request,
    settings: StudySettings,
    stop: Callable[[], bool] = lambda: False,
) -> dict[Scenario, Table]:
    """The table of each scenario; no row is begun after a `stop`."""
    tables: dict[Scenario, Table] = {}
    with masker_folder(request.out) as folder:
        for number, scenario in enumerate(scenarios):
            tables[scenario] = ScenarioRun.open(scenario, request, settings, folder).compute(specs, stop)
            if request.progress is not None:
                request.progress((number + 1) / len(scenarios))
    return tables


def report(tables: Mapping[Scenario, Table], seconds: float) -> ExperimentReport:
    """Everything that is read off the tables of the scenarios."""
    table = pooled({scenario.model_name: table for scenario, table in tables.items()})
    table = replace(table, remarks=(*table.remarks, NORMALISERS, SELECTED_ROWS))
    reference = ROWS[FAML].title if any(row.title == ROWS[FAML].title for row in table.rows) else None
    sections = [
        ("The paper's claims", claims_markdown(claims(tables))),
        *((scenario.title, scenario_markdown(table)) for scenario, table in tables.items()),
        ("Time", f"{seconds:.0f} s in all; seconds per input are in the tables."),
    ]
    return ExperimentReport(table, reference, COLUMNS, tuple(sections), TITLE)


def scenario_markdown(table: Table) -> str:
    """Means with intervals under the paper's names, the best fixed row and the best selected row of each in bold."""
    headings = ["method", *(heading(name) for name in COLUMNS), "s / input"]
    best = {(name, group): best_title(table, name, group) for name in COLUMNS for group in (True, False)}
    lines = []
    for row in table.rows:
        cells = []
        for name in COLUMNS:
            if name not in row.cells:
                cells.append("–")
                continue
            value = row.cells[name].estimate
            text = f"{short(value.mean)} [{short(value.low)} {short(value.high)}]"
            cells.append(f"**{text}**" if best[name, is_selected(row.title)] == row.title else text)
        lines.append([row.title, *cells, f"{row.seconds:.3g}"])
    note = (
        f"{len(table.inputs)} inputs, model {table.model}; bold: the best row of a fixed budget, and of the selected."
    )
    return f"{markdown.table(headings, lines)}\n\n{note}"


def heading(name: str) -> str:
    """'A-S ↓', 'A-S, mean ↓'."""
    metric, _, normaliser = name.partition("@")
    arrow = "↑" if metric.endswith("comprehensiveness") else "↓"
    return f"{PAPER_NAMES[metric]}{', mean' if normaliser else ''} {arrow}"


def is_selected(title: str) -> bool:
    """Whether the row of this title is selected by the metric."""
    return any(row.title == title and row.selected for row in ROWS.values())


def best_title(table: Table, metric: str, selected: bool) -> str | None:
    """Title of the best row by the mean, among those that are selected by the metric or those that are not."""
    higher = metric.partition("@")[0].endswith("comprehensiveness")
    means = {
        row.title: row.cells[metric].estimate.mean
        for row in table.rows
        if metric in row.cells and is_selected(row.title) == selected
    }
    pick = max if higher else min
    return pick(means, key=lambda title: means[title]) if means else None
