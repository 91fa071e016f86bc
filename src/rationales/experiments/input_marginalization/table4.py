"""Table 4: how much accuracy a classifier loses on the texts that methods perturb (section 5.4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rationales.evaluation.counterfactuals.accuracy_drop import DELETE_ONE, LIME, REPLACE_ONE, accuracy_drop
from rationales.evaluation.counterfactuals.text_predictions import predicted_classes
from rationales.evaluation.tables.statistics import compare
from rationales.evaluation.tables.table import Cell, Table, short
from rationales.experiments.claims import ClaimVerdict, PaperClaim
from rationales.experiments.input_marginalization.reporting import (
    TitledTable,
    cell,
    has_rows,
    higher_than_all,
    lower_than_all,
    make_report,
    make_table,
    mean,
    published,
    settings_text,
    title_of,
)
from rationales.experiments.input_marginalization.rows import PAIR_ROWS, select_rows
from rationales.experiments.input_marginalization.workspace import ESNLI, MULTIRC, SST, Workspace
from rationales.experiments.registry import ExperimentReport
from rationales.models.text.text_sources import rewrite

DROP = "accuracy-drop"
OPERATIONS = {
    DELETE_ONE: "LOO samples (one word deleted)",
    REPLACE_ONE: "IM samples (one word replaced)",
    LIME: "LIME samples (many words deleted)",
}
FORMS, FORMS_OF_LONG_TEXTS = 50, 20  # perturbed forms of a text at most, drawn at random; the second: of MultiRC
MARGINAL = 0.05  # loss of accuracy that counts as marginal: 4.92 points is the largest of the paper's
PUBLISHED = (
    ("LOO (one word deleted)", "3.52", "4.92", "1.10"),
    ("IM (one word replaced)", "2.20", "4.86", "0.24"),
    ("LIME (many words deleted)", "16.38", "25.74", "17.85"),
)
RECIPE = (
    "Loss of accuracy, a share: accuracy on the texts as they are minus that on their perturbed forms; every text "
    "counts the same. Of a text with more forms, random ones are measured. Best word: the word that a method scores "
    "highest is deleted, which is not in the paper."
)


def table4(workspace: Workspace) -> ExperimentReport:
    """All data sets whose classifier is here."""
    rows = select_rows(workspace.request.rows, PAIR_ROWS)
    keys = workspace.available([SST, ESNLI, MULTIRC])
    titled: list[TitledTable] = []
    for number, key in enumerate(keys):
        titled.append((workspace.texts(key).source.title, drop_table(workspace, key, rows), None))
        workspace.progress((number + 1) / len(keys))
    sections = [
        ("The paper's own figures (BERT-base), in points", published(("", "SST", "e-SNLI", "MultiRC"), PUBLISHED)),
        ("Settings", settings_text("im-table4", workspace)),
    ]
    return make_report("im-table4: accuracy on perturbed texts", titled, claims(titled), sections)


def drop_table(workspace: Workspace, key: str, rows: Sequence[str]) -> Table:
    """The three operations, and the deletion of the best word of each row."""
    texts, model = workspace.texts(key), workspace.forward_model(key)
    forms = FORMS_OF_LONG_TEXTS if key == MULTIRC else FORMS
    cells: dict[str, dict[str, Cell]] = {}
    for operation, title in OPERATIONS.items():
        filler = workspace.filler() if operation == REPLACE_ONE else None
        result = accuracy_drop(
            model, texts.examples, operation, samples=forms, filler=filler, seed=workspace.request.seed
        )
        cells[title] = {DROP: cell(result.full - result.changed)}
        workspace.tell(f"{title} on {texts.source.title}: {result.forms} forms")
    labels = np.array(texts.labels)
    full = predicted_classes(model, [item.source for item in texts.encoded]) == labels
    for row in rows:
        changed = []
        for item, scores in zip(texts.encoded, workspace.unit_scores(key, row), strict=True):
            kept = np.arange(len(scores)) != int(np.argmax(scores))
            changed.append(rewrite(item, kept))
        without = predicted_classes(model, changed) == labels
        cells[best_word(row)] = {DROP: cell(full.astype(float) - without)}
    return make_table(workspace, texts, cells, f"{RECIPE} At most {forms} forms of a text.")


def best_word(row: str) -> str:
    """The title of the row in which a method's best word is deleted."""
    return f"Best word deleted: {title_of(row)}"


def claims(titled: Sequence[TitledTable]) -> list[PaperClaim]:
    """Section 5.4: one word matters little, many words matter much."""
    single, replaced, many = OPERATIONS.values()
    return [
        PaperClaim(
            "5.4",
            f"Deleting one word costs only a marginal loss of accuracy (here: less than {MARGINAL:g})",
            tuple(_marginal(table, single, title) for title, table, _ in titled),
        ),
        PaperClaim(
            "5.4",
            "Replacing one word costs less accuracy than deleting it",
            tuple(lower_than_all(table, replaced, [single], DROP, title) for title, table, _ in titled),
        ),
        PaperClaim(
            "5.4",
            "LIME's samples cost much more accuracy than those of leave-one-out and IM",
            tuple(higher_than_all(table, many, [single, replaced], DROP, title) for title, table, _ in titled),
        ),
        PaperClaim(
            "",
            "Deleting MaRC's best word costs more accuracy than deleting a random word",
            tuple(
                higher_than_all(table, best_word("marc"), [best_word("random")], DROP, title)
                for title, table, _ in titled
            ),
        ),
    ]


def _marginal(table: Table, row: str, reading: str) -> ClaimVerdict:
    """Tested by sign flips of the loss minus MARGINAL, text by text."""
    if not has_rows(table, row):
        return ClaimVerdict(None, "no such row", reading)
    values = np.array(table[row].cells[DROP].values)
    p = compare(values, np.full(len(values), MARGINAL)).p
    return ClaimVerdict(mean(table, row, DROP) < MARGINAL, f"loss {short(mean(table, row, DROP))}", reading, p)
