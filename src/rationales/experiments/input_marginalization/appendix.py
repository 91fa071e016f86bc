"""The appendix: magnitude and coverage (A1, A2), the filler (A3), the threshold (A4), LIME under ROAR (A6).

Table A5 is im-sanity. Appendix C, the tuning of the filler, is in zoo/README.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from rationales.errors import OptionError
from rationales.evaluation.agreement.highlights import magnitude
from rationales.evaluation.counterfactuals.filler_predictions import FillerPredictions, filler_predictions
from rationales.evaluation.counterfactuals.score_correlation import mean_pearson, pearson
from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.statistics import compare, estimate, welch
from rationales.evaluation.tables.table import Table, short
from rationales.experiments.claims import ClaimVerdict, PaperClaim, judge_claim
from rationales.experiments.input_marginalization.figure4 import draw_figure4
from rationales.experiments.input_marginalization.reporting import (
    TitledTable,
    cell,
    difference,
    has_rows,
    higher_than_all,
    make_report,
    make_table,
    mean,
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
)
from rationales.experiments.input_marginalization.table1 import COLUMNS, RIVALS, deletion_table
from rationales.experiments.input_marginalization.table2 import levels_of, retrained_tables
from rationales.experiments.input_marginalization.table3 import row_highlights
from rationales.experiments.input_marginalization.workspace import ESNLI, MULTIRC, SST, SST2, Workspace
from rationales.experiments.registry import ExperimentReport

REMOVAL_TITLES = ("ROAR", "ROAR-BERT", "ROAR-BERT-SST2")
MAGNITUDE, COVERAGE = "magnitude", "highlight-coverage"
THRESHOLD = "im-threshold"
PAPERS_R = 0.7224  # Pearson's r of the scores by both rules for candidates, mean over texts (appendix D)
DATA_HEADINGS = ("", "SST", "e-SNLI", "MultiRC")
PUBLISHED = {  # part -> headings and the paper's own figures
    "a1-a2": (
        DATA_HEADINGS,
        (
            ("A1, magnitude: LOO-empty", "0.22 ± 0.27", "0.15 ± 0.24", "0.09 ± 0.09"),
            ("A1, magnitude: IM", "0.17 ± 0.27", "0.15 ± 0.27", "0.02 ± 0.09"),
            ("A2, coverage: LOO-empty", "40 %", "19 % (L2), 10 % (L3)", "27 %"),
            ("A2, coverage: IM", "30 %", "21 % (L2), 14 % (L3)", "6 %"),
            ("A2, coverage: people", "37 %", "18 % (L2), 9 % (L3)", "16 %"),
        ),
    ),
    "a3": (
        DATA_HEADINGS,
        (
            ("A3, exact match, all words", "48.94 %", "59.43 %", "64.78 %"),
            ("A3, exact match, highlighted words", "41.25 %", "42.74 %", "68.55 %"),
            ("A3, likelihood of an exact match", "0.8229", "0.8146", "0.8556"),
        ),
    ),
    "a4": (
        ("A4, area on SST-2", "IM (ten words)", "IM (likelihood ≥ 1e-5)", "the same in Kim et al. (2020)"),
        (("Deletion", "0.4732", "0.4783", ""), ("Deletion-BERT", "0.4922", "0.4824", "0.4972")),
    ),
    "a6": (
        ("A6, accuracy in %", *(f"{name} {level}" for name in REMOVAL_TITLES for level in ("10 %", "20 %", "30 %"))),
        (
            ("LIME", "75.51", "75.30", "77.45", "78.14", "73.44", "70.57", "78.83", "74.47", "72.18"),
            ("LIME-BERT", "73.99", "72.22", "70.82", "74.13", "70.44", "70.48", "75.78", "71.33", "68.76"),
            ("LIME-BERT-SST2", "74.15", "70.85", "70.48", "76.19", "69.77", "67.61", "76.08", "70.92", "71.08"),
        ),
    ),
}


@dataclass
class AppendixParts:
    """What the requested parts of the appendix gave."""

    tables: list[TitledTable] = field(default_factory=list)
    claims: list[PaperClaim] = field(default_factory=list)
    sections: list[tuple[str, str]] = field(default_factory=list)
    figures: list[TitledTable] = field(default_factory=list)  # tables that Figure 4 is drawn from


def appendix(workspace: Workspace) -> ExperimentReport:
    """The requested parts (`rows`; None: all)."""
    requested = list(workspace.request.rows or PARTS)
    if unknown := [name for name in requested if name not in PARTS]:
        raise OptionError(f"there is no part {unknown[0]!r} of the appendix; there are: {', '.join(PARTS)}")
    parts = AppendixParts()
    for number, name in enumerate(requested):
        PARTS[name](workspace, parts)
        workspace.progress((number + 1) / len(requested))
    figures = "\n\n".join(published(*PUBLISHED[name]) for name in requested)
    sections = [
        *parts.sections,
        ("The paper's own figures (BERT-base)", figures),
        ("Settings", settings_text("im-appendix", workspace)),
    ]
    if not parts.tables:  # A3 alone has no table of methods
        _magnitude_and_coverage(workspace, parts)
    report = make_report("im-appendix", parts.tables, parts.claims, sections)

    def draw(folder: Path) -> Sequence[Path]:
        return draw_figure4([(title, table) for title, table, _ in parts.figures], folder) if parts.figures else []

    return replace(report, draw_figures=draw)


def _magnitude_and_coverage(workspace: Workspace, parts: AppendixParts) -> None:
    readings: list[tuple[str, Table]] = []
    for key in workspace.available([SST, ESNLI, MULTIRC]):
        texts = workspace.texts(key)
        marks_by_title = {"e-SNLI L2" if key == ESNLI else texts.source.title: texts.marks}
        if key == ESNLI:
            marks_by_title["e-SNLI L3"] = workspace.stricter_marks(key)
        for title, marks in marks_by_title.items():
            highlights = {row: row_highlights(workspace, key, row, marks) for row in PAIR_ROWS}
            cells = {
                row: {
                    MAGNITUDE: cell(np.array([magnitude(scores) for scores in workspace.unit_scores(key, row)])),
                    COVERAGE: cell(item.coverage),
                    "distance to people": cell(np.abs(item.coverage - item.gold_coverage)),
                }
                for row, item in highlights.items()
            }
            cells["People"] = {COVERAGE: cell(highlights[LOO].gold_coverage)}
            recipe = (
                "magnitude: mean absolute score, the text's largest being 1 (A1). highlight-coverage: share of the "
                "tokens highlighted at the row's best threshold (A2); distance to people: its absolute difference to "
                "the share that people marked, text by text."
            )
            table = make_table(workspace, texts, cells, recipe)
            parts.tables.append((f"A1 and A2, {title}", table, reference_row(PAIR_ROWS)))
            readings.append((title, table))
    verdicts = tuple(higher_than_all(table, LOO, [IM], MAGNITUDE, title) for title, table in readings)
    parts.claims.append(PaperClaim("A", "LOO-empty gives scores of larger magnitude than IM", verdicts))
    verdicts = tuple(higher_than_all(table, IM, [LOO], "distance to people", title) for title, table in readings)
    parts.claims.append(
        PaperClaim("A", "The coverage of LOO-empty is closer to that of people than that of IM, text by text", verdicts)
    )


def _filler_predictions(workspace: Workspace, parts: AppendixParts) -> None:
    lines, claims = [], []
    for key in workspace.available([SST, ESNLI, MULTIRC]):
        texts = workspace.texts(key)
        predictions = filler_predictions(texts.model, texts.examples, workspace.filler())
        every = np.ones_like(predictions.matches)
        shares = (
            _pooled(predictions.text, predictions.matches, every),
            _pooled(predictions.text, predictions.matches, predictions.marked),
            _pooled(predictions.text, predictions.likelihood, predictions.matches),
        )
        lines.append([f"{texts.source.title} ({len(texts.examples)} texts, {len(predictions.text)} words)", *shares])
        claims.append(_predictable_words(workspace, key, predictions))
        workspace.tell(f"A3 on {texts.source.title}: {len(predictions.text)} words")
    headings = ["exact match of the likeliest word", "all words", "highlighted words", "likelihood of a match"]
    parts.sections.append(
        (
            f"A3: what {workspace.filler().name} predicts for a masked word",
            markdown.table(headings, lines) + "\n\n95 % bootstrap intervals over texts.",
        )
    )
    text = "IM scores words that the filler predicts exactly closer to 0 than other words (A3, section B)"
    parts.claims.append(PaperClaim("B", text, tuple(claims)))


def _pooled(text: np.ndarray, values: np.ndarray, included: np.ndarray) -> str:
    """Mean over the included words, with an interval from drawing texts."""
    count = np.bincount(text, included.astype(np.float64))
    total = np.bincount(text, np.where(included, values, 0.0))
    means = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return markdown.estimate(estimate(means, count))


def _predictable_words(workspace: Workspace, key: str, predictions: FillerPredictions) -> ClaimVerdict:
    """Mean |IM| of exactly predicted words beside that of other words, text by text, the largest score being 1."""
    texts = workspace.texts(key)
    matched, unmatched = [], []
    for number, scores in enumerate(workspace.unit_scores(key, IM)):
        matches = predictions.matches[predictions.text == number]
        if len(matches) != len(scores) or matches.all() or not matches.any():
            continue  # some of its words cannot be masked, or there is nothing to compare
        sizes = np.abs(scores) / (np.abs(scores).max() or 1.0)
        matched.append(float(sizes[matches].mean()))
        unmatched.append(float(sizes[~matches].mean()))
    if not matched:
        return ClaimVerdict(None, "no text with words of both kinds", texts.source.title)
    test = compare(np.array(matched), np.array(unmatched))
    figures = f"{short(float(np.mean(matched)))} against {short(float(np.mean(unmatched)))} in {len(matched)} texts"
    return ClaimVerdict(test.difference < 0, figures, texts.source.title, test.p)


def _threshold(workspace: Workspace, parts: AppendixParts) -> None:
    rows = (IM, THRESHOLD, *RIVALS, *CONTROLS)
    table = deletion_table(workspace, SST2, rows, "")
    scores = [workspace.unit_scores(SST2, row) for row in (IM, THRESHOLD)]
    correlation = markdown.estimate(mean_pearson(*scores))
    remark = f"Pearson's r of the scores of both rules, mean over texts: {correlation} (paper: {PAPERS_R})."
    table = replace(table, remarks=(*table.remarks, remark))
    parts.tables.append(("A4: the ten likeliest words, or all of likelihood ≥ 1e-5", table, reference_row(rows)))
    parts.claims += [correlation_claim(*scores), *(same_order_claim(table, column) for column in COLUMNS)]


def correlation_claim(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> PaperClaim:
    """Pearson's r of both rules' scores of each text against the paper's mean; tested by sign flips over texts."""
    values = np.array([pearson(*pair) for pair in zip(first, second, strict=True)])
    test = compare(values, np.full(len(values), PAPERS_R))
    text = f"Scores by both rules for candidates are highly correlated (here: Pearson's r above the paper's {PAPERS_R})"
    figures = f"r {short(test.difference + PAPERS_R)} in {test.n} texts"
    return judge_claim("D", text, test.difference > 0 if test.n else None, figures, test.p)


def same_order_claim(table: Table, column: str) -> PaperClaim:
    """Whether both rules stand on the same side of every LOO method; all six differences must be significant."""
    text = f"Both rules for candidates lead to the same conclusion: IM's order among the LOO methods under {column}"
    rules = (IM, THRESHOLD)
    pairs = [[difference(table, rule, rival, column) for rule in rules] for rival in RIVALS]
    p_values = [p for pair in pairs for _, p in pair]
    figures = ", ".join(f"{title_of(row)} {short(mean(table, row, column))}" for row in (*rules, *RIVALS))
    if any(math.isnan(p) for p in p_values):
        return judge_claim("D", text, None, figures)
    holds = all(first * second > 0 for (first, _), (second, _) in pairs)
    return judge_claim("D", text, holds, figures, max(p_values))


def _lime_under_roar(workspace: Workspace, parts: AppendixParts) -> None:
    rows = [row for row in workspace.retrained_rows if row != LIME_BERT_SST2 or workspace.has_filler(TUNED_FILLER)]
    titled = retrained_tables(workspace, rows, workspace.removals)
    parts.tables += [(f"A6: {title}", table, reference) for title, table, reference in titled]
    parts.figures += titled
    for row in [row for row in (LIME_BERT, LIME_BERT_SST2) if row in rows]:
        verdicts = tuple(_lower_on_average(table, row, LIME, title) for title, table, _ in titled)
        text = f"{title_of(row)} beats LIME (accuracy, mean over N, lower is better)"
        parts.claims.append(PaperClaim("6.2", text, verdicts))


def _lower_on_average(table: Table, first: str, second: str, reading: str) -> ClaimVerdict:
    """Welch's t-test over seeds of the accuracy averaged over N."""
    if not has_rows(table, first, second):
        return ClaimVerdict(None, "rows are missing", reading)
    means = [
        np.mean([table[title_of(key)].cells[metric].values for metric in levels_of(table)], axis=0)
        for key in (first, second)
    ]
    lower_by, p = welch(means[0].tolist(), means[1].tolist())
    figures = f"{title_of(first)} {short(float(means[0].mean()))}, {title_of(second)} {short(float(means[1].mean()))}"
    return ClaimVerdict(lower_by < 0, figures, reading, p)


PARTS: dict[str, Callable[[Workspace, AppendixParts], None]] = {
    "a1-a2": _magnitude_and_coverage,
    "a3": _filler_predictions,
    "a6": _lime_under_roar,
    "a4": _threshold,
}
