"""ROAR and ROAR-BERT: accuracy of classifiers that were retrained without the words that a method scores highest.

Hooker et al. 2019, on texts Pham et al. 2022, section 5.1: the best N % of the words, at least one, are deleted (or
replaced by a masked language model) from every training and test text; several classifiers are trained and tested on
what is left. The more accuracy is lost, the better the scores; random scores are the control.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from rationales.evaluation.collecting import Progress, cached_row_scores, progress_of_step
from rationales.evaluation.entries import RANDOM, MethodEntry, ResolvedEntry, resolve_entries
from rationales.evaluation.faithfulness.measure import INPUTS_AT_ONCE, required_filler
from rationales.evaluation.preparation import check_names, versions, whereabouts
from rationales.evaluation.protocols import DELETE, Protocol
from rationales.evaluation.retraining.classifier_training import tokenize_texts, train_and_test
from rationales.evaluation.retraining.data_split import check_classes, divide, labels_of
from rationales.evaluation.retraining.reduced_texts import reduced_texts
from rationales.evaluation.retraining.result_files import (
    ResultFiles,
    data_fingerprint,
    result_key,
    weights_fingerprint,
)
from rationales.evaluation.retraining.settings import RetrainingSettings
from rationales.evaluation.retraining.starting_points import StartingPoint, starting_point
from rationales.evaluation.retraining.together_training import check_together
from rationales.evaluation.scores.attribution import blend, predict
from rationales.evaluation.scores.cache import model_fingerprint, open_cache
from rationales.evaluation.tables.statistics import holm, welch
from rationales.evaluation.tables.table import Cell, Table, TableRow, short
from rationales.methods import Method
from rationales.models.load import as_model
from rationales.models.model import Model
from rationales.models.text.tokens import EncodedText, TextInput

SCORING_SHARE = 0.3  # of the progress bar; the rest is training


@dataclass(frozen=True)
class RoarTest:
    """Two-sample t-test (Welch, two-sided) of the accuracies of two rows at one level."""

    metric: str
    first: str
    second: str
    difference: float  # of the mean accuracies, first minus second
    p: float
    adjusted: float  # after Holm's correction over all tests of the table


def roar(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    examples: Sequence[Any],
    methods: Sequence[str | Method | Mapping[str, Any] | MethodEntry] = ("marc", "occlusion"),
    *,
    train: Sequence[Any] | None = None,
    removal: str = DELETE,
    settings: RetrainingSettings | None = None,
    smooth: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    cache: Any = None,
    filler: Any = None,
) -> Table:
    """A table of accuracies after retraining; values are of seeds, not of inputs, and lower is better.

    `examples`: labelled texts for testing; without `train` they are divided, class by class. Methods explain the class
    that the model predicts, in training and test texts alike. `removal`: delete (ROAR) or fill (ROAR-BERT). `cache`: a
    folder for scores and accuracies; an interrupted table goes on with the next classifier.
    """
    model = as_model(model)
    chosen = settings or RetrainingSettings()
    entries = resolve_entries(methods, smooth, model.kind)
    start = starting_point(model, chosen)
    if chosen.together:
        check_together(start.module, start.tokenizer)
    masked_lm = required_filler(filler, Protocol(removal=removal, levels=(0.5,)), model)
    reduced_texts([], [], 0.5, removal, masked_lm)  # an error for a missing filler before any work
    sets = _sets(model, examples, train, chosen, seed)
    chance = check_classes(sets.train_labels, sets.test_labels, model.labels)
    score_cache = open_cache(cache)
    results = ResultFiles(None if score_cache is None else score_cache.folder / "retraining")
    scores = _scores(model, sets, entries, seed, score_cache, _part_of(progress, 0.0, SCORING_SHARE))
    training = _part_of(progress, SCORING_SHARE, 1.0)
    name = "roar" if removal == DELETE else "roar-bert"
    weights = weights_fingerprint(start)
    jobs = [(None, 0.0), *((number, level) for number in range(len(entries)) for level in chosen.levels)]
    accuracies: dict[tuple[int | None, float], tuple[float, ...]] = {}
    for done, (number, level) in enumerate(jobs):
        report = progress_of_step(training, done, len(jobs))
        texts = sets.sources
        if number is not None:
            texts = reduced_texts(sets.encoded, scores[number], level, removal, masked_lm, seed)
        facts = {"row": "nothing removed" if number is None else entries[number].title, "level": level, "metric": name}
        accuracies[number, level] = _accuracies(
            start,
            sets,
            texts,
            chosen,
            seed,
            results,
            weights,
            facts,
            report,
        )
    if progress is not None:
        progress(1.0)
    rows = [_row(entry, number, name, accuracies, chosen) for number, entry in enumerate(entries)]
    failures = [
        f"{entry.title}: no scores for {missing} of {len(sets.encoded)} texts, which were left as they are."
        for entry, values in zip(entries, scores, strict=True)
        if (missing := sum(item is None for item in values))
    ]
    table = Table(
        rows=tuple(rows),
        metrics=(f"{name}@0%", *(_column(name, level) for level in chosen.levels)),
        inputs=tuple(f"seed {number}" for number in range(chosen.seeds)),
        protocol=None,
        selection="",
        model=model.name,
        baseline=model.baseline,
        seed=seed,
        versions=versions(),
        remarks=(start.remark, *_reading(accuracies[None, 0.0], chance), *failures, *results.remarks()),
        recipe=_recipe(name, sets, chosen, masked_lm),
        unit="seeds",
    )
    return _with_tests(table)


@dataclass(frozen=True, eq=False)
class _Sets:
    """Training texts, then test texts, encoded for the explained model."""

    encoded: Sequence[EncodedText]
    train_labels: Sequence[int]
    test_labels: Sequence[int]

    @property
    def sources(self) -> list[TextInput]:
        return [item.source for item in self.encoded]


def _sets(
    model: Model, examples: Sequence[Any], train: Sequence[Any] | None, settings: RetrainingSettings, seed: int
) -> _Sets:
    check_names(examples, model)
    labels = labels_of(model, examples)
    if train is None:
        train_numbers, test_numbers = divide(labels, settings.test_share, seed)
        ordered = [examples[number] for number in (*train_numbers, *test_numbers)]
        train_labels = [labels[number] for number in train_numbers]
        test_labels = [labels[number] for number in test_numbers]
    else:
        check_names(train, model)
        train_labels, test_labels, ordered = labels_of(model, train), labels, [*train, *examples]
    encoded = model.encode([model.read(item.raw_input(), whereabouts(item)) for item in ordered])
    return _Sets(list(encoded), train_labels, test_labels)


def _scores(
    model: Model, sets: _Sets, entries: Sequence[ResolvedEntry], seed: int, cache: Any, progress: Progress | None
) -> list[list[np.ndarray | None]]:
    """For each entry the scores of all texts; the predicted class is explained."""
    fingerprint = "" if cache is None else model_fingerprint(model)
    scores: list[list[np.ndarray | None]] = [[] for _ in entries]
    starts = range(0, len(sets.encoded), INPUTS_AT_ONCE["text"])
    for chunk_number, begin in enumerate(starts):
        chunk = sets.encoded[begin : begin + INPUTS_AT_ONCE["text"]]
        targets = predict(model, chunk).argmax(-1).tolist()
        batch = model.batch(chunk, seed)
        for number, entry in enumerate(entries):
            done = chunk_number * len(entries) + number
            report = progress_of_step(progress, done, len(starts) * len(entries))
            raw = cached_row_scores(model, chunk, entry.method, targets, seed, cache, fingerprint, report)
            scores[number] += [item.scores for item in blend(batch, chunk, raw, entry.smooth, entry.shape)]
    return scores


def _part_of(progress: Progress | None, begin: float, end: float) -> Progress | None:
    return None if progress is None else lambda share: progress(begin + (end - begin) * share)


def _accuracies(
    start: StartingPoint,
    sets: _Sets,
    texts: Sequence[TextInput],
    settings: RetrainingSettings,
    seed: int,
    results: ResultFiles,
    weights: str,
    facts: Mapping[str, Any],
    progress: Progress | None,
) -> tuple[float, ...]:
    """Accuracy of each seed on these texts, from files where they are there."""
    count = len(sets.train_labels)
    train = tokenize_texts(start, texts[:count], sets.train_labels)
    test = tokenize_texts(start, texts[count:], sets.test_labels)
    data = data_fingerprint(train, test)
    seeds = [seed + number for number in range(settings.seeds)]
    keys = {number: result_key(weights, data, settings, number) for number in seeds}
    known = {number: accuracy for number in seeds if (accuracy := results.get(keys[number])) is not None}
    missing = [number for number in seeds if number not in known]
    for number, accuracy in train_and_test(start, train, test, missing, settings, progress):
        known[number] = accuracy
        results.put(keys[number], accuracy, seed=number, **facts)
    return tuple(known[number] for number in seeds)


def _row(
    entry: ResolvedEntry,
    number: int,
    name: str,
    accuracies: Mapping[tuple[int | None, float], tuple[float, ...]],
    settings: RetrainingSettings,
) -> TableRow:
    cells = {f"{name}@0%": Cell(accuracies[None, 0.0])}
    cells |= {_column(name, level): Cell(accuracies[number, level]) for level in settings.levels}
    return TableRow(entry.title, cells, entry.method.name, asdict(entry.method), entry.smooth)


def _column(name: str, level: float) -> str:
    return f"{name}@{100 * level:g}%"


def roar_tests(table: Table) -> list[RoarTest]:
    """Every two rows at every level by Welch's two-sample t-test over seeds, corrected after Holm; NaN for one seed."""
    pairs = [
        (metric, first, second)
        for metric in table.metrics
        if not metric.endswith("@0%")
        for first, second in combinations(table.rows, 2)
    ]
    tests = [welch(first.cells[metric].values, second.cells[metric].values) for metric, first, second in pairs]
    adjusted = holm([p for _, p in tests]) if tests else []
    return [
        RoarTest(metric, first.title, second.title, difference, p, value)
        for (metric, first, second), (difference, p), value in zip(pairs, tests, adjusted, strict=True)
    ]


def _with_tests(table: Table) -> Table:
    """The table with its tests among the remarks: against random scores first, then between methods."""
    if len(table.inputs) < 2:
        return replace(table, remarks=(*table.remarks, "One seed: no t-test. Train at least two, better five."))
    titles = {row.title for row in table.rows if row.method == RANDOM}
    lines = []
    for metric in table.metrics[1:]:
        tests = [test for test in roar_tests(table) if test.metric == metric]
        tests.sort(key=lambda test: test.second not in titles)
        written = [
            f"{test.first} − {test.second} {short(test.difference)}, p = {_p(test.p)} (Holm {_p(test.adjusted)})"
            for test in tests
        ]
        lines.append(f"{metric}, two-sample t-tests (Welch, over seeds): {'; '.join(written)}.")
    return replace(table, remarks=(*table.remarks, *lines))


def _p(value: float) -> str:
    return "–" if math.isnan(value) else "< .0001" if value < 0.0001 else f"{value:.4f}".lstrip("0")


def _reading(unchanged: Sequence[float], chance: float) -> tuple[str, ...]:
    mean = float(np.mean(unchanged))
    lines = [f"Accuracy, lower is better; {short(chance)} is the share of the most frequent class."]
    if mean <= chance + 1e-9:
        lines.append(
            f"Warning: retrained on the texts as they are, classifiers reach {short(mean)}, no more than chance, so "
            "this table says nothing about the methods; train longer, on more texts, or from a pretrained encoder."
        )
    return tuple(lines)


def _recipe(name: str, sets: _Sets, settings: RetrainingSettings, filler: Any) -> str:
    levels = ", ".join(f"{100 * level:g}" for level in settings.levels)
    how = "deleted" if filler is None else f"filled in together by {filler.name}"
    texts = f"{len(sets.train_labels)} training and {len(sets.test_labels)} test texts"
    together = " (trained together)" if settings.together else ""
    return (
        f"{name}: the best {levels} % of the words (rounded down, at least one) {how} in {texts}; "
        f"{settings.seeds} classifiers each{together}, {settings.epochs} epochs, Adam {settings.learning_rate:g} "
        f"falling linearly, batches of {settings.batch_size}, {settings.max_length} tokens."
    )
