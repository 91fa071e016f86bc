"""Table 4: AML without the loss on the masked input, or without that on the inversely masked one (appendix A.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rationales.evaluation.entries import MethodEntry, resolve_entries
from rationales.evaluation.tables.statistics import compare
from rationales.evaluation.tables.table import Table, TableRow, short
from rationales.experiments.aml.maskers import TEXTS, MaskerFiles
from rationales.experiments.aml.scenario_run import ScenarioRun, StudySettings, masker_folder
from rationales.experiments.aml.scenarios import CORPORA, Scenario, check_names
from rationales.experiments.claims import ClaimVerdict, PaperClaim, claims_markdown
from rationales.experiments.registry import ExperimentReport, Request
from rationales.methods import build

TITLE = "AML, Table 4: ablations of the loss (emotion, DistilBERT shape)"
METRICS = ("sufficiency", "comprehensiveness")


@dataclass(frozen=True)
class Ablation:
    """A term of Eq. 4 whose weight is 0."""

    key: str
    suffix: str
    weight: str  # field of AmlLosses; empty: none


ABLATIONS = (
    Ablation("full", "", ""),
    Ablation("xpred", "Xpred", "prediction_weight"),
    Ablation("xinv", "Xinv", "inverse_weight"),
)


def names() -> list[str]:
    """The names that `--rows` accepts."""
    return [ablation.key for ablation in ABLATIONS]


def title_of(finetuned: bool, ablation: Ablation) -> str:
    """'fAML', 'pAMLXinv'."""
    return f"{'f' if finetuned else 'p'}AML{ablation.suffix}"


def reproduce(request: Request, settings: StudySettings | None = None) -> ExperimentReport:
    """Six rows, each with a masker for Suff and one for Comp, and random scores."""
    settings = settings or StudySettings()
    requested = tuple(request.rows or ())
    check_names(requested, names())
    chosen = [ablation for ablation in ABLATIONS if ablation.key in requested or not requested]
    rows: list[TableRow] = []
    with masker_folder(request.out) as folder:
        run = ScenarioRun.open(Scenario(CORPORA["emotion"], "distilbert"), request, settings, folder)
        texts = run.scenario.corpus.training_texts(request.data, TEXTS)
        for number, ablation in enumerate(chosen):
            changes: dict[str, Any] = {ablation.weight: 0.0} if ablation.weight else {}
            losses = replace(settings.plan.losses, **changes)
            plan = replace(settings.plan, losses=losses, metrics=METRICS)
            name = "-".join([run.scenario.model_name, *([ablation.key] if ablation.weight else [])])  # as in Table 1
            paths = MaskerFiles(run.model, texts, plan, folder, name, request.seed, request.log).of_aml()
            for finetuned in (True, False):
                method = "aml-finetuned" if finetuned else "aml-pretrained"
                options = dict(plan.finetuning) if finetuned else {}
                cells, parts = {}, []
                for metric, path in paths.items():
                    entry = MethodEntry(method, method=build(method, {**options, "masker": str(path)}))
                    parts += run.prepared.rows(resolve_entries([entry], None, "text")[:1])
                    cells[metric] = parts[-1].cells[metric]
                rows.append(replace(parts[0], title=title_of(finetuned, ablation), cells=cells))
            if request.progress is not None:
                request.progress((number + 1) / len(chosen))
        rows += run.prepared.rows(resolve_entries(["random"], None, "text"))
        table = replace(run.table(rows), metrics=METRICS)
    sections = (("The paper's claims", claims_markdown(claims(table))),)
    return ExperimentReport(table, _reference(table), METRICS, sections, TITLE)


def _reference(table: Table) -> str | None:
    return "fAML" if any(row.title == "fAML" for row in table.rows) else None


def claims(table: Table) -> list[PaperClaim]:
    """Both terms are needed, and each ablation is the better one by the metric that its term serves."""
    rows = {row.title: row for row in table.rows}
    judged = []
    for prefix in ("f", "p"):
        full, no_prediction, no_inverse = (f"{prefix}AML{suffix}" for suffix in ("", "Xpred", "Xinv"))
        for text, better, worse, metric in (
            (f"{prefix}AML is better than without the inverse loss", full, no_inverse, "comprehensiveness"),
            (f"{prefix}AML is better than without the prediction loss", full, no_prediction, "sufficiency"),
            (f"Without the prediction loss {prefix}AML is better by Comp", no_prediction, no_inverse, METRICS[1]),
            (f"Without the inverse loss {prefix}AML is better by Suff", no_inverse, no_prediction, METRICS[0]),
        ):
            judged.append(PaperClaim("A.2", text, (verdict(rows.get(better), rows.get(worse), metric),)))
    return judged


def verdict(better: TableRow | None, worse: TableRow | None, metric: str) -> ClaimVerdict:
    """Whether the first row's mean is better than the second's."""
    if better is None or worse is None:
        return ClaimVerdict(None, "not all of the rows are there")
    cells = [row.cells[metric] for row in (better, worse)]
    first, second = (cell.estimate.mean for cell in cells)
    holds = first > second if metric == "comprehensiveness" else first < second
    p = compare(np.array(cells[0].values), np.array(cells[1].values)).p
    figures = f"{metric} {better.title} {short(first)}, {worse.title} {short(second)}"
    return ClaimVerdict(holds, figures, p=p)
