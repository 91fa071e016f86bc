"""Table A5 and section 5.3: how far scores change when the classifier's weights are random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rationales.evaluation.collecting import Progress, progress_of_step
from rationales.evaluation.entries import MethodEntry
from rationales.evaluation.sanity.check import COLUMNS, SanitySettings, sanity_check
from rationales.evaluation.tables.statistics import compare
from rationales.evaluation.tables.table import Table
from rationales.experiments.claims import ClaimVerdict, PaperClaim, p_text
from rationales.experiments.input_marginalization.reporting import (
    TitledTable,
    lower_than_all,
    make_report,
    published,
    reference_row,
    settings_text,
    title_of,
)
from rationales.experiments.input_marginalization.rows import IM, LOO, PAIR_ROWS, ROWS, select_rows
from rationales.experiments.input_marginalization.workspace import ESNLI, SST2, Workspace
from rationales.experiments.registry import ExperimentReport

RUNS = 3  # random heads, as in the paper
ENOUGH_RUNS = 6  # for a test over runs: with fewer the smallest p of paired sign flips is above .05
CASCADE_TEXTS = 500
PUBLISHED = (
    ("tokens that change sign", "LOO-empty", "71.41 ± 17.12 %", "56.07 ± 21.82 %"),
    ("tokens that change sign", "IM", "62.27 ± 17.75 %", "49.57 ± 20.35 %"),
    ("mean absolute difference", "LOO-empty", "0.46 ± 0.18", "0.26 ± 0.14"),
    ("mean absolute difference", "IM", "0.31 ± 0.12", "0.16 ± 0.12"),
)


def sanity(workspace: Workspace) -> ExperimentReport:
    """Random heads on SST-2 and e-SNLI, and on SST-2 all weights in steps from the head down."""
    rows = select_rows(workspace.request.rows, PAIR_ROWS)
    keys = workspace.available([SST2, ESNLI])
    titled: list[TitledTable] = []
    for number, key in enumerate(keys):
        progress = progress_of_step(workspace.progress, number, len(keys) + 1)
        table = _table(workspace, key, rows, cascade=False, progress=progress)
        titled.append((f"{workspace.texts(key).source.title}, random head", table, None))
    progress = progress_of_step(workspace.progress, len(keys), len(keys) + 1)
    table = _table(workspace, SST2, rows, cascade=True, progress=progress)
    titled.append(("SST-2, all weights random, in steps", table, None))
    titled = [(title, table, reference_row(rows)) for title, table, _ in titled]
    sections = [
        ("The paper's own figures (BERT-base)", published(("", "row", "SST-2", "e-SNLI"), PUBLISHED)),
        ("Settings", settings_text("im-sanity", workspace)),
    ]
    return make_report("im-sanity: random weights (Table A5)", titled, claims(titled), sections)


def _table(workspace: Workspace, key: str, rows: Sequence[str], cascade: bool, progress: Progress | None) -> Table:
    limit = min(CASCADE_TEXTS, workspace.request.limit or CASCADE_TEXTS) if cascade else None
    texts = workspace.texts(key, limit)
    entries = [MethodEntry(ROWS[row].method, method=workspace.method(ROWS[row]), title=ROWS[row].title) for row in rows]
    runs = workspace.request.runs or (1 if cascade else RUNS)
    table = sanity_check(
        texts.model,
        texts.examples,
        entries,
        cascade=cascade,
        settings=SanitySettings(runs=runs),
        seed=workspace.request.seed,
        progress=progress,
        cache=workspace.request.cache,
    )
    workspace.tell(f"{texts.source.title}: {'all weights' if cascade else 'the head'} random, {runs} times")
    remark = "Scores in the mean change are divided by the text's largest, in the paper they lie in [-1, 1]."
    return replace(table, remarks=(*table.remarks, remark))


def claims(titled: Sequence[TitledTable]) -> list[PaperClaim]:
    """IM looks at the classifier's weights less than leave-one-out does: tested over texts, and over enough runs."""
    return [
        PaperClaim(
            "5.3",
            f"The scores of IM change their {name} less than those of LOO-empty",
            tuple(_lower_over_runs(table, column, title) for title, table, _ in titled),
        )
        for name, column in (("sign", COLUMNS["sign"]), ("size", COLUMNS["size"]))
    ]


def _lower_over_runs(table: Table, column: str, reading: str) -> ClaimVerdict:
    """The test over texts of means over runs, and in how many runs the claim is true; of both p values the larger."""
    verdict = lower_than_all(table, IM, [LOO], column, reading)
    if verdict.holds is None:
        return verdict
    means = [np.array(table[title_of(key)].run_means.get(column, ())) for key in (IM, LOO)]
    runs, noun = len(means[0]), "models" if table[title_of(IM)].curves else "heads"
    lower = int((means[0] < means[1]).sum())
    figures = f"{verdict.figures}; lower with {lower} of {runs} random {noun}"
    if runs < ENOUGH_RUNS:
        return replace(verdict, figures=f"{figures}, too few for a test over {noun}")
    p = compare(means[0], means[1]).p
    return replace(verdict, figures=f"{figures}, {p_text(p)} over {noun}", p=max(verdict.p, p))
