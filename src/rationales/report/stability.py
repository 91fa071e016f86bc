"""The tables of a stability check: the same rows for the terminal, for Markdown and for the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from rationales.evaluation.stability.agreement import mean_of_defined
from rationales.evaluation.stability.results import BaselineResult, MethodStability, StabilityResult
from rationales.evaluation.tables import markdown as md
from rationales.evaluation.tables.statistics import Estimate
from rationales.report.terminal.show import safe
from rationales.report.wording import count

MAX_TABLE_LABELS = 4  # with more predicted labels, only the page lists baselines for each label

AGREEMENT = ("differs between the runs", "pairs", "IoU", "IoU by chance", "rank correlation")
RUNS = ("run", "IoU", "rank corr.", "rationale alone", "complement", "selected", "still moving")
BASELINES = ("baseline", "predicted", "n", "IoU", "rank corr.", "rationale alone", "complement", "baseline itself")
INPUTS = ("input", "predicted", "mean IoU", "lowest IoU", "between")

CAPTIONS = {
    "agreement": "Means over inputs with 95 % bootstrap intervals. Rank correlation: Spearman's, of the scores. IoU: "
    "units in both rationales over units in either. By chance: random selections of the same sizes.",
    "runs": "Agreement with all other runs; the mean probability of the explained label for the rationale alone and "
    "for its complement; share of the units in the rationale; inputs whose mask was still moving at the last step.",
    "baselines": "The reference run with one baseline only. Probabilities are those of the explained label, judged "
    "with the same baseline; 'baseline itself': nothing of the input is left. Agreement is with the reference run.",
    "inputs": "The inputs with the least agreement over all pairs of runs, each with the two runs that differ most.",
}


@dataclass(frozen=True)
class ReportTable:
    """A table of texts."""

    name: str  # key of CAPTIONS
    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]


def tables(result: StabilityResult, method: MethodStability) -> Iterator[ReportTable]:
    """All tables of one method that have rows."""
    labels = result.predicted_labels if len(result.predicted_labels) <= MAX_TABLE_LABELS else []
    baseline_table = [row for item in method.baselines for row in baseline_rows(result, item, labels)]
    candidates = (
        ReportTable("agreement", "Agreement between runs", AGREEMENT, list(_agreement_rows(method))),
        ReportTable("runs", "The runs", RUNS, list(_run_rows(method))),
        ReportTable("baselines", "Each baseline alone", BASELINES, baseline_table),
        ReportTable("inputs", "The least stable inputs", INPUTS, list(_input_rows(result, method))),
    )
    return (table for table in candidates if table.rows)


def headline(result: StabilityResult, method: MethodStability) -> str:
    """'marc on 50 texts: 9 runs, 4 baselines, minilm-reviews'."""
    inputs, runs = count(len(result.inputs), result.kind), count(len(method.runs), "run")
    return f"{method.title} on {inputs}: {runs}, {count(len(method.baselines), 'baseline')}, {result.model}"


def markdown(result: StabilityResult) -> str:
    """The whole result as Markdown."""
    parts: list[str] = []
    for method in result.methods:
        parts.append(f"## {headline(result, method)}")
        parts.append("\n".join(f"- {line}" for line in (*result.interpretation()[method.title], *_remarks(method))))
        for table in tables(result, method):
            cells = [[cell.replace("|", r"\|") for cell in row] for row in table.rows]
            parts += [f"### {table.title}", md.table(table.headings, cells), CAPTIONS[table.name]]
    return "\n\n".join(parts) + "\n"


def show(result: StabilityResult, console: Console | None = None) -> None:
    """Print the result: as tables on a terminal, as Markdown into a pipe or a file."""
    console = console or Console()
    if not console.is_terminal:
        console.file.write(markdown(result))
        console.file.flush()
        return
    for method in result.methods:
        console.print(Text(safe(headline(result, method)), style="bold"))
        for line in (*result.interpretation()[method.title], *_remarks(method)):
            console.print(Text(f"• {safe(line)}"))
        for table in tables(result, method):
            console.print()
            console.print(Text(table.title, style="bold"))
            console.print(_rich_table(table))
            console.print(Text(CAPTIONS[table.name], style="dim"))
        console.print()


def baseline_rows(result: StabilityResult, item: BaselineResult, labels: list[str]) -> Iterator[tuple[str, ...]]:
    """A row for all inputs, then one for each of these predicted labels."""
    name = f"{item.name} (reference)" if item.is_reference else item.name
    for label in (None, *labels):
        members = result.members(label)
        summary = item.summary(members)
        shown_label = "all" if label is None else label
        if label is not None and item.carries_evidence and item.favoured[0] == label:
            shown_label += " (favoured)"
        figures = [md.number(summary[column].mean) for column in ("rationale", "complement", "baseline")]
        agreement = [_agreement_cell(summary[column]) for column in ("iou", "rank")]
        yield (name if label is None else "", shown_label, str(int(members.sum())), *agreement, *figures)


def _agreement_cell(value: Estimate) -> str:
    """The mean with its interval, without one that has no width."""
    return md.number(value.mean) if value.low == value.high else md.estimate(value)


def _agreement_rows(method: MethodStability) -> Iterator[tuple[str, ...]]:
    for group, columns in method.summary.items():
        figures = (_agreement_cell(columns["iou"]), md.number(columns["chance"].mean), _agreement_cell(columns["rank"]))
        yield (group, str(len(method.groups[group])), *figures)


def _run_rows(method: MethodStability) -> Iterator[tuple[str, ...]]:
    for number, (run, values) in enumerate(zip(method.runs, method.values, strict=True)):
        title = f"{run.title} (reference)" if number == method.reference else run.title
        means = [_mean_with_others(method.mean_matrix(name), number) for name in ("iou", "rank")]
        figures = (means[0], means[1], float(values.rationale.mean()), float(values.complement.mean()))
        moving = f"{int(values.unconverged.sum())} of {len(values.unconverged)}"
        yield (title, *map(md.number, figures), md.percent(float(values.selected.mean())), moving)


def _mean_with_others(matrix: np.ndarray, number: int) -> float:
    row = np.delete(matrix[number], number)
    return float(mean_of_defined(row[:, None])[0]) if len(row) else float("nan")


def _input_rows(result: StabilityResult, method: MethodStability) -> Iterator[tuple[str, ...]]:
    for case in method.disagreements:
        target, figures = result.targets[case.number], (md.number(case.mean_iou), md.number(case.iou))
        yield (case.name, target, *figures, " / ".join(case.runs))


def _remarks(method: MethodStability) -> Iterator[str]:
    return (f"{remark[:1].upper()}{remark[1:]}." for remark in method.remarks)


def _rich_table(table: ReportTable) -> RichTable:
    rich_table = RichTable(box=SIMPLE_HEAD, pad_edge=False)
    text_columns = {"agreement": 1, "runs": 1, "baselines": 2, "inputs": 2}[table.name]
    for number, heading in enumerate(table.headings):
        left = number < text_columns or heading == "between"
        rich_table.add_column(heading, justify="left" if left else "right", overflow="fold")
    for row in table.rows:
        rich_table.add_row(*(Text(safe(cell.replace(" [", "\n["))) for cell in row))
    return rich_table
