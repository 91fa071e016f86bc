"""A prepared evaluation: examples, metrics and a protocol, checked before any method runs; each method adds a row."""

from __future__ import annotations

import importlib.metadata
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from rationales.errors import InputError, NotApplicableError, OptionError, RationalesError
from rationales.evaluation.agreement import unit_marks
from rationales.evaluation.agreement.word_marks import gold_words
from rationales.evaluation.collecting import (
    CollectedRow,
    EvaluationSettings,
    LoadedExamples,
    Progress,
    collect,
    progress_of_step,
)
from rationales.evaluation.entries import RANDOM, ResolvedEntry
from rationales.evaluation.faithfulness.curves import FaithfulnessCurves, concatenate_curves
from rationales.evaluation.faithfulness.measure import DEFAULT_INPUTS_AT_ONCE, INPUTS_AT_ONCE, required_filler
from rationales.evaluation.faithfulness.removal import protocol_for, stand_in_remarks
from rationales.evaluation.metric_values import MetricInputs, compute_metrics, default_selection
from rationales.evaluation.metrics import Metric, explain_missing, select_metrics
from rationales.evaluation.protocols import Protocol
from rationales.evaluation.scores.cache import model_fingerprint, open_cache
from rationales.evaluation.selection.rules import SelectionRule, find_selection
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.models.batch.rows import content_key
from rationales.models.image.model import ImageModel
from rationales.models.kinds import kind_named
from rationales.models.model import Model
from rationales.models.text.model import TextModel
from rationales.options import checked_seed
from rationales.rationale import Rule
from rationales.version import __version__, installed_version


@dataclass(eq=False)
class PreparedEvaluation:
    """Everything of a table but its rows. Up to `INPUTS_AT_ONCE` examples stay encoded between rows."""

    settings: EvaluationSettings
    examples: Sequence[Any]
    names: Sequence[str]
    gold: Sequence[np.ndarray | None]  # (white-space tokens,) bool each; what people marked
    gold_labels: Sequence[int | None]
    selection: str
    remarks: tuple[str, ...]  # what a reader of the table should know
    _encoded: tuple[int, LoadedExamples] | None = field(default=None, repr=False)
    # of the examples that are judged on units
    _extents: dict[int, unit_marks.UnitExtents] = field(default_factory=dict, repr=False)

    def rows(self, entries: Sequence[ResolvedEntry], progress: Progress | None = None) -> list[TableRow]:
        """One row for each method, judged on all examples.

        A method that is not defined for the model has a row without cells; an error where that is so for all but
        random scores.
        """
        collected = [CollectedRow() for _ in entries]
        not_applicable: dict[int, NotApplicableError] = {}  # by the index of the entry
        at_once = INPUTS_AT_ONCE.get(self.settings.model.kind, DEFAULT_INPUTS_AT_ONCE)
        starts = range(0, len(self.examples), at_once)
        for chunk, begin in enumerate(starts):
            encoded = self._encode(begin, at_once)
            for entry_index, (entry, row) in enumerate(zip(entries, collected, strict=True)):
                if entry_index in not_applicable:
                    continue
                done, total = chunk * len(entries) + entry_index, len(starts) * len(entries)
                try:
                    collect(self.settings, encoded, entry, row, progress_of_step(progress, done, total))
                except NotApplicableError as error:
                    not_applicable[entry_index] = error
                    check_applicable(entries, not_applicable)
        return [
            empty_row(entry, not_applicable[number]) if number in not_applicable else self._row(entry, collected_row)
            for number, (entry, collected_row) in enumerate(zip(entries, collected, strict=True))
        ]

    def table(self, rows: Sequence[TableRow], remarks: Sequence[str] = ()) -> Table:
        """These rows with everything that is needed to read and to repeat them."""
        settings = self.settings
        return Table(
            rows=tuple(rows),
            metrics=tuple(metric.name for metric in settings.metrics),
            inputs=tuple(self.names),
            protocol=settings.protocol,
            selection=self.selection,
            model=settings.model.name,
            baseline=settings.model.baseline,
            seed=settings.seed,
            versions=versions(),
            remarks=(*self.remarks, *remarks, *(() if settings.cache is None else settings.cache.remarks())),
        )

    def _encode(self, begin: int, at_once: int) -> LoadedExamples:
        """The examples from `begin` on, read, encoded and predicted once."""
        if self._encoded is None or self._encoded[0] != begin:
            chunk, model, protocol = slice(begin, begin + at_once), self.settings.model, self.settings.protocol
            examples, gold_labels = self.examples[chunk], self.gold_labels[chunk]
            self._encoded = None  # two chunks need not fit into memory
            encoded = model.encode([model.read(example.raw_input(), whereabouts(example)) for example in examples])
            for number, (example, encoding) in enumerate(zip(examples, encoded, strict=True), begin):
                if model.kind == "text" and unit_marks.judged_on_units(protocol, example):
                    self._extents[number] = unit_marks.unit_extents(example, encoding.units)
            batch = model.batch(encoded, self.settings.seed)
            with model.frozen():
                probabilities = batch.predict().double().cpu().numpy()
            if not np.isfinite(probabilities).all():
                broken = int(np.flatnonzero(~np.isfinite(probabilities).all(1))[0])
                raise InputError(
                    f"the model gives NaN or infinite logits for {whereabouts(examples[broken])}; check its weights"
                )
            predicted_labels = probabilities.argmax(-1).tolist()
            pairs = zip(gold_labels, predicted_labels, strict=True)
            targets = [
                gold_label if protocol.label == "gold" and gold_label is not None else predicted_label
                for gold_label, predicted_label in pairs
            ]
            self._encoded = (begin, LoadedExamples(examples, encoded, batch, gold_labels, predicted_labels, targets))
        return self._encoded[1]

    def accuracy(self) -> float:
        """The share of the examples with a label that the model classifies correctly; NaN where none has one."""
        at_once = INPUTS_AT_ONCE.get(self.settings.model.kind, DEFAULT_INPUTS_AT_ONCE)
        chunks = (self._encode(begin, at_once) for begin in range(0, len(self.examples), at_once))
        correct = [
            gold_label == predicted_label
            for encoded in chunks
            for gold_label, predicted_label in zip(encoded.gold_labels, encoded.predicted_labels, strict=True)
            if gold_label is not None
        ]
        return float(np.mean(correct)) if correct else float("nan")

    def _row(self, entry: ResolvedEntry, collected: CollectedRow) -> TableRow:
        """Judge what was collected; inputs without scores have no value in any metric."""
        settings, names = self.settings, self.names
        scored = [number for number, raw in enumerate(collected.raw_scores) if raw.scores is not None]
        failures = {names[number]: raw.failure for number, raw in enumerate(collected.raw_scores) if raw.scores is None}
        curves = concatenate_curves(collected.curves) if collected.curves else None
        cells = {metric.name: Cell((float("nan"),) * len(names)) for metric in settings.metrics}
        if scored:
            texts = scored if settings.model.kind == "text" else []
            sources = [self.examples[number] for number in texts]
            compared = [self._compared(number, collected.compared_scores[number]) for number in texts]
            inputs = MetricInputs(
                unit_scores=[scores for raw in collected.raw_scores if (scores := raw.scores) is not None],
                compared_scores=[scores for scores, _ in compared],
                gold=[gold for _, gold in compared],
                tie_keys=[content_key(settings.seed, source.text, source.pair) for source in sources],
                curves=curves,
                image_values={name: np.array(values)[scored] for name, values in collected.image_values.items()},
            )
            computed = compute_metrics(settings.metrics, inputs, settings.protocol, settings.selection)
            for name, values in computed.items():
                weights = None if values.weights is None else _scatter(values.weights, scored, len(names), 0.0)
                recalls = None if values.recalls is None else _scatter(values.recalls, scored, len(names), math.nan)
                cells[name] = Cell(_scatter(values.values, scored, len(names), math.nan), weights, recalls)
        return TableRow(
            title=entry.title,
            cells=cells,
            method=entry.method.name,
            options=asdict(entry.method),
            smooth=entry.smooth,
            shape=entry.shape,
            seconds=float(np.mean([raw.seconds for raw in collected.raw_scores])),
            failures=failures,
            curves=_mean_curves(curves),
            measuring=collected.faithfulness_seconds / len(scored) if curves is not None else float("nan"),
            steps=float(np.mean(steps)) if (steps := _steps(collected)) else math.nan,
            settled=float(np.mean([stop != "steps" for stop in stops])) if (stops := _stops(collected)) else math.nan,
            forward_passes=float(np.mean([raw.forward_passes for raw in collected.raw_scores])),
            backward_passes=float(np.mean([raw.backward_passes for raw in collected.raw_scores])),
        )

    def _compared(self, number: int, scores: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Scores and marks of an example on what agreement is measured on: white-space tokens or units."""
        values = np.asarray(scores, dtype=np.float64)
        if number not in self._extents:
            return values, self.gold[number]
        extents = self._extents[number]
        gold = unit_marks.gold_units(self.examples[number], extents)
        compared = unit_marks.compared_units(gold, extents)
        return values[compared], None if gold is None else gold[compared]


def check_applicable(entries: Sequence[ResolvedEntry], not_applicable: Mapping[int, NotApplicableError]) -> None:
    """Raise the first error where no method but random scores is left."""
    if all(number in not_applicable or entry.method.name == RANDOM for number, entry in enumerate(entries)):
        raise next(iter(not_applicable.values()))


def empty_row(entry: ResolvedEntry, error: NotApplicableError) -> TableRow:
    """The row of a method that is not defined for the model, with the reason."""
    options = asdict(entry.method)
    return TableRow(
        entry.title, {}, entry.method.name, options, entry.smooth, shape=entry.shape, not_applicable=str(error)
    )


def prepare_evaluation(
    model: Model,
    examples: Sequence[Any],
    protocol: str | Protocol = "marc",
    metrics: Sequence[str] | None = None,
    *,
    seed: int = 0,
    cache: Any = None,
    selection: str | Rule | SelectionRule | None = None,
    filler: Any = None,
    coarse: bool = False,
) -> PreparedEvaluation:
    """Check everything that can be checked before a method runs; the arguments are those of `evaluate`.

    `coarse`: on a GPU, what needs no gradients runs on a copy of the model in half precision (11 bits).
    """
    check_measurable(model)
    resolved = protocol_for(protocol, model)
    example_list = list(examples)
    names = _check_examples(example_list, resolved, model)
    gold = [gold_words(example) if model.kind == "text" else None for example in example_list]
    gold_labels = [_gold_label(model, example) for example in example_list]
    table_rule = find_selection(selection) if selection is not None else None
    available = _available(model, example_list, gold)
    selected_metrics = select_metrics(metrics, available)
    default_rule = default_selection(resolved, gold)
    selections = _selections(selected_metrics, table_rule or default_rule)
    for rule in selections:
        rule.check(gold)
    score_cache = open_cache(cache)
    forward_model = model.coarse() if coarse and isinstance(model, TextModel | ImageModel) else model
    fingerprint = "" if score_cache is None else model_fingerprint(model)
    if forward_model is not model and score_cache is not None:
        fingerprint += " in half"
    masked_lm = required_filler(filler, resolved, model)
    if masked_lm is not None and masked_lm.name != resolved.filler:
        resolved = replace(resolved, filler=masked_lm.name)  # the table says which one was used
    settings = EvaluationSettings(
        model,
        forward_model,
        resolved,
        selected_metrics,
        table_rule,
        checked_seed(seed),
        masked_lm,
        score_cache,
        fingerprint,
        any(metric.kind == "curves" for metric in selected_metrics)
        or any("model" in rule.needs for rule in selections),
    )
    remarks = stand_in_remarks(protocol, resolved, model)
    remarks += () if metrics is not None else explain_missing(available, model.kind)
    title = selection if isinstance(selection, str) else default_rule.name
    if table_rule is not None and not isinstance(selection, str):
        title = _selection_title(table_rule)
    return PreparedEvaluation(settings, example_list, names, gold, gold_labels, title, remarks)


def _steps(collected: CollectedRow) -> list[int]:
    """The number of steps of each input that was optimised."""
    return [raw.steps for raw in collected.raw_scores if raw.steps is not None]


def _stops(collected: CollectedRow) -> list[str]:
    """What ended the optimisation of each input that has one."""
    return [raw.stop for raw in collected.raw_scores if raw.stop]


def _mean_curves(curves: FaithfulnessCurves | None) -> dict[str, tuple[float, ...]]:
    """Mean over inputs at every level, where all inputs have the same levels."""
    if curves is None or curves.protocol.each is not None:
        return {}
    named = {"share": curves.share, "kept": curves.kept.mean(1), "removed": curves.removed.mean(1)}
    return {name: tuple(values.mean(0).tolist()) for name, values in named.items()}


def _scatter(values: np.ndarray, scored: Sequence[int], count: int, missing: float) -> tuple[float, ...]:
    scattered = np.full(count, missing)
    scattered[list(scored)] = values
    return tuple(scattered.tolist())


def check_measurable(model: Model) -> None:
    """Raise an OptionError for a model that reads neither texts nor images alone."""
    if model.kind not in ("text", "image"):
        raise OptionError(
            f"evaluate measures models of texts and models of images, and {model.name} reads "
            f"{kind_named(model.kind).noun}s; rationales.compare shows several methods on one of them"
        )


def check_names(examples: Sequence[Any], model: Model) -> list[str]:
    """The examples' names, after a check that they are different, and that the model reads this kind of input."""
    check_measurable(model)
    if not examples:
        raise InputError("there is nothing to evaluate: no examples")
    names = [str(example.name) for example in examples]
    if len(set(names)) < len(names):
        duplicate = next(name for number, name in enumerate(names) if name in names[:number])
        raise InputError(f"two examples are called {duplicate!r}; names must be unique")
    for example in examples:
        if (example.image is None) == (model.kind == "image"):
            kind = "an image" if model.kind == "image" else "a text"
            raise InputError(f"{whereabouts(example)} is not {kind}, which is what {model.name} reads")
    return names


def _check_examples(examples: Sequence[Any], protocol: Protocol, model: Model) -> list[str]:
    """The examples' names, after a look at whether they can be judged at all."""
    names = check_names(examples, model)
    for example in examples:
        if example.label is None and (protocol.label == "gold" or protocol.only_correct):
            advice = "use one that measures the predicted label"
            raise InputError(f"{whereabouts(example)} has no label, and protocol {protocol.name} needs it; {advice}")
    return names


def _gold_label(model: Model, example: Any) -> int | None:
    try:
        return model.target(example.label)
    except RationalesError as error:
        raise InputError(f"{whereabouts(example)}: {error}") from None


def whereabouts(example: Any) -> str:
    """What to call an example in a message: its file and line where they are known, else its name."""
    return str(getattr(example, "title", example.name))


def _available(model: Model, examples: Sequence[Any], gold: Sequence[np.ndarray | None]) -> set[str]:
    available = {"model", model.kind}
    if any(marks is not None and marks.any() for marks in gold):
        available.add("marks")
    if model.kind == "image" and any(example.boxes for example in examples):
        available.add("boxes")
    return available


def _selections(metrics: Sequence[Metric], default: SelectionRule) -> list[SelectionRule]:
    """The rules that these metrics select words by."""
    return [
        find_selection(metric.selection) if metric.selection else default
        for metric in metrics
        if metric.kind in ("choice", "shape")
    ]


def _selection_title(selection: SelectionRule) -> str:
    """The name of a selection in a table, with its number where it has one."""
    value = getattr(selection, "value", None)
    return selection.name if value is None else f"{selection.name}={value:g}"


def versions() -> dict[str, str]:
    """What a table was made with."""
    return {"rationales": __version__, "python": platform.python_version(), **dict(_installed())}


def _installed() -> Iterator[tuple[str, str]]:
    for name in ("torch", "transformers", "numpy", "captum"):
        try:
            yield name, installed_version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
