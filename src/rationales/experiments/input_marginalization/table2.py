"""Table 2: ROAR and ROAR-BERT, accuracy after retraining without the best words (section 5.1); Table A6 shares it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from rationales.data import Example, read_data
from rationales.evaluation.entries import MethodEntry
from rationales.evaluation.protocols import DELETE, FILL
from rationales.evaluation.retraining.roar import RoarVariant, roar_tables
from rationales.evaluation.retraining.settings import OWN_ENCODER, RetrainingSettings
from rationales.evaluation.retraining.significance import with_tests
from rationales.evaluation.sampling import evenly
from rationales.evaluation.tables.statistics import welch
from rationales.evaluation.tables.table import Table, short
from rationales.experiments.claims import ClaimVerdict, PaperClaim
from rationales.experiments.input_marginalization.reporting import (
    TitledTable,
    has_rows,
    lower_than_all,
    make_report,
    mean,
    published,
    settings_text,
    title_of,
)
from rationales.experiments.input_marginalization.rows import (
    IM,
    LOO,
    PAIR_ROWS,
    RANDOM,
    ROAR,
    ROAR_BERT,
    ROAR_TUNED,
    ROWS,
    TUNED_FILLER,
    select_rows,
)
from rationales.experiments.input_marginalization.workspace import SST2, Workspace
from rationales.experiments.registry import ExperimentReport
from rationales.models.delta import encoder_folder
from rationales.models.text.model import TextModel

TRAIN_TEXTS = 5000  # of SST-2's 67,349 phrases and sentences
SEEDS = 5
LEARNING_RATE = 1e-4  # the paper's 2e-5 is for thirteen times as many steps
COUNTED_TEXTS = 300  # training texts whose tokens are counted for an estimate of the work
NOT_BETTER = 0.01  # accuracy by which IM would have to be lower than leave-one-out to count as better
TITLES = {ROAR: "ROAR (deleted)", ROAR_BERT: "ROAR-BERT (filled in)", ROAR_TUNED: "ROAR-BERT-SST2 (tuned filler)"}
PUBLISHED = (
    ("LOO-empty", "92.62", "74.59", "68.94", "67.89", "76.79", "71.95", "67.62"),
    ("IM", "92.62", "76.22", "70.07", "66.54", "77.36", "71.56", "67.68"),
    ("Random", "92.62", "89.22", "87.75", "85.62", "89.38", "88.23", "85.21"),
    ("p", "", "0.0370", "0.1740", "0.1974", "0.2672", "0.6312", "0.9245"),
)


def table2(workspace: Workspace) -> ExperimentReport:
    """Leave-one-out and IM under ROAR and ROAR-BERT."""
    rows = select_rows(workspace.request.rows, PAIR_ROWS)
    titled = retrained_tables(workspace, rows, (ROAR, ROAR_BERT))
    headings = ("accuracy in %", "0 %", "ROAR 10 %", "20 %", "30 %", "ROAR-BERT 10 %", "20 %", "30 %")
    sections = [
        ("The paper's own figures (BERT-base)", published(headings, PUBLISHED)),
        ("Settings", settings_text("im-table2", workspace)),
    ]
    return make_report("im-table2: ROAR", titled, claims(titled), sections)


def variants(workspace: Workspace, names: Sequence[str]) -> list[RoarVariant]:
    """The ways of removal by name; those whose filler is not here are left out."""
    fillers = {ROAR_BERT: "", ROAR_TUNED: TUNED_FILLER}
    return [
        RoarVariant(name, FILL, workspace.filler(fillers[name])) if name in fillers else RoarVariant(name, DELETE)
        for name in names
        if _possible(workspace, name)
    ]


def retrained_tables(workspace: Workspace, rows: Sequence[str], names: Sequence[str]) -> list[TitledTable]:
    """A table of these rows for each way of removal; what an earlier call computed is used again."""
    known: dict[str, Table] = workspace.retrained
    if not all(name in known and has_rows(known[name], *rows) for name in names if _possible(workspace, name)):
        known |= _retrain(workspace, rows, names)
    titles = [title_of(row) for row in rows]
    selected = {
        name: with_tests(replace(known[name], rows=tuple(row for row in known[name].rows if row.title in titles)))
        for name in names
        if name in known
    }
    return [(TITLES[name], table, None) for name, table in selected.items()]


def _possible(workspace: Workspace, name: str) -> bool:
    return name != ROAR_TUNED or workspace.has_filler(TUNED_FILLER)


def _retrain(workspace: Workspace, rows: Sequence[str], names: Sequence[str]) -> dict[str, Table]:
    began, request, texts = time.perf_counter(), workspace.request, workspace.texts(SST2)
    labels = texts.model.labels
    train = [example for example in read_data("sst-2", "train", request.data) if example.label in labels]
    train = evenly(train, request.train_texts or TRAIN_TEXTS)
    encoder = encoder_folder()
    settings = RetrainingSettings(
        seeds=request.runs or SEEDS,
        learning_rate=LEARNING_RATE,
        start=OWN_ENCODER if encoder is None or workspace.model_name(SST2) in workspace.models else str(encoder),
        together=True,
        by_length=True,
        half=request.tf32,
    )
    entries = [MethodEntry(ROWS[row].method, method=workspace.method(ROWS[row]), title=ROWS[row].title) for row in rows]
    chosen = variants(workspace, names)
    cells = 1 + len(chosen) * len(entries) * len(settings.levels)
    workspace.tell(
        f"ROAR: {cells} sets of texts x {settings.seeds} seeds = {cells * settings.seeds} classifiers, each on "
        f"{len(train)} texts, {settings.epochs} epochs"
    )
    workspace.tell(
        f"ROAR: about {_training_operations(texts.model, train, cells, settings) / 1e12:,.0f} TFLOP of training"
    )
    tables = roar_tables(
        texts.model, texts.examples, entries, chosen, train=train, settings=settings, seed=request.seed,
        progress=request.progress, cache=request.cache, coarse=request.tf32,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    workspace.tell(f"ROAR: {cells * settings.seeds} classifiers in {seconds:.1f} s, scoring included")
    tables = [_without_path(table, str(encoder)) for table in tables]
    return {variant.name: table for variant, table in zip(chosen, tables, strict=True)}


def _training_operations(model: TextModel, train: Sequence[Example], cells: int, settings: RetrainingSettings) -> float:
    """Floating point operations of all classifiers: six for each token and weight of the encoder, embeddings apart."""
    sample = evenly(train, COUNTED_TEXTS)
    encoded = model.encode([model.read(example.raw_input(), example.name) for example in sample])
    sampled_tokens = sum(min(len(row.ids), settings.max_length) for text in encoded for row in text.rows)
    tokens = sampled_tokens * len(train) / len(sample)
    module = model.networks[0].module
    weights = sum(weight.numel() for name, weight in module.named_parameters() if "_embeddings" not in name)
    return 6.0 * weights * tokens * settings.epochs * cells * settings.seeds


def _without_path(table: Table, path: str) -> Table:
    """The table with the encoder's name in the place of its folder on this machine."""
    return replace(table, remarks=tuple(text.replace(path, "MiniLM-L6") for text in table.remarks))


def levels_of(table: Table) -> list[str]:
    """The columns with words removed."""
    return [metric for metric in table.metrics if not metric.endswith("@0%")]


def claims(titled: Sequence[TitledTable]) -> list[PaperClaim]:
    """Section 5.1: IM has no advantage, both beat chance, accuracy falls with N."""
    return [
        PaperClaim(
            "5.1",
            f"IM is not better than LOO-empty (here: not by {NOT_BETTER:g} of accuracy or more, at any N)",
            tuple(_not_better(table, title) for title, table, _ in titled),
        ),
        PaperClaim(
            "5.1",
            "LOO-empty beats IM at N = 10 % under ROAR",
            tuple(lower_than_all(table, LOO, [IM], levels_of(table)[0], title) for title, table, _ in titled[:1]),
        ),
        *(
            PaperClaim(
                "5.1",
                f"{title_of(row)} beats random words at every N",
                tuple(_beats_random(table, row, title) for title, table, _ in titled),
            )
            for row in (LOO, IM)
        ),
        PaperClaim(
            "", "MaRC beats random words at every N", tuple(_beats_random(table, "marc", t) for t, table, _ in titled)
        ),
        PaperClaim(
            "5.1",
            "Accuracy falls as N rises (LOO-empty and IM)",
            tuple(_falls(table, title) for title, table, _ in titled),
        ),
    ]


def _not_better(table: Table, reading: str) -> ClaimVerdict:
    """One-sided t-tests that IM's accuracy is above that of leave-one-out minus the margin; all N must pass."""
    if not has_rows(table, IM, LOO):
        return ClaimVerdict(None, "rows are missing", reading)
    differences, p_values = [], []
    for metric in levels_of(table):
        values = [table[title_of(key)].cells[metric].values for key in (IM, LOO)]
        difference, two_sided = welch([value + NOT_BETTER for value in values[0]], values[1])
        differences.append(difference - NOT_BETTER)
        p_values.append(two_sided / 2 if difference > 0 else 1 - two_sided / 2)
    figures = "IM − LOO-empty " + ", ".join(short(value) for value in differences)
    p = math.nan if any(map(math.isnan, p_values)) else max(p_values)
    return ClaimVerdict(all(value > -NOT_BETTER for value in differences), figures, reading, p)


def _beats_random(table: Table, row: str, reading: str) -> ClaimVerdict:
    verdicts = [lower_than_all(table, row, [RANDOM], metric, reading) for metric in levels_of(table)]
    if any(verdict.holds is None for verdict in verdicts):
        return ClaimVerdict(None, "rows are missing", reading)
    p_values = [verdict.p for verdict in verdicts]
    p = math.nan if any(map(math.isnan, p_values)) else max(p_values)
    return ClaimVerdict(all(v.holds for v in verdicts), "; ".join(v.figures for v in verdicts), reading, p)


def _falls(table: Table, reading: str) -> ClaimVerdict:
    """Each level below the one before, by Welch's tests; all must hold."""
    if not has_rows(table, IM, LOO):
        return ClaimVerdict(None, "rows are missing", reading)
    tests = []
    for key in (LOO, IM):
        cells = table[title_of(key)].cells
        tests += [welch(cells[later].values, cells[earlier].values) for earlier, later in pairwise(table.metrics)]
    figures = "; ".join(
        f"{title_of(key)} {', '.join(short(mean(table, key, metric)) for metric in table.metrics)}" for key in (LOO, IM)
    )
    p_values = [p for _, p in tests]
    p = math.nan if any(map(math.isnan, p_values)) else max(p_values)
    return ClaimVerdict(all(difference < 0 for difference, _ in tests), figures, reading, p)
