"""Table 3: agreement with human highlights on SST, e-SNLI (two or three annotators) and MultiRC (section 5.2, 6.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rationales.evaluation.agreement.highlights import Highlights, best_highlights
from rationales.evaluation.tables.table import Table
from rationales.experiments.claims import PaperClaim
from rationales.experiments.input_marginalization.reporting import (
    TitledTable,
    cell,
    higher_than_all,
    make_report,
    make_table,
    published,
    reference_row,
    settings_text,
    title_of,
)
from rationales.experiments.input_marginalization.rows import (
    CONTROLS,
    IM,
    LIME,
    LIME_BERT,
    LIME_BERT_SST2,
    LOO,
    PAIR_ROWS,
    TUNED_FILLER,
    select_rows,
)
from rationales.experiments.input_marginalization.workspace import ESNLI, MULTIRC, SST, Workspace
from rationales.experiments.registry import ExperimentReport

ROWS_ON_SST = (IM, LOO, LIME, LIME_BERT, LIME_BERT_SST2, *CONTROLS)
IOU, F1 = "best-threshold-iou", "highlight-f1"
STRICTER = "e-SNLI L3"
PUBLISHED = (
    ("SST, IoU", "0.2377", "0.2756", "0.3193", "0.3170", "0.3127"),
    ("SST, precision", "0.5129", "0.4760", "0.4831", "0.4629", "0.4671"),
    ("SST, recall", "0.5245", "0.6077", "0.6882", "0.7000", "0.6886"),
    ("SST, F1", "0.5186", "0.5338", "0.5677", "0.5573", "0.5566"),
    ("e-SNLI L2, IoU", "0.3316", "0.3415", "", "", ""),
    ("e-SNLI L2, F1", "0.5239", "0.5437", "", "", ""),
    ("e-SNLI L3, IoU", "0.2811", "0.3411", "", "", ""),
    ("e-SNLI L3, F1", "0.4570", "0.5214", "", "", ""),
    ("MultiRC, IoU", "0.0437", "0.0887", "", "", ""),
    ("MultiRC, F1", "0.0931", "0.2317", "", "", ""),
)
RECIPE = (
    "Negative scores count 0, the others are divided by the text's largest; a token is highlighted from a threshold "
    "on. One threshold of 0.05, 0.10 ... 0.95 for all texts of a row: the one of the best mean IoU, fitted to the "
    "marks it is judged by. F1 is the harmonic mean of the mean precision and the mean recall. The predicted label is "
    "explained; texts without any mark have no value. Of MaRC, agreement is measured on the scores that its spans are "
    "selected by."
)


def table3(workspace: Workspace) -> ExperimentReport:
    """All data sets whose classifier is here."""
    titled: list[TitledTable] = []
    missing = []
    keys = workspace.available([SST, ESNLI, MULTIRC])
    for number, key in enumerate(keys):
        plain = ROWS_ON_SST if key == SST else PAIR_ROWS
        rows = select_rows(_inside(workspace.request.rows, plain), plain)
        if not workspace.has_filler(TUNED_FILLER) and LIME_BERT_SST2 in rows:
            rows = tuple(row for row in rows if row != LIME_BERT_SST2)
            missing.append(f"{title_of(LIME_BERT_SST2)}: the filler {TUNED_FILLER} is not here.")
        texts = workspace.texts(key)
        title = "e-SNLI L2" if key == ESNLI else texts.source.title
        titled.append((title, agreement_table(workspace, key, rows, texts.marks, missing), reference_row(rows)))
        if key == ESNLI:
            marks = workspace.stricter_marks(key)
            titled.append((STRICTER, agreement_table(workspace, key, rows, marks), reference_row(rows)))
        workspace.progress((number + 1) / len(keys))
    headings = ("higher is better", "IM", "LOO-empty", "LIME", "LIME-BERT", "LIME-BERT-SST2")
    sections = [
        ("The paper's own figures (BERT-base)", published(headings, PUBLISHED)),
        ("Settings", settings_text("im-table3", workspace)),
    ]
    return make_report("im-table3: agreement with people", titled, claims(titled), sections)


def row_highlights(workspace: Workspace, key: str, row: str, marks: Sequence[np.ndarray]) -> Highlights:
    """The highlights of a row at its best threshold."""
    return best_highlights(marks, workspace.token_scores(key, row))


def agreement_table(
    workspace: Workspace, key: str, rows: Sequence[str], marks: Sequence[np.ndarray], remarks: Sequence[str] = ()
) -> Table:
    """IoU, precision, recall, F1 and coverage of these rows."""
    highlights = {row: row_highlights(workspace, key, row, marks) for row in rows}
    cells = {
        row: {
            IOU: cell(item.iou),
            "highlight-precision": cell(item.precision),
            "highlight-recall": cell(item.recall),
            F1: cell(item.precision, item.recall),
            "highlight-coverage": cell(item.coverage),
        }
        for row, item in highlights.items()
    }
    people = next(iter(highlights.values())).gold_coverage
    thresholds = ", ".join(f"{title_of(row)} {item.threshold:g}" for row, item in highlights.items())
    notes = [f"Thresholds: {thresholds}.", f"People marked {np.nanmean(people):.1%} of the tokens.", *remarks]
    return make_table(workspace, workspace.texts(key), cells, RECIPE, notes)


def claims(titled: Sequence[TitledTable]) -> list[PaperClaim]:
    """LOO-empty closer to people than IM (5.2); LIME not behind LIME-BERT (6.1)."""
    return [
        *(
            PaperClaim(
                "5.2",
                f"LOO-empty agrees better with people than IM, by {name}",
                tuple(higher_than_all(table, LOO, [IM], column, title) for title, table, _ in titled),
            )
            for column, name in ((IOU, "IoU"), (F1, "F1"))
        ),
        *(
            PaperClaim(
                "6.1",
                f"LIME agrees better with people than {title_of(row)}, whose samples are more natural, by IoU",
                tuple(higher_than_all(table, LIME, [row], IOU, title) for title, table, _ in titled[:1]),
            )
            for row in (LIME_BERT, LIME_BERT_SST2)
        ),
    ]


def _inside(requested: Sequence[str] | None, rows: Sequence[str]) -> Sequence[str] | None:
    """Requested rows that this data set has; rows of other data sets of the same table are no mistake."""
    if requested is None:
        return None
    return [row for row in requested if row in rows or row not in ROWS_ON_SST]
