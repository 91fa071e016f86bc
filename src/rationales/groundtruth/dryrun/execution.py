"""A dry run: plant a known cause in the user's data, train a network, explain it, and judge the methods."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from rationales.data.example import Example
from rationales.errors import OptionError, RationalesError
from rationales.evaluation.entries import MethodEntry, ResolvedEntry
from rationales.evaluation.tables.statistics import estimate
from rationales.groundtruth import metrics
from rationales.groundtruth.dryrun.input_data import InputData, prepare_data
from rationales.groundtruth.dryrun.network_under_test import NETWORKS, ModelFactory, NetworkUnderTest, build_network
from rationales.groundtruth.dryrun.planted_training import PlantedSplits, plant_splits, select_inputs, train_on_plant
from rationales.groundtruth.dryrun.results import DryRun, ExplainedInput, MethodResult, PlantResult
from rationales.groundtruth.dryrun.settings import (
    DEFAULT_INPUTS,
    DEFAULT_LIMIT,
    DEFAULT_SIZE,
    DEFAULT_WORDS,
    DryRunSettings,
    NameWithOptions,
    choose_labels,
    resolve_settings,
)
from rationales.groundtruth.dryrun.verdict import MIN_INPUTS, judge
from rationales.groundtruth.masker_training import needs_masker, with_trained_masker
from rationales.groundtruth.plants.plant import Plant, PlantedExample
from rationales.groundtruth.training import seeded
from rationales.methods.method import Progress
from rationales.models.pretrained import device_of
from rationales.pipeline.explain import explain
from rationales.version import __version__

ProgressBar = Callable[[str], AbstractContextManager[Progress | None]]
SHORT_OPTIONS = {"steps": 3, "samples": 8, "orders": 1}  # options of a method in the trial before training


@dataclass(frozen=True)
class _Execution:
    settings: DryRunSettings
    network: str | ModelFactory | None
    size: int
    device: torch.device
    progress_bar: ProgressBar
    on_result: Callable[[PlantResult], None] | None = None


def dry_run(
    data: str | os.PathLike[str] | Sequence[Example],
    *,
    plants: Sequence[NameWithOptions | Plant] | None = None,
    methods: Sequence[NameWithOptions | MethodEntry] | None = None,
    network: str | ModelFactory | None = None,
    r: float | None = None,
    inputs: int = DEFAULT_INPUTS,
    limit: int | None = DEFAULT_LIMIT,
    size: int = DEFAULT_SIZE,
    words: int = DEFAULT_WORDS,
    text_column: str = "",
    label_column: str = "",
    training: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress_bar: ProgressBar | None = None,
    on_result: Callable[[PlantResult], None] | None = None,
) -> DryRun:
    """Plant a known cause in the data, train a network that must use it, and judge which methods find it.

    Args:
        data: a folder of images, a file of texts, the name of a data set, or examples.
        plants: names from `PLANTS`, mappings of a name and parameters, or plants; by default a watermark in images, a
            trigger word in texts.
        methods: as for `evaluate`; random scores are always added.
        network: a name from `NETWORKS`, a language model of the catalogue or its folder (tuned with an adapter), or a
            function from the number of labels to a module (for texts: a module and its tokenizer).
        r: the probability that a label is kept.
        inputs: how many planted test inputs are explained with each method, at most.
        limit: how many examples are used, at most.
        size: pixels per side of the images.
        words: how many words of each text are used, at most.
        text_column, label_column: columns of a file of texts, by default `text` and `label`.
        training: fields of `training.Recipe`.
        progress_bar: opens a progress bar for each step.
        on_result: called after each method with the result so far, so that a long run can be stopped.
    """
    started = time.perf_counter()
    progress_bar = progress_bar or (lambda _: nullcontext())
    device = device_of(device) if device is not None else torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with progress_bar("reading the data") as progress:
        input_data = prepare_data(
            data,
            text_column=text_column,
            label_column=label_column,
            limit=limit,
            size=size,
            max_words=words,
            progress=progress,
        )
    settings = resolve_settings(
        input_data.kind, plants=plants, methods=methods, training=training, r=r, inputs=inputs, seed=seed
    )
    execution = _Execution(settings, network, size, device, progress_bar, on_result)
    plant_results = tuple(_run_plant(input_data, plant, execution) for plant in settings.plants)
    return DryRun(
        data=input_data.name,
        kind=input_data.kind,
        examples=len(input_data.examples),
        seed=settings.seed,
        device=str(device),
        seconds=time.perf_counter() - started,
        versions={"rationales": __version__, "torch": torch.__version__, "python": platform.python_version()},
        notes=input_data.notes,
        plants=plant_results,
    )


def _run_plant(data: InputData, plant: Plant, execution: _Execution) -> PlantResult:
    """Train a network on one plant, and judge all methods if it relies on the plant."""
    settings = execution.settings
    examples, reassignment = choose_labels(data, plant, settings.r)
    labels = reassignment.new_labels
    with execution.progress_bar(f"{plant.name}: planting and trying the methods") as progress:
        splits = plant_splits(examples, plant, reassignment, settings.seed)
        with seeded(settings.seed, execution.device):
            network = _build(data.kind, execution, labels, splits)
        _try_methods(network, splits.to_explain.planted[0], settings.entries, progress)
    with execution.progress_bar(f"{plant.name}: training on {len(splits.train.planted)} examples") as progress:
        started = time.perf_counter()
        trained = train_on_plant(network, splits, settings.recipe, settings.seed, execution.device, progress)
        seconds = time.perf_counter() - started
    reliance = trained.reliance(reassignment.bound)
    no_verdict = trained.failure or ("" if reliance.relies else str(reliance))
    result = PlantResult(
        plant=plant,
        labels=labels,
        r=reassignment.matrix[0][0] if reassignment.old_labels == labels else None,
        bound=reassignment.bound,
        area=splits.area,
        split_sizes=(len(splits.train.planted), len(splits.val.planted), len(splits.test.planted)),
        left_out=splits.test.left_out,
        network=network.name,
        epochs=len(trained.history),
        reached_target=trained.reached_target,
        target_accuracy=settings.recipe.target_accuracy,
        validation_accuracy=max(epoch.accuracy for epoch in trained.history),
        reliance=reliance,
        seconds=seconds,
        no_verdict=no_verdict,
    )
    return result if no_verdict else _judge_methods(result, network, splits, execution)


def _build(kind: str, execution: _Execution, labels: Sequence[str], splits: PlantedSplits) -> NetworkUnderTest:
    """The network of the execution; a language model is tuned, all others are trained from scratch."""
    name = execution.network
    if kind == "text" and isinstance(name, str) and name not in NETWORKS[kind]:
        from rationales.groundtruth.dryrun.tuned_language_model import is_language_model, tuned_language_model

        if is_language_model(name):
            return tuned_language_model(name, labels, execution.size, execution.device)
    return build_network(kind, name, labels, execution.size, splits.training_texts)


def _judge_methods(
    result: PlantResult, network: NetworkUnderTest, splits: PlantedSplits, execution: _Execution
) -> PlantResult:
    """The result of a plant, completed with the result of each method."""
    settings, n_candidates = execution.settings, len(splits.to_explain.planted)
    selected = select_inputs(network, splits.to_explain, settings.inputs, settings.seed, settings.recipe.batch_size)
    if len(selected) < MIN_INPUTS:
        reason = f"only {len(selected)} planted test inputs can be explained, {MIN_INPUTS} are needed"
        return replace(result, no_verdict=reason)
    method_results = []
    with TemporaryDirectory() as maskers:
        for entry in settings.entries:
            message = f"{result.plant.name}: explaining {len(selected)} inputs with {entry.title}"
            with execution.progress_bar(message) as progress:
                if needs_masker(entry.method):
                    texts = list(splits.training_texts())
                    method = with_trained_masker(entry.method, network.model(), texts, Path(maskers))
                    entry = replace(entry, method=method)  # the same row, ready to run
                method_results.append(_run_method(network, selected, entry, settings.seed, progress))
            if execution.on_result is not None:
                execution.on_result(replace(result, methods=tuple(method_results)))
    notes = []
    if len(selected) < min(settings.inputs, n_candidates):
        n_wrong = n_candidates - len(selected)
        notes.append(f"{n_wrong} of {n_candidates} planted test inputs are left out: the model predicts them wrongly")
    return replace(result, methods=tuple(method_results), notes=tuple(notes))


def _run_method(
    network: NetworkUnderTest,
    inputs: Sequence[PlantedExample],
    entry: ResolvedEntry,
    seed: int,
    progress: Progress | None,
) -> MethodResult:
    """Explain the inputs with one method, and measure whether it finds the plant."""
    error_message, rationales = "", []
    started = time.perf_counter()
    try:
        rationales = _explain(network, inputs, entry, seed, progress)
    except RationalesError as error:
        error_message = str(error)
    seconds = (time.perf_counter() - started) / len(inputs) if rationales else math.nan
    explained = tuple(
        ExplainedInput(planted, rationale, metrics.make_case(planted, rationale))
        for planted, rationale in zip(inputs, rationales, strict=bool(rationales))
    )
    cases = [explained_input.case for explained_input in explained]
    return MethodResult(
        title=entry.title,
        verdict=judge(cases, seed) if cases else None,
        region=metrics.attribution_on_region(cases, seed),
        distractors=metrics.attribution_on_distractors(cases, seed),
        labels=metrics.attribution_by_label(cases, seed),
        top_unit=estimate(np.array([_top_unit_in_region(case) for case in cases], dtype=float), seed=seed),
        seconds=seconds,
        explained=explained,
        error=error_message,
    )


def _top_unit_in_region(case: metrics.Case) -> float:
    """1 if the unit with the highest score lies on the plant, else 0; with ties, the share of them on the plant."""
    magnitudes = np.abs(case.scores)
    return float(case.region[magnitudes == magnitudes.max()].mean())


def _explain(
    network: NetworkUnderTest,
    inputs: Sequence[PlantedExample],
    entry: ResolvedEntry,
    seed: int,
    progress: Progress | None = None,
) -> list[Any]:
    return explain(
        network.model(),
        [planted.example.raw_input() for planted in inputs],
        method=entry.method,
        target=[network.labels.index(str(planted.example.label)) for planted in inputs],
        seed=seed,
        smooth=entry.smooth,
        shape=entry.shape,
        names=[planted.example.name for planted in inputs],
        progress=progress,
    )


def _try_methods(
    network: NetworkUnderTest, planted: PlantedExample, entries: Sequence[ResolvedEntry], progress: Progress | None
) -> None:
    """Try the network and all methods on one input before training, with as few steps as their options allow."""
    network.check(planted.example)
    for number, entry in enumerate(entries, 1):
        if needs_masker(entry.method):
            continue  # trained after the network
        known = {option.name for option in fields(entry.method)}
        short_options = {name: value for name, value in SHORT_OPTIONS.items() if name in known}
        try:
            _explain(network, [planted], replace(entry, method=replace(entry.method, **short_options)), 0)
        except RationalesError as error:
            raise OptionError(f"{entry.title} cannot explain {network.name}: {error}") from None
        if progress is not None:
            progress(number / len(entries))
