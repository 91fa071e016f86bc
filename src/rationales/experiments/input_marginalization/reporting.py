"""What the reports of the tables share: cells, tested differences, verdicts, where MaRC stands, the command."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from rationales.evaluation.metrics import direction
from rationales.evaluation.preparation import versions
from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.statistics import welch
from rationales.evaluation.tables.table import Cell, Table, TableRow, compare_cells, short
from rationales.experiments.claims import ClaimVerdict, PaperClaim, claims_markdown, p_text
from rationales.experiments.input_marginalization.rows import IM, MARC, ROWS
from rationales.experiments.input_marginalization.workspace import LabelledTexts, Workspace
from rationales.experiments.registry import EXPERIMENTS, ExperimentReport

TitledTable = tuple[str, Table, str | None]  # title, table, reference row


def cell(values: np.ndarray, recalls: np.ndarray | None = None) -> Cell:
    """Values of inputs; with `recalls` the values are precisions, and the cell is the F1 of both means."""
    return Cell(
        tuple(float(value) for value in values), None, None if recalls is None else tuple(float(r) for r in recalls)
    )


def make_table(
    workspace: Workspace,
    texts: LabelledTexts,
    cells: Mapping[str, Mapping[str, Cell]],
    recipe: str,
    remarks: Sequence[str] = (),
    filler: str = "",
) -> Table:
    """A table of rows of `ROWS` (key -> metric -> cell), or of other rows by their titles."""
    rows = []
    for key, row_cells in cells.items():
        if key in ROWS:
            method = workspace.method(ROWS[key], filler)
            rows.append(TableRow(ROWS[key].title, dict(row_cells), method.name, asdict(method)))
        else:
            rows.append(TableRow(key, dict(row_cells)))
    accuracy = f"The classifier labels {texts.accuracy:.1%} of the {len(texts.examples)} texts correctly."
    return Table(
        rows=tuple(rows),
        metrics=tuple(dict.fromkeys(name for row_cells in cells.values() for name in row_cells)),
        inputs=tuple(str(example.name) for example in texts.examples),
        protocol=None,
        selection="",
        model=texts.model.name,
        baseline=texts.model.baseline,
        seed=workspace.request.seed,
        versions=versions(),
        remarks=(accuracy, *remarks),
        recipe=recipe,
    )


def mean(table: Table, key: str, metric: str) -> float:
    """Mean of a cell by the key, or the title, of its row."""
    return table[title_of(key)].cells[metric].estimate.mean


def title_of(key: str) -> str:
    """The title of a row in a table."""
    return ROWS[key].title if key in ROWS else key


def reference_row(rows: Sequence[str]) -> str | None:
    """The row that the others are compared with: IM, where it is among them."""
    return title_of(IM) if IM in rows else None


def has_rows(table: Table, *keys: str) -> bool:
    """Whether the table has all of these rows."""
    titles = {row.title for row in table.rows}
    return all(title_of(key) in titles for key in keys)


def difference(table: Table, first: str, second: str, metric: str) -> tuple[float, float]:
    """First minus second, and p: paired sign flips over inputs, or Welch's two-sample t-test over seeds."""
    cells = [table[title_of(key)].cells[metric] for key in (first, second)]
    if table.unit == "seeds":
        return welch(cells[0].values, cells[1].values)
    comparison = compare_cells(cells[0], cells[1])
    return comparison.difference, comparison.p


def lower_than_all(table: Table, key: str, rivals: Sequence[str], metric: str, reading: str) -> ClaimVerdict:
    """Whether a row is lower than each of these; the p value is the largest of the single tests, as all must hold."""
    return _beyond_all(table, key, rivals, metric, reading, -1)


def higher_than_all(table: Table, key: str, rivals: Sequence[str], metric: str, reading: str) -> ClaimVerdict:
    """Whether a row is higher than each of these; the p value is the largest of the single tests."""
    return _beyond_all(table, key, rivals, metric, reading, 1)


def _beyond_all(table: Table, key: str, rivals: Sequence[str], metric: str, reading: str, sign: int) -> ClaimVerdict:
    if not has_rows(table, key, *rivals) or any(math.isnan(mean(table, row, metric)) for row in (key, *rivals)):
        return ClaimVerdict(None, "rows are missing, or nothing was measured", reading)
    differences = [difference(table, key, rival, metric) for rival in rivals]
    holds = all(sign * value > 0 for value, _ in differences)
    p_values = [p for _, p in differences]
    figures = ", ".join(f"{title_of(row)} {short(mean(table, row, metric))}" for row in (key, *rivals))
    return ClaimVerdict(holds, figures, reading, math.nan if any(map(math.isnan, p_values)) else max(p_values))


def standing(titled: Sequence[TitledTable]) -> str:
    """Where MaRC stands in each column with a better direction: its rank, the best row, and its difference to IM."""
    lines = []
    for title, table, _ in titled:
        if not has_rows(table, MARC):
            continue
        for metric in table.metrics:
            if metric.endswith("@0%") or not direction(metric):
                continue
            rows = [row for row in table.rows if metric in row.cells and row.cells[metric].estimate.n]
            if all(row.title != title_of(MARC) for row in rows):
                continue
            better = -1 if direction(metric).endswith("↓") else 1
            ranked = sorted(rows, key=lambda row: -better * row.cells[metric].estimate.mean)
            place = [row.title for row in ranked].index(title_of(MARC)) + 1
            best = ranked[0]
            text = f"{place} of {len(ranked)} ({short(mean(table, MARC, metric))}; best {best.title} "
            text += f"{short(best.cells[metric].estimate.mean)})"
            if has_rows(table, IM):
                value, p = difference(table, MARC, IM, metric)
                text += f", MaRC − IM {short(value)}" + ("" if math.isnan(p) else f", {p_text(p)}")
            lines.append([title, f"{metric}{direction(metric)}", text])
    return markdown.table(["table", "column", "MaRC's place"], lines)


def published(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The paper's own figures."""
    return markdown.table(list(headings), [list(row) for row in rows])


def settings_text(name: str, workspace: Workspace, filler: str = "") -> str:
    """The command that makes the report again, and what it was made with."""
    request, accepted = workspace.request, EXPERIMENTS[name].accepted_options
    values = {"limit": request.limit, "seed": request.seed, "rows": ",".join(request.rows) if request.rows else None}
    values |= {option: getattr(request, option) for option in accepted if option != "tf32"}
    flags = [f" --{key.replace('_', '-')} {value}" for key, value in values.items() if value is not None]
    flags += [" --tf32"] if request.tf32 else []
    with_filler = f" Filler: {workspace.filler(filler).name}."
    return f"Command: `rationales reproduce {name} --data DIR{''.join(flags)}`\n\nSeed {request.seed}.{with_filler}"


def make_report(
    title: str,
    titled: Sequence[TitledTable],
    claims: Sequence[PaperClaim],
    sections: Sequence[tuple[str, str]],
) -> ExperimentReport:
    """The report: tables, verdicts on the claims, where MaRC stands, and further sections."""
    first_title, table, reference = titled[0]
    blocks = [
        ("The paper's claims", claims_markdown(claims)),
        ("Where MaRC stands", standing(titled)),
        *sections,
    ]
    return ExperimentReport(
        table,
        reference,
        table.metrics,
        tuple((heading, text) for heading, text in blocks if text),
        f"{title}: {first_title}",
        further_tables=tuple(titled[1:]),
    )
