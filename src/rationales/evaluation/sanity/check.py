"""The parameter-randomisation check: scores of the model beside scores of copies with random weights.

Head only, as Pham et al. (2022, section 5.3, Table A5) do it, three times; or cascading from the head down to the
embeddings (Adebayo et al. 2018). A method whose scores stay as they are does not explain this model's decision.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import nn

from rationales.errors import NotApplicableError, OptionError
from rationales.evaluation.collecting import Progress, cached_row_scores, progress_of_step
from rationales.evaluation.entries import MethodEntry, ResolvedEntry, resolve_entries
from rationales.evaluation.faithfulness.measure import DEFAULT_INPUTS_AT_ONCE, INPUTS_AT_ONCE
from rationales.evaluation.preparation import check_applicable, check_names, empty_row, versions, whereabouts
from rationales.evaluation.sanity.changed_model import changed_model, modules_of
from rationales.evaluation.sanity.score_changes import ScoreChange, score_change
from rationales.evaluation.sanity.weight_groups import randomise, weight_groups
from rationales.evaluation.scores.attribution import RawScores, blend, predict
from rationales.evaluation.scores.cache import model_fingerprint, open_cache
from rationales.evaluation.tables.statistics import estimate
from rationales.evaluation.tables.table import Cell, Table, TableRow, short
from rationales.methods import Method
from rationales.models.load import as_model
from rationales.models.model import Model
from rationales.options import check_option, option

TRAINED_FOR_WEIGHTS = frozenset({"a masker", "an AML masker"})  # needs of methods whose maskers refuse other weights
COLUMNS = {"sign": "sanity-sign-changes", "size": "sanity-score-change", "rank": "sanity-rank-correlation"}


@dataclass(frozen=True)
class SanitySettings:
    """Settings of the check."""

    runs: int = option(3, "number of random heads, or of random cascades; each costs as much as the original scores")

    def __post_init__(self) -> None:
        check_option("runs", self.runs, "int", ())
        if self.runs < 1:
            raise OptionError(f"runs is a whole number from 1, not {self.runs!r}")


def sanity_check(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    examples: Sequence[Any],
    methods: Sequence[str | Method | Mapping[str, Any] | MethodEntry] = ("marc", "occlusion"),
    *,
    cascade: bool = False,
    settings: SanitySettings | None = None,
    smooth: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    cache: Any = None,
) -> Table:
    """A table of how far scores change when weights are random; the arguments are those of `evaluate`.

    All copies are asked about the class that the model itself predicts. Values are means over the runs, so intervals
    and tests are over inputs, for the drawn weights alone; the rows' `run_means` hold the mean of each run. `cascade`:
    the weights are randomised group by group from the head to the embeddings; cells are of the last step, where all
    weights are random, and the rows' `curves` hold the mean of every step. Labels are not needed.
    """
    model = as_model(model)
    chosen = settings or SanitySettings()
    entries = resolve_entries(methods, smooth, model.kind)
    check_no_maskers([entry.method for entry in entries])
    names = check_names(examples, model)
    groups = weight_groups(modules_of(model)[0])
    steps = [groups[: number + 1] for number in range(len(groups))] if cascade else [groups[:1]]
    encoded = list(model.encode([model.read(item.raw_input(), whereabouts(item)) for item in examples]))
    at_once = INPUTS_AT_ONCE.get(model.kind, DEFAULT_INPUTS_AT_ONCE)
    chunks = [encoded[begin : begin + at_once] for begin in range(0, len(encoded), at_once)]
    targets = [predict(model, chunk).argmax(-1).tolist() for chunk in chunks]
    score_cache = open_cache(cache)
    work, done = (1 + chosen.runs * len(steps)) * len(entries) * len(chunks), 0
    failures: list[dict[str, str]] = [{} for _ in entries]  # of each entry: input -> why it has no scores
    not_applicable: dict[int, NotApplicableError] = {}  # by the index of the entry

    def scores_under(weights: Model) -> list[list[np.ndarray | None]]:
        """For each entry the scores of all inputs."""
        nonlocal done
        fingerprint = "" if score_cache is None else model_fingerprint(weights)
        scores: list[list[np.ndarray | None]] = [[] for _ in entries]
        for chunk, chunk_targets in zip(chunks, targets, strict=True):
            batch = weights.batch(chunk, seed)
            for number, (entry, collected, reasons) in enumerate(zip(entries, scores, failures, strict=True)):
                report = progress_of_step(progress, done, work)
                try:
                    raw = cached_row_scores(
                        weights, chunk, entry.method, chunk_targets, seed, score_cache, fingerprint, report
                    )
                except NotApplicableError as error:
                    not_applicable[number] = error
                    check_applicable(entries, not_applicable)
                    raw = [RawScores(None, math.nan, str(error))] * len(chunk)
                blended = blend(batch, chunk, raw, entry.smooth, entry.shape)
                chunk_names = names[len(collected) : len(collected) + len(chunk)]
                for name, item in zip(chunk_names, blended, strict=True):
                    if item.scores is None:
                        reasons.setdefault(name, item.failure)
                collected += [item.scores for item in blended]
                done += 1
        return scores

    original = scores_under(model)
    changes = np.full((len(entries), len(steps), chosen.runs, len(names), len(COLUMNS)), np.nan)
    for run in range(chosen.runs):
        for step, step_groups in enumerate(steps):

            def change(module: nn.Module, step_groups: Sequence[Any] = step_groups, run: int = run) -> None:
                randomise(module, step_groups, seed, "sanity", run)

            for number, scores in enumerate(scores_under(changed_model(model, change))):
                changes[number, step, run] = _changes(original[number], scores)
    if progress is not None:
        progress(1.0)
    step_names = [group.name for group in groups][: len(steps)]
    rows = [
        empty_row(entry, not_applicable[number])
        if number in not_applicable
        else _row(entry, changes[number], cascade, failures[number])
        for number, entry in enumerate(entries)
    ]
    measured = [row for row in rows if row.cells]
    return Table(
        rows=tuple(rows),
        metrics=tuple(COLUMNS.values()),
        inputs=tuple(names),
        protocol=None,
        selection="",
        model=model.name,
        baseline=model.baseline,
        seed=seed,
        versions=versions(),
        remarks=(
            *(_step_remarks(measured, step_names) if cascade else ()),
            _run_remark(measured, cascade),
            *(() if score_cache is None else score_cache.remarks()),
        ),
        recipe=_recipe(chosen.runs, step_names, cascade),
    )


def check_no_maskers(methods: Sequence[Method]) -> None:
    """Raise an OptionError for a method whose masker was trained for the weights of the model."""
    for method in methods:
        if TRAINED_FOR_WEIGHTS & {*method.needs}:
            raise OptionError(
                f"{method.name} cannot be checked with random weights: its masker was trained for the weights of the "
                "model and is refused for others; leave it out, or check marc, which optimises a mask for any weights"
            )


def _changes(before: Sequence[np.ndarray | None], after: Sequence[np.ndarray | None]) -> np.ndarray:
    """(inputs, figures); NaN where a method has no scores."""
    figures = []
    for first, second in zip(before, after, strict=True):
        missing = first is None or second is None
        figure = ScoreChange(math.nan, math.nan, math.nan) if missing else score_change(first, second)  # type: ignore[arg-type]
        figures.append([getattr(figure, name) for name in COLUMNS])
    return np.array(figures)


def _row(entry: ResolvedEntry, changes: np.ndarray, cascade: bool, failures: Mapping[str, str]) -> TableRow:
    """changes: (steps, runs, inputs, figures); an input counts where it has a value in every run."""
    means = changes.mean(1)  # (steps, inputs, figures)
    figures = {name: means[..., number] for number, name in enumerate(COLUMNS.values())}
    curves = {name: tuple(estimate(step).mean for step in values) for name, values in figures.items()}
    return TableRow(
        entry.title,
        {name: Cell(tuple(values[-1].tolist())) for name, values in figures.items()},
        entry.method.name,
        asdict(entry.method),
        entry.smooth,
        curves=curves if cascade else {},
        run_means={name: _run_means(changes[-1, ..., number]) for number, name in enumerate(figures)},
        failures=failures,
    )


def _run_means(values: np.ndarray) -> tuple[float, ...]:
    """(runs, inputs) -> the mean of each run, over the inputs that have a value in all of them."""
    complete = values[:, ~np.isnan(values).any(0)]
    return tuple(complete.mean(1).tolist()) if complete.size else (math.nan,) * len(values)


def _recipe(runs: int, steps: Sequence[str], cascade: bool) -> str:
    where = f"all weights, in steps from the head down ({', '.join(steps)})" if cascade else "the classification head"
    return (
        f"Randomised: {where}, {runs} time{'s' if runs > 1 else ''}; the class that the model predicts is explained "
        "throughout. Values are means over these draws of the weights, so intervals and p values are over inputs, for "
        "these draws alone. sign-changes: share of the units whose score changes its sign (a score of 0 has none); "
        "score-change: mean absolute difference of scores whose largest is 1; rank-correlation: Spearman's, undefined "
        "for constant scores. Scores that do not depend on the model do not change."
    )


def _run_remark(rows: Sequence[TableRow], cascade: bool) -> str:
    """How far the means of single runs lie apart."""
    runs = len(next(iter(rows[0].run_means.values())))
    noun = "model" if cascade else "head"
    if runs == 1:
        return f"One random {noun}: how far figures differ between random {noun}s is not known; raise runs to see it."
    columns = [
        f"{name} " + ", ".join(f"{row.title} {_range(row.run_means[name])}" for row in rows)
        for name in COLUMNS.values()
    ]
    return f"Lowest and highest mean of the {runs} random {noun}s: {'; '.join(columns)}."


def _range(values: Sequence[float]) -> str:
    known = [value for value in values if not math.isnan(value)]
    return f"{short(min(known))} to {short(max(known))}" if known else "–"


def _step_remarks(rows: Sequence[TableRow], steps: Sequence[str]) -> tuple[str, ...]:
    name = COLUMNS["rank"]
    lines = [
        f"{row.title}: " + ", ".join("–" if math.isnan(value) else short(value) for value in row.curves[name])
        for row in rows
    ]
    return (f"Rank correlation after each step ({', '.join(steps)}): {'; '.join(lines)}.",)
