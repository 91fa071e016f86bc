"""ROAR and ROAR-BERT: accuracy of classifiers that were retrained without the words that a method scores highest.

Hooker et al. 2019, on texts Pham et al. 2022, section 5.1: the best N % of the words, at least one, are deleted (or
replaced by a masked language model) from every training and test text; several classifiers are trained and tested on
what is left. The more accuracy is lost, the better the scores; random scores are the control.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from rationales.evaluation.collecting import Progress, cached_row_scores, progress_of_step
from rationales.evaluation.entries import MethodEntry, ResolvedEntry, resolve_entries
from rationales.evaluation.faithfulness.measure import required_filler
from rationales.evaluation.preparation import check_names, versions, whereabouts
from rationales.evaluation.protocols import DELETE, Protocol
from rationales.evaluation.retraining.classifier_training import RetrainingTask, train_tasks
from rationales.evaluation.retraining.data_split import check_classes, divide, labels_of
from rationales.evaluation.retraining.labelled_tokens import count_cut_texts, tokenize_texts
from rationales.evaluation.retraining.reduced_texts import fillable_texts, reduced_texts
from rationales.evaluation.retraining.result_files import (
    ResultFiles,
    data_fingerprint,
    result_key,
    weights_fingerprint,
)
from rationales.evaluation.retraining.settings import RetrainingSettings
from rationales.evaluation.retraining.significance import with_tests
from rationales.evaluation.retraining.starting_points import StartingPoint, starting_point
from rationales.evaluation.retraining.together_training import check_together
from rationales.evaluation.scores.attribution import blend, predict
from rationales.evaluation.scores.cache import model_fingerprint, open_cache
from rationales.evaluation.tables.table import Cell, Table, TableRow, short
from rationales.methods import Method
from rationales.models.load import as_model
from rationales.models.model import Model
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import EncodedText, TextInput

SCORING_SHARE, REMOVAL_SHARE = 0.4, 0.1  # of the progress bar; the rest is training
TEXTS_AT_ONCE = 1024  # scored together

CellKey = tuple[str, int | None, float]  # name of the variant, number of the entry, level; ("", None, 0.0): all words


@dataclass(frozen=True)
class RoarVariant:
    """A way of removing words: the name of its columns, `delete` or `fill`, and the masked language model of `fill`."""

    name: str = "roar"
    removal: str = DELETE
    filler: Any = None


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
    variant = RoarVariant("roar" if removal == DELETE else "roar-bert", removal, filler)
    return roar_tables(
        model, examples, methods, [variant], train=train, settings=settings, smooth=smooth, seed=seed,
        progress=progress, cache=cache,
    )[0]  # fmt: skip


def roar_tables(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    examples: Sequence[Any],
    methods: Sequence[str | Method | Mapping[str, Any] | MethodEntry],
    variants: Sequence[RoarVariant],
    *,
    train: Sequence[Any] | None = None,
    settings: RetrainingSettings | None = None,
    smooth: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    cache: Any = None,
    coarse: bool = False,
) -> list[Table]:
    """`roar` for several ways of removing words: methods score once, and classifiers may all be trained together.

    `coarse`: on a GPU, methods that need no gradients score a copy of the model in half precision.
    """
    model = as_model(model)
    chosen = settings or RetrainingSettings()
    entries = resolve_entries(methods, smooth, model.kind)
    start = starting_point(model, chosen)
    if chosen.together:
        check_together(start.module, start.tokenizer)
    variants = [_with_filler(variant, model) for variant in variants]
    sets = _sets(model, examples, train, chosen, seed)
    chance = check_classes(sets.train_labels, sets.test_labels, model.labels)
    score_cache = open_cache(cache)
    results = ResultFiles(None if score_cache is None else score_cache.folder / "retraining")
    forward_model = model.coarse() if coarse and isinstance(model, TextModel) else model
    scores = _scores(model, forward_model, sets, entries, seed, score_cache, _part_of(progress, 0.0, SCORING_SHARE))
    removal = _part_of(progress, SCORING_SHARE, SCORING_SHARE + REMOVAL_SHARE)
    cells = {("", None, 0.0): sets.sources, **_reduced_cells(sets, scores, variants, chosen.levels, seed, removal)}
    titles = [entry.title for entry in entries]
    training = _part_of(progress, SCORING_SHARE + REMOVAL_SHARE, 1.0)
    accuracies = _accuracies(start, sets, cells, titles, chosen, seed, results, training)
    if progress is not None:
        progress(1.0)
    failures = [
        f"{entry.title}: no scores for {missing} of {len(sets.encoded)} texts, which were left as they are."
        for entry, values in zip(entries, scores, strict=True)
        if (missing := sum(item is None for item in values))
    ]
    remarks = (
        start.remark,
        *_text_remarks(start, sets),
        *_reading(accuracies["", None, 0.0], chance),
        *failures,
        *results.remarks(),
    )
    return [
        with_tests(
            Table(
                rows=tuple(_row(entry, n, variant.name, accuracies, chosen) for n, entry in enumerate(entries)),
                metrics=(f"{variant.name}@0%", *(_column(variant.name, level) for level in chosen.levels)),
                inputs=tuple(f"seed {number}" for number in range(chosen.seeds)),
                protocol=None,
                selection="",
                model=model.name,
                baseline=model.baseline,
                seed=seed,
                versions=versions(),
                remarks=remarks,
                recipe=_recipe(variant, sets, chosen),
                unit="seeds",
            )
        )
        for variant in variants
    ]


def _with_filler(variant: RoarVariant, model: Model) -> RoarVariant:
    """The variant with its masked language model loaded; an error where it is missing, before any work."""
    masked_lm = required_filler(variant.filler, Protocol(removal=variant.removal, levels=(0.5,)), model)
    reduced_texts([], [], 0.5, variant.removal, masked_lm)
    return replace(variant, filler=masked_lm)


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
    model: Model,
    forward_model: Model,
    sets: _Sets,
    entries: Sequence[ResolvedEntry],
    seed: int,
    cache: Any,
    progress: Progress | None,
) -> list[list[np.ndarray | None]]:
    """For each entry the scores of all texts; the predicted class is explained. Texts of like lengths go together."""
    fingerprint = "" if cache is None else model_fingerprint(model)
    forward_fingerprint = fingerprint if forward_model is model else f"{fingerprint} in half"
    scores: list[list[np.ndarray | None]] = [[None] * len(sets.encoded) for _ in entries]
    order = np.argsort([len(item.units) for item in sets.encoded], kind="stable")
    chunks = np.array_split(order, range(TEXTS_AT_ONCE, len(order), TEXTS_AT_ONCE))
    for chunk_number, numbers in enumerate(chunks):
        chunk = [sets.encoded[number] for number in numbers]
        targets = predict(model, chunk).argmax(-1).tolist()
        batch = model.batch(chunk, seed)
        for entry_number, entry in enumerate(entries):
            report = progress_of_step(progress, chunk_number * len(entries) + entry_number, len(chunks) * len(entries))
            in_half = entry.method.runs_in_half_precision
            network, name = (forward_model, forward_fingerprint) if in_half else (model, fingerprint)
            raw = cached_row_scores(network, chunk, entry.method, targets, seed, cache, name, report)
            for number, item in zip(numbers, blend(batch, chunk, raw, entry.smooth, entry.shape), strict=True):
                scores[entry_number][number] = item.scores
    return scores


def _reduced_cells(
    sets: _Sets,
    scores: Sequence[Sequence[np.ndarray | None]],
    variants: Sequence[RoarVariant],
    levels: Sequence[float],
    seed: int,
    progress: Progress | None,
) -> dict[CellKey, list[TextInput]]:
    """The texts without their best words: for each way of removal, each entry and each level."""
    cells: dict[CellKey, list[TextInput]] = {}
    total = len(variants) * len(scores) * len(levels)
    for variant in variants:
        fillable = fillable_texts(sets.encoded, variant.filler) if variant.filler is not None else None
        for number, level in product(range(len(scores)), levels):
            texts = reduced_texts(sets.encoded, scores[number], level, variant.removal, variant.filler, seed, fillable)
            cells[variant.name, number, level] = texts
            if progress is not None:
                progress(len(cells) / total)
    return cells


def _part_of(progress: Progress | None, begin: float, end: float) -> Progress | None:
    return None if progress is None else lambda share: progress(begin + (end - begin) * share)


def _accuracies(
    start: StartingPoint,
    sets: _Sets,
    cells: Mapping[CellKey, Sequence[TextInput]],
    titles: Sequence[str],
    settings: RetrainingSettings,
    seed: int,
    results: ResultFiles,
    progress: Progress | None,
) -> dict[CellKey, tuple[float, ...]]:
    """Accuracy of each seed on the texts of each cell, from files where they are there; equal texts are used once."""
    count, weights = len(sets.train_labels), weights_fingerprint(start)
    seeds = [seed + number for number in range(settings.seeds)]
    keys: dict[CellKey, list[str]] = {}
    tasks: dict[str, tuple[RetrainingTask, dict[str, Any]]] = {}
    for cell, texts in cells.items():
        variant, number, level = cell
        train = tokenize_texts(start, texts[:count], sets.train_labels)
        test = tokenize_texts(start, texts[count:], sets.test_labels)
        data = data_fingerprint(train, test)
        keys[cell] = [result_key(weights, data, settings, member) for member in seeds]
        row = "nothing removed" if number is None else titles[number]
        for member, key in zip(seeds, keys[cell], strict=True):
            facts = {"seed": member, "row": row, "level": level, "metric": variant or "roar"}
            tasks.setdefault(key, (RetrainingTask(train, test, member), facts))
    known = {key: accuracy for key in tasks if (accuracy := results.get(key)) is not None}
    missing = [key for key in tasks if key not in known]
    for number, accuracy in train_tasks(start, [tasks[key][0] for key in missing], settings, progress):
        known[missing[number]] = accuracy
        results.put(missing[number], accuracy, **tasks[missing[number]][1])
    return {cell: tuple(known[key] for key in cell_keys) for cell, cell_keys in keys.items()}


def _row(
    entry: ResolvedEntry,
    number: int,
    name: str,
    accuracies: Mapping[CellKey, tuple[float, ...]],
    settings: RetrainingSettings,
) -> TableRow:
    cells = {f"{name}@0%": Cell(accuracies["", None, 0.0])}
    cells |= {_column(name, level): Cell(accuracies[name, number, level]) for level in settings.levels}
    return TableRow(entry.title, cells, entry.method.name, asdict(entry.method), entry.smooth)


def _column(name: str, level: float) -> str:
    return f"{name}@{100 * level:g}%"


def _text_remarks(start: StartingPoint, sets: _Sets) -> list[str]:
    """Warnings about test texts that training reads, and about texts that classifiers do not read to their end."""
    train, test = sets.sources[: len(sets.train_labels)], sets.sources[len(sets.train_labels) :]
    trained_on = {(source.text, source.pair) for source in train}
    repeated = sum((source.text, source.pair) in trained_on for source in test)
    cut = [count_cut_texts(start, texts) for texts in (train, test)]
    remarks = []
    if repeated:
        remarks.append(
            f"Warning: {repeated} of {len(test)} test texts are training texts, too, so accuracies are too high; leave "
            "them out of one of the two sets."
        )
    if any(cut):
        remarks.append(
            f"Warning: {cut[0]} of {len(train)} training texts and {cut[1]} of {len(test)} test texts have more than "
            f"{start.limit} tokens; classifiers do not read what follows (setting max_length), although methods score "
            "and remove words there, too."
        )
    return remarks


def _reading(unchanged: Sequence[float], chance: float) -> tuple[str, ...]:
    mean = float(np.mean(unchanged))
    lines = [f"Accuracy, lower is better; {short(chance)} is the share of the most frequent class."]
    if mean <= chance + 1e-9:
        lines.append(
            f"Warning: retrained on the texts as they are, classifiers reach {short(mean)}, no more than chance, so "
            "this table says nothing about the methods; train longer, on more texts, or from a pretrained encoder."
        )
    return tuple(lines)


def _recipe(variant: RoarVariant, sets: _Sets, settings: RetrainingSettings) -> str:
    levels = ", ".join(f"{100 * level:g}" for level in settings.levels)
    how = "deleted" if variant.filler is None else f"filled in together by {variant.filler.name}"
    texts = f"{len(sets.train_labels)} training and {len(sets.test_labels)} test texts"
    together = " (trained together)" if settings.together else ""
    classifiers = f"{settings.seeds} classifier{'' if settings.seeds == 1 else 's'}"
    epochs = f"{settings.epochs} epoch{'' if settings.epochs == 1 else 's'}"
    batches = f"batches of {settings.batch_size}{' texts of similar length' if settings.by_length else ''}"
    return (
        f"{variant.name}: the best {levels} % of the words (rounded down, at least one) {how} in {texts}; "
        f"{classifiers} each{together}, {epochs}, Adam {settings.learning_rate:g} falling linearly, "
        f"{batches}, {settings.max_length} tokens{', products in bfloat16' if settings.half else ''}."
    )
