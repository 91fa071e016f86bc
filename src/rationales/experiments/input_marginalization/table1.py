"""Table 1: Deletion and Deletion-BERT, each favouring the methods that remove words the same way (section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rationales.evaluation.faithfulness.measure import measure_faithfulness
from rationales.evaluation.protocols import PRESETS
from rationales.evaluation.tables.table import Cell, Table
from rationales.experiments.claims import PaperClaim
from rationales.experiments.input_marginalization.reporting import (
    TitledTable,
    cell,
    higher_than_all,
    lower_than_all,
    make_report,
    make_table,
    published,
    reference_row,
    settings_text,
)
from rationales.experiments.input_marginalization.rows import DELETION_ROWS, IM, LOO, SMALL_FILLER, select_rows
from rationales.experiments.input_marginalization.workspace import ESNLI, SST2, Workspace
from rationales.experiments.registry import ExperimentReport

COLUMNS = {"deletion": "im", "deletion-bert": "im-bert"}  # column -> protocol
RIVALS = ("loo-pad", "loo-unk", LOO)
PUBLISHED_1A = (
    ("SST-2, Deletion", "0.4732", "0.4374", "0.4464", "0.4241"),
    ("SST-2, Deletion-BERT", "0.4922", "0.4970", "0.5047", "0.5065"),
    ("e-SNLI, Deletion", "0.3912", "0.2798", "0.3742", "0.2506"),
    ("e-SNLI, Deletion-BERT", "0.2816", "0.3240", "0.3636", "0.3328"),
)
PUBLISHED_1B = (
    ("SST-2, Deletion", "0.4981", "0.4524", "0.4595", "0.4416"),
    ("SST-2, Deletion-BERT", "0.4798", "0.5037", "0.5087", "0.4998"),
)
HEADINGS = ("area, lower is better", "IM", "LOO-zero", "LOO-unk", "LOO-empty")


def table1a(workspace: Workspace) -> ExperimentReport:
    """SST-2 and e-SNLI with the first filler."""
    keys = workspace.available([SST2, ESNLI])
    return _report(workspace, "im-table1a", keys, "", PUBLISHED_1A)


def table1b(workspace: Workspace) -> ExperimentReport:
    """SST-2 with another filler, in the method and in the metric (the paper's RoBERTa)."""
    return _report(workspace, "im-table1b", [SST2], workspace.request.filler or SMALL_FILLER, PUBLISHED_1B)


def deletion_cells(workspace: Workspace, key: str, row: str, filler: str) -> dict[str, Cell]:
    """Both columns of one row."""
    texts, scores = workspace.texts(key), workspace.unit_scores(key, row, filler)
    cells = {}
    for column, protocol in COLUMNS.items():
        masked_lm = workspace.filler(filler)
        curves = measure_faithfulness(
            workspace.forward_model(key),
            texts.encoded,
            scores,
            None,
            replace(PRESETS[protocol], filler=masked_lm.name),
            gold=list(texts.labels),
            seed=workspace.request.seed,
            filler=masked_lm,
        )
        cells[column] = cell(curves.deletion())
    return cells


def deletion_table(workspace: Workspace, key: str, rows: Sequence[str], filler: str) -> Table:
    """Deletion and Deletion-BERT of these rows on one data set."""
    cells = {}
    for number, row in enumerate(rows):
        cells[row] = deletion_cells(workspace, key, row, filler)
        workspace.progress((number + 1) / len(rows))
    masked_lm = workspace.filler(filler)
    protocols = [replace(PRESETS[name], filler=masked_lm.name).describe() for name in COLUMNS.values()]
    recipe = f"deletion: protocol {protocols[0]}. deletion-bert: protocol {protocols[1]}."
    remark = "A method that removes words as a column does (IM fills, LOO-empty deletes) is favoured by that column."
    return make_table(workspace, workspace.texts(key), cells, recipe, [remark], filler)


def claims(titled: Sequence[TitledTable]) -> list[PaperClaim]:
    """The claims of section 4 on each data set."""
    judged = [
        ("IM is the best of IM and the LOO methods under Deletion-BERT", lower_than_all, IM, RIVALS, "deletion-bert"),
        ("IM is the worst of IM and the LOO methods under Deletion", higher_than_all, IM, RIVALS, "deletion"),
        ("LOO-empty is the best of IM and the LOO methods under Deletion", lower_than_all, LOO,
         (IM, "loo-pad", "loo-unk"), "deletion"),
    ]  # fmt: skip
    return [
        PaperClaim("4", text, tuple(judge(table, row, rivals, column, title) for title, table, _ in titled))
        for text, judge, row, rivals, column in judged
    ]


def _report(
    workspace: Workspace, name: str, keys: Sequence[str], filler: str, figures: Sequence[Sequence[str]]
) -> ExperimentReport:
    rows = select_rows(workspace.request.rows, DELETION_ROWS)
    titled: list[TitledTable] = [
        (workspace.texts(key).source.title, deletion_table(workspace, key, rows, filler), reference_row(rows))
        for key in keys
    ]
    sections = [
        ("The paper's own figures (BERT-base)", published(HEADINGS, figures)),
        ("Settings", settings_text(name, workspace, filler)),
    ]
    return make_report(f"{name}: Deletion and Deletion-BERT", titled, claims(titled), sections)
