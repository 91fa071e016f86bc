"""`stability`: explain the same inputs with several seeds, learning rates and single baselines, and compare."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from rationales.data.example import Example
from rationales.errors import InputError, OptionError
from rationales.evaluation.collecting import Progress
from rationales.evaluation.entries import MethodEntry, ResolvedEntry, resolve_entries
from rationales.evaluation.faithfulness.removal import with_removal_baseline
from rationales.evaluation.preparation import versions
from rationales.evaluation.stability.agreement import RunAgreement, agreement
from rationales.evaluation.stability.results import (
    BaselineResult,
    Disagreement,
    MethodStability,
    Run,
    StabilityResult,
)
from rationales.evaluation.stability.single_baselines import only_baseline, single_baselines, text_or_image_model
from rationales.evaluation.stability.workload import RunOutcome, Workload, read_masks
from rationales.methods import Method
from rationales.models.image.model import ImageModel
from rationales.models.load import as_model
from rationales.models.model import Model
from rationales.models.text.model import TextModel
from rationales.options import checked_seed

DEFAULT_SEEDS = (0, 1, 2)
RATE_FACTORS = (0.5, 1.0, 2.0)  # of the method's learning rate, where none are given
SHOWN_INPUTS = 6  # inputs with the least agreement whose rationales are kept

MethodRequest = str | Method | Mapping[str, Any] | MethodEntry


def stability(
    model: Model | str | os.PathLike[str] | tuple[Any, Any],
    inputs: Sequence[Any],
    methods: MethodRequest | Sequence[MethodRequest] = "marc",
    *,
    seeds: Sequence[int] = DEFAULT_SEEDS,
    learning_rates: Sequence[float] | None = None,
    baselines: Sequence[str] | None = None,
    smooth: float | None = None,
    shape: str | None = None,
    threshold: float | None = None,
    share: float | None = None,
    top: int | None = None,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> StabilityResult:
    """How far explanations depend on the seed, the learning rate and the baseline.

    `model` and `inputs`: as for `explain`, a list of texts or images; or examples of `read_data`. `methods`: one or
    several, as for `evaluate`. Every method runs with each seed and each learning rate (default: half, once and twice
    its own); then with each baseline alone (default: see `single_baselines`; an empty list: none). A method without a
    learning rate, or without randomness, runs what applies, and its remarks say so. `smooth` and `shape`: as for
    `explain`, of methods that name none. `threshold`, `share` or `top`: the
    rule of the rationales in place of the method's. `progress` is called with the share done, from 0 to 1.
    """
    started = time.perf_counter()
    model = text_or_image_model(as_model(model))
    requests = [methods] if isinstance(methods, (str, Method, Mapping, MethodEntry)) else list(methods)
    entries = resolve_entries(requests, smooth, model.kind, shape)[: len(requests)]
    distinct_seeds = tuple(dict.fromkeys(checked_seed(seed, "a seed") for seed in seeds))
    if not distinct_seeds:
        raise OptionError("give at least one seed; two or more are needed to see their effect")
    _check_rates(learning_rates)
    single = single_baselines(model) if baselines is None else tuple(dict.fromkeys(baselines))
    baseline_models = [(name, with_removal_baseline(model, name)) for name in single]  # reports unknown names at once
    raw_inputs, titles = _named_inputs(inputs, names)
    plans = [_plan(entry.method, distinct_seeds, learning_rates) for entry in entries]
    runs = sum(len(plan) + len(single) for plan in plans)
    rule = {"threshold": threshold, "share": share, "top": top}
    work = Workload(raw_inputs, titles, rule, runs, progress, read_masks(model, raw_inputs))
    results, targets = [], tuple[str, ...]()
    for entry, plan in zip(entries, plans, strict=True):
        result, targets = _method_stability(model, entry, plan, baseline_models, work, learning_rates is not None)
        results.append(result)
    return StabilityResult(
        model=model.name,
        kind=model.kind,
        device=model.facts()["device"],
        labels=model.labels,
        inputs=tuple(titles),
        targets=targets,
        methods=tuple(results),
        seconds=time.perf_counter() - started,
        versions=versions(),
    )


def _method_stability(
    model: TextModel | ImageModel,
    entry: ResolvedEntry,
    plan: Sequence[tuple[Run, Method]],
    baseline_models: Sequence[tuple[str, Model]],
    work: Workload,
    rates_requested: bool,
) -> tuple[MethodStability, tuple[str, ...]]:
    """The stability of one method, and the labels that it explained; the plan begins with the reference run."""
    remarks = [] if plan[0][0].learning_rate is not None else _missing_rate(entry.title, rates_requested)
    outcomes: dict[Run, RunOutcome] = {}
    reference_run, reference_method = plan[0]
    deterministic = False
    for run, method in plan:
        if deterministic and run.seed != reference_run.seed:
            work.count_done(1)
            continue
        outcome = work.run(model, entry, method, run.seed)
        is_second_seed = run.seed != reference_run.seed and len(outcomes) == 1
        if is_second_seed and _same_scores(outcome, outcomes[reference_run]):
            deterministic = True
            seeds = f"seeds {reference_run.seed} and {run.seed}"
            remarks.append(f"{entry.title} is not random here: {seeds} give the same scores, so one seed is used")
            continue
        outcomes[run] = outcome
    ordered = sorted(outcomes, key=lambda run: (run.learning_rate or 0.0, list(outcomes).index(run)))
    reference = outcomes[reference_run]
    run_agreement = agreement([outcomes[run].scores for run in ordered], [outcomes[run].selections for run in ordered])
    if len(ordered) == 1:
        remarks.append(f"nothing varies between the runs of {entry.title}, so there is no pair to compare")
    baseline_results = []
    for name, baseline_model in baseline_models:
        is_reference = only_baseline(model) == name
        if is_reference:
            work.count_done(1)
        outcome = reference if is_reference else work.run(baseline_model, entry, reference_method, reference_run.seed)
        baseline_results.append(_baseline_result(name, outcome, reference, is_reference))
    result = MethodStability(
        title=entry.title,
        method=entry.method.name,
        options={option.name: getattr(entry.method, option.name) for option in fields(entry.method)},
        runs=tuple(ordered),
        reference=ordered.index(reference_run),
        values=tuple(outcomes[run].values for run in ordered),
        agreement=run_agreement,
        baselines=tuple(baseline_results),
        disagreements=_disagreements(run_agreement, ordered, outcomes, work),
        remarks=tuple(remarks),
    )
    return result, tuple(rationale.target for rationale in reference.rationales)


def _plan(method: Method, seeds: Sequence[int], learning_rates: Sequence[float] | None) -> list[tuple[Run, Method]]:
    """The runs of a method: first the reference (first seed, the learning rate nearest to the method's own), then the
    other seeds with the same learning rate, then the other learning rates."""
    if not any(option.name == "learning_rate" for option in fields(method)):
        return [(Run(seed, None), method) for seed in seeds]
    standard: float = getattr(method, "learning_rate")  # noqa: B009  # not every Method has one
    factors = [float(f"{factor * standard:.6g}") for factor in RATE_FACTORS]
    rates = list(dict.fromkeys(factors if learning_rates is None else map(float, learning_rates)))
    rates.sort(key=lambda rate: abs(np.log(rate / standard)))
    changed = {rate: replace(method, learning_rate=rate) for rate in rates}  # type: ignore[call-arg]  # checked above
    return [(Run(seed, rate), changed[rate]) for rate in rates for seed in seeds]


def _missing_rate(title: str, rates_requested: bool) -> list[str]:
    ending = "; the learning rates do not apply to it" if rates_requested else ""
    return [f"{title} has no learning rate, so only seeds vary{ending}"]


def _same_scores(first: RunOutcome, second: RunOutcome) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first.scores, second.scores, strict=True))


def _baseline_result(name: str, outcome: RunOutcome, reference: RunOutcome, is_reference: bool) -> BaselineResult:
    compared = agreement([outcome.scores, reference.scores], [outcome.selections, reference.selections])
    return BaselineResult(name, is_reference, outcome.values, compared.rank[0, 1], compared.iou[0, 1], outcome.evidence)


def _disagreements(
    compared: RunAgreement, ordered: Sequence[Run], outcomes: Mapping[Run, RunOutcome], work: Workload
) -> tuple[Disagreement, ...]:
    """The inputs whose rationales agree least, each with the two runs that agree least on it."""
    if not compared.pairs:
        return ()
    mean_iou = compared.per_input(compared.iou)
    cases = []
    for number in np.argsort(mean_iou, kind="stable")[:SHOWN_INPUTS].tolist():
        if mean_iou[number] >= 1:
            break
        first, second = min(compared.pairs, key=lambda pair: compared.iou[pair[0], pair[1], number])
        rationales = tuple(
            replace(outcomes[ordered[run]].rationales[number], image=work.images[number]) for run in (first, second)
        )
        cases.append(
            Disagreement(
                number=number,
                name=work.names[number],
                mean_iou=float(mean_iou[number]),
                iou=float(compared.iou[first, second, number]),
                rank=float(compared.rank[first, second, number]),
                runs=(ordered[first].title, ordered[second].title),
                rationales=(rationales[0], rationales[1]),
            )
        )
    return tuple(cases)


def _named_inputs(inputs: Sequence[Any], names: Sequence[str] | None) -> tuple[list[Any], list[str]]:
    """The inputs as `explain` takes them, and a name for each."""
    if isinstance(inputs, str):
        raise InputError("stability takes a list of inputs: [text, ...]")
    listed = list(inputs)
    if not listed:
        raise InputError("there is no input to explain; give a list of texts or images")
    titles = [str(name) for name in names] if names is not None else []
    if names is None:
        titles = [
            item.name if isinstance(item, Example) else f"input {number}" for number, item in enumerate(listed, 1)
        ]
    if len(titles) != len(listed):
        raise OptionError(f"{len(titles)} names for {len(listed)} inputs")
    return [item.raw_input() if isinstance(item, Example) else item for item in listed], titles


def _check_rates(learning_rates: Sequence[float] | None) -> None:
    if learning_rates is not None and (not len(learning_rates) or any(not rate > 0 for rate in learning_rates)):
        raise OptionError(f"learning rates are numbers greater than 0, not {list(learning_rates)}")
