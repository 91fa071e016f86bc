"""Examples, metrics and a protocol, checked and ready: methods come one after the other and each leaves a row."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from rationales.errors import InputError, RationalesError
from rationales.evaluation.cache import cache_of, model_print
from rationales.evaluation.collecting import Collected, Held, Job, Progress, collect
from rationales.evaluation.curves import Faithfulness, joined
from rationales.evaluation.entries import Entry
from rationales.evaluation.faithfulness import AT_ONCE, FEW, tie_key
from rationales.evaluation.filling import filler as find_filler
from rationales.evaluation.judging import Evidence, judge, usual_rule
from rationales.evaluation.metrics import Metric, left_out, wanted
from rationales.evaluation.protocol import FILLED, Protocol
from rationales.evaluation.protocol import protocol as find
from rationales.evaluation.selection import Selection
from rationales.evaluation.selection import selection as find_rule
from rationales.evaluation.table import Cell, Row, Table
from rationales.evaluation.unit_marks import UnitExtents, compared_units, gold_units, judged_on_units, unit_extents
from rationales.evaluation.words import gold_words
from rationales.models.model import Model
from rationales.models.text import TextModel
from rationales.options import whole
from rationales.version import __version__


@dataclass(eq=False)
class Study:
    """What a table is made of, but for its rows. Up to `AT_ONCE` examples stay encoded from one row to the next."""

    job: Job
    examples: Sequence[Any]
    names: Sequence[str]
    gold: Sequence[np.ndarray | None]  # (white-space tokens,) bool each; what people marked
    right: Sequence[int | None]  # the gold classes
    selection: str
    remarks: tuple[str, ...]  # what a reader of the table should know
    _held: tuple[int, Held] | None = field(default=None, repr=False)
    _extents: dict[int, UnitExtents] = field(default_factory=dict, repr=False)  # of examples that are judged on units

    def rows(self, entries: Sequence[Entry], progress: Progress | None = None) -> list[Row]:
        """One row for each method, judged on all examples."""
        collected = [Collected() for _ in entries]
        at_once = AT_ONCE.get(self.job.model.kind, FEW)
        starts = range(0, len(self.examples), at_once)
        for part, begin in enumerate(starts):
            held = self._hold(begin, at_once)
            for number, (entry, into) in enumerate(zip(entries, collected, strict=True)):
                report = _shifted(progress, part * len(entries) + number, len(starts) * len(entries))
                collect(self.job, held, entry, into, report)
        return [self._row(entry, found) for entry, found in zip(entries, collected, strict=True)]

    def table(self, rows: Sequence[Row], remarks: Sequence[str] = ()) -> Table:
        """These rows with everything that is needed to read and to repeat them."""
        job = self.job
        return Table(
            rows=tuple(rows),
            metrics=tuple(metric.name for metric in job.metrics),
            inputs=tuple(self.names),
            protocol=job.recipe,
            selection=self.selection,
            model=job.model.name,
            baseline=job.model.baseline,
            seed=job.seed,
            versions=versions(),
            remarks=(*self.remarks, *remarks, *(() if job.cache is None else job.cache.remarks())),
        )

    def _hold(self, begin: int, at_once: int) -> Held:
        """The examples from `begin` on, read, encoded and predicted once."""
        if self._held is None or self._held[0] != begin:
            some, model, recipe = slice(begin, begin + at_once), self.job.model, self.job.recipe
            examples, right = self.examples[some], self.right[some]
            self._held = None  # before the next ones are made: two parts need not fit into memory
            encoded = model.encode([model.read(one.given(), whereabouts(one)) for one in examples])
            for number, (example, encoding) in enumerate(zip(examples, encoded, strict=True), begin):
                if model.kind == "text" and judged_on_units(recipe, example):
                    self._extents[number] = unit_extents(example, encoding.units)
            batch = model.batch(encoded, self.job.seed)
            with model.borrowed():
                predicted = batch.predict().double().cpu().numpy()
            if not np.isfinite(predicted).all():
                bad = int(np.flatnonzero(~np.isfinite(predicted).all(1))[0])
                raise InputError(
                    f"the model gives NaN or infinite logits for {whereabouts(examples[bad])}; check its weights"
                )
            said = predicted.argmax(-1).tolist()
            pairs = zip(right, said, strict=True)
            explained = [own if recipe.label == "gold" and own is not None else other for own, other in pairs]
            self._held = (begin, Held(examples, encoded, batch, right, said, explained))
        return self._held[1]

    def accuracy(self) -> float:
        """The share of the examples with a label that the model classifies correctly; NaN where none has one."""
        at_once = AT_ONCE.get(self.job.model.kind, FEW)
        parts = (self._hold(begin, at_once) for begin in range(0, len(self.examples), at_once))
        known = [
            own == said
            for part in parts
            for own, said in zip(part.right, part.predicted, strict=True)
            if own is not None
        ]
        return float(np.mean(known)) if known else float("nan")

    def _row(self, entry: Entry, found: Collected) -> Row:
        """Judge what was collected; inputs without scores have no value in any metric."""
        job, names = self.job, self.names
        good = [number for number, one in enumerate(found.scored) if one.scores is not None]
        failures = {names[number]: one.failure for number, one in enumerate(found.scored) if one.scores is None}
        curves = joined(found.curves) if found.curves else None
        cells = {metric.name: Cell((float("nan"),) * len(names)) for metric in job.metrics}
        if good:
            text = job.model.kind == "text"
            texts = [self.examples[number] for number in good] if text else []
            compared = [self._compared(number, found.words[number]) for number in good] if text else []
            evidence = Evidence(
                raw=[scores for one in found.scored if (scores := one.scores) is not None],
                words=[scores for scores, _ in compared],
                gold=[gold for _, gold in compared],
                keys=[tie_key(job.seed, one.text, one.pair) for one in texts],
                curves=curves,
                pictures={name: np.array(values)[good] for name, values in found.pictures.items()},
            )
            for name, values in judge(job.metrics, evidence, job.recipe, job.rule).items():
                weights = None if values.weights is None else _spread(values.weights, good, len(names), 0.0)
                cells[name] = Cell(_spread(values.values, good, len(names), float("nan")), weights)
        return Row(
            title=entry.title,
            cells=cells,
            method=entry.method.name,
            options=asdict(entry.method),
            smooth=entry.smooth,
            seconds=float(np.mean([one.seconds for one in found.scored])),
            failures=failures,
            curves=_mean_curves(curves),
            measuring=found.measuring / len(good) if curves is not None else float("nan"),
        )

    def _compared(self, number: int, scores: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Scores and marks of an example on what agreement is measured on: white-space tokens or units."""
        values = np.asarray(scores, dtype=np.float64)
        if number not in self._extents:
            return values, self.gold[number]
        extents = self._extents[number]
        gold = gold_units(self.examples[number], extents)
        compared = compared_units(gold, extents)
        return values[compared], None if gold is None else gold[compared]


def study(
    model: Model,
    examples: Sequence[Any],
    protocol: str | Protocol = "marc",
    metrics: Sequence[str] | None = None,
    *,
    seed: int = 0,
    cache: Any = None,
    selection: str | Selection | None = None,
    filler: Any = None,
    coarse: bool = False,
) -> Study:
    """Check everything that can be checked before a method is asked; see `evaluate` for what is given.

    `coarse`: on a card, what needs no gradients is asked of a copy of the model in half precision (11 bits).
    """
    recipe = find(protocol, model.kind)
    given = list(examples)
    names = _checked(given, recipe, model)
    gold = [gold_words(one) if model.kind == "text" else None for one in given]
    right = [_right(model, one) for one in given]
    rule = find_rule(selection) if selection is not None else None
    has = _has(model, given, gold)
    found = wanted(metrics, has)
    rules = _rules(found, rule or usual_rule(recipe, gold))
    for one in rules:
        one.check(gold)
    kept = cache_of(cache)
    asked = model.coarse() if coarse and isinstance(model, TextModel) else model
    job = Job(
        model,
        asked,
        recipe,
        found,
        rule,
        whole("the seed", seed),
        find_filler(filler if filler is not None else recipe.filler) if _fills(recipe) else None,
        kept,
        (model_print(model) + (" in half" if asked is not model else "")) if kept is not None else "",
        any(metric.kind == "curves" for metric in found) or any("model" in one.needs for one in rules),
    )
    remarks = () if metrics is not None else left_out(has, model.kind)
    return Study(job, given, names, gold, right, _title(selection, usual_rule(recipe, gold).name), remarks)


def _mean_curves(curves: Faithfulness | None) -> dict[str, tuple[float, ...]]:
    """Mean over inputs at every level, where all inputs have the same levels."""
    if curves is None or curves.protocol.each is not None:
        return {}
    named = {"share": curves.share, "kept": curves.kept.mean(1), "removed": curves.removed.mean(1)}
    return {name: tuple(values.mean(0).tolist()) for name, values in named.items()}


def _spread(values: np.ndarray, good: Sequence[int], count: int, missing: float) -> tuple[float, ...]:
    all_ = np.full(count, missing)
    all_[list(good)] = values
    return tuple(all_.tolist())


def _checked(examples: Sequence[Any], recipe: Protocol, model: Model) -> list[str]:
    """The examples' names, after a look at whether they can be judged at all."""
    if not examples:
        raise InputError("there is nothing to evaluate: no examples")
    names = [str(one.name) for one in examples]
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise InputError(f"two examples are called {twice!r}; names must be unique")
    for one in examples:
        if (one.picture is None) == (model.kind == "image"):
            kind = "a picture" if model.kind == "image" else "a text"
            raise InputError(f"{whereabouts(one)} is not {kind}, which is what {model.name} reads")
        if one.label is None and (recipe.label == "gold" or recipe.only_correct):
            advice = "use one that measures the predicted label"
            raise InputError(f"{whereabouts(one)} has no label, and protocol {recipe.name} needs it; {advice}")
    return names


def _right(model: Model, example: Any) -> int | None:
    try:
        return model.target(example.label)
    except RationalesError as error:
        raise InputError(f"{whereabouts(example)}: {error}") from None


def whereabouts(example: Any) -> str:
    """What to call an example in a message: its file and line where they are known, else its name."""
    return str(getattr(example, "whereabouts", example.name))


def _has(model: Model, examples: Sequence[Any], gold: Sequence[np.ndarray | None]) -> set[str]:
    found = {"model", model.kind}
    if any(marks is not None and marks.any() for marks in gold):
        found.add("marks")
    if model.kind == "image" and any(one.boxes for one in examples):
        found.add("boxes")
    return found


def _rules(metrics: Sequence[Metric], usual: Selection) -> list[Selection]:
    """The rules that these metrics select words by."""
    return [
        find_rule(metric.rule) if metric.rule else usual for metric in metrics if metric.kind in ("choice", "shape")
    ]


def _title(given: str | Selection | None, usual: str) -> str:
    """What a table calls the rule."""
    if given is None or isinstance(given, str):
        return given or usual
    value = getattr(given, "value", None)
    return given.name if value is None else f"{given.name}={value:g}"


def _fills(recipe: Protocol) -> bool:
    return FILLED in (recipe.removal, recipe.odds_removal)


def _shifted(progress: Progress | None, done: int, parts: int) -> Progress | None:
    return None if progress is None else lambda share: progress((done + min(share, 1.0)) / parts)


def versions() -> dict[str, str]:
    """What a table was made with."""
    return {"rationales": __version__, "python": platform.python_version(), **dict(_installed())}


def _installed() -> Iterator[tuple[str, str]]:
    for name in ("torch", "transformers", "numpy", "captum"):
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
