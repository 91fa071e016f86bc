"""Table 3: agreement with people, of a classifier that was trained on SST-2 (appendix A.1).

As in the paper the best 25 words of ERASER's film reviews; besides, the best quarter of the words of the treebank's
sentences, where people judged every phrase. Maskers are those for A-C, as in the paper: nothing is fitted to marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rationales.data import Example, read_data
from rationales.evaluation.entries import MethodEntry, resolve_entries
from rationales.evaluation.preparation import prepare_evaluation
from rationales.evaluation.sampling import evenly
from rationales.evaluation.tables.statistics import compare
from rationales.evaluation.tables.table import Table, short
from rationales.experiments.aml.row_specs import DECOMPX, FAML, PAML, RANDOM, ROWS, SIG, MethodRow
from rationales.experiments.aml.scenario_run import ScenarioRun, StudySettings, masker_folder
from rationales.experiments.aml.scenarios import (
    CORPORA,
    DEFAULT_LIMIT,
    ENCODERS,
    Scenario,
    check_names,
    choose_encoder,
)
from rationales.experiments.claims import ClaimVerdict, PaperClaim, claims_markdown
from rationales.experiments.registry import ExperimentReport, Request

TITLE = "AML, Table 3: agreement with people"
KEYS = (FAML, PAML, DECOMPX, SIG, "marc", "words", "marc-instant", RANDOM)
MASKER_METRIC = "aopc-comprehensiveness"
DEFAULT_ENCODER = "bert"  # the paper's family


@dataclass(frozen=True)
class MarkedTexts:
    """Texts with people's marks, and the rule that selects words."""

    key: str
    title: str
    data: str
    rule: str

    @property
    def metrics(self) -> tuple[str, ...]:
        """Macro and micro F1 by the rule, and a metric without one."""
        return (f"token-f1@{self.rule}", f"token-f1-micro@{self.rule}", "average-precision")

    def examples(self, folder: Path | None, limit: int | None) -> list[Example]:
        """Test texts with a mark, evenly spread."""
        return evenly([example for example in read_data(self.data, "test", folder) if example.spans], limit)


MARKED_TEXTS = {
    texts.key: texts
    for texts in (
        MarkedTexts("movies", "ERASER film reviews, best 25 words", "eraser-movies", "top=25"),
        MarkedTexts("sst", "SST sentences, best quarter of the words", "sst", "share=0.25"),
    )
}


def names() -> list[str]:
    """The names that `--rows` accepts: rows, kinds of texts, and one of the encoders."""
    return [*KEYS, *MARKED_TEXTS, *ENCODERS]


def reproduce(request: Request, settings: StudySettings | None = None) -> ExperimentReport:
    """A table for each kind of marked texts; the first is the paper's."""
    settings = settings or StudySettings()
    requested = tuple(request.rows or ())
    check_names(requested, names())
    specs = [ROWS[key] for key in KEYS if key in requested or key == RANDOM or not set(requested) & set(KEYS)]
    kinds = [texts for key, texts in MARKED_TEXTS.items() if key in requested or not set(requested) & {*MARKED_TEXTS}]
    scenario = Scenario(CORPORA["sst2"], choose_encoder(requested, DEFAULT_ENCODER))
    tables = {}
    with masker_folder(request.out) as folder:
        plan = replace(settings.plan, metrics=(MASKER_METRIC,))
        run = ScenarioRun.open(scenario, request, replace(settings, plan=plan), folder)
        for number, texts in enumerate(kinds):
            tables[texts] = agreement_table(run, texts, specs, request)
            if request.progress is not None:
                request.progress((number + 1) / len(kinds))
    first = kinds[0]
    further_tables = [
        (texts.title, table.to_markdown(_reference(table))) for texts, table in tables.items() if texts != first
    ]
    judged = [claim(texts, table) for texts, table in tables.items()]
    sections = (("The paper's claims", claims_markdown(judged)), *further_tables)
    return ExperimentReport(
        tables[first], _reference(tables[first]), first.metrics, sections, f"{TITLE} ({first.title})"
    )


def agreement_table(run: ScenarioRun, texts: MarkedTexts, specs: Sequence[MethodRow], request: Request) -> Table:
    """Agreement of the rows' best words with the marks of these texts; the predicted label is explained."""
    limit = request.limit or (None if texts.key == "movies" else DEFAULT_LIMIT)
    examples = texts.examples(request.data, limit)
    prepared = prepare_evaluation(run.model, examples, "aml", texts.metrics, seed=request.seed, cache=request.cache)
    left_out = run.settings.left_out
    usable = [spec for spec in specs if run.applies(spec) and f"{spec.key}@{texts.key}" not in left_out]
    entries = [MethodEntry(spec.method, method=run.methods(spec)[MASKER_METRIC], title=spec.title) for spec in usable]
    return prepared.table(prepared.rows(resolve_entries(entries, None, "text")[: len(entries)]))


def _reference(table: Table) -> str | None:
    return ROWS[FAML].title if any(row.title == ROWS[FAML].title for row in table.rows) else None


def claim(texts: MarkedTexts, table: Table) -> PaperClaim:
    """fAML and pAML agree with people better than DecompX and sequential IG do."""
    rows = {row.title: row.cells[texts.metrics[0]] for row in table.rows}
    needed = {key: rows.get(ROWS[key].title) for key in (FAML, PAML, DECOMPX, SIG)}
    text = f"fAML and pAML agree better with people than DecompX and sequential IG ({texts.title})"
    if missing := [key for key, cell in needed.items() if cell is None]:
        return PaperClaim("A.1", text, (ClaimVerdict(None, f"no row {', '.join(missing)}"),))
    cells = {key: cell for key, cell in needed.items() if cell is not None}
    pairs = [(first, second) for first in (FAML, PAML) for second in (DECOMPX, SIG)]
    holds = all(cells[first].estimate.mean > cells[second].estimate.mean for first, second in pairs)
    p = max(compare(np.array(cells[a].values), np.array(cells[b].values)).p for a, b in pairs)
    figures = ", ".join(f"{ROWS[key].title} {short(cell.estimate.mean)}" for key, cell in cells.items())
    return PaperClaim("A.1", text, (ClaimVerdict(holds, f"macro F1: {figures}", p=p),))
