"""One complete run: train a network, test that it relies on the plant, explain test inputs, measure the scores."""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from rationales.evaluation.sampling import evenly
from rationales.evaluation.scores.cache import model_fingerprint
from rationales.experiments.ground_truth.method_rows import MethodSpec
from rationales.experiments.ground_truth.runs.method_measures import (
    EncodedInputs,
    encode_inputs,
    measure_method,
    method_fingerprint,
)
from rationales.experiments.ground_truth.runs.run_record import RunRecord, TrainingAttempt, TrainingCheckpoint
from rationales.experiments.ground_truth.runs.run_spec import BIRDS, VALIDATION_INPUTS, RunSettings, RunSpec
from rationales.groundtruth import ModifiedData, PlantedExample, training
from rationales.groundtruth.encoded_examples import EncodedExamples
from rationales.groundtruth.training import EncodedSplits, Epoch, Recipe, TrainedModel, train
from rationales.models.batch.execution import attribute_set
from rationales.models.model import Model

ACCURACY_STEPS = (0.6, 0.7, 0.8, 0.9, 0.95)  # during training, methods run when the accuracy first exceeds each


@dataclass(frozen=True, eq=False)
class TrainingSetup:
    """What a training needs, and the inputs that are explained after it."""

    make_network: Callable[[], nn.Module]
    data: EncodedSplits
    recipe: Recipe
    test: ModifiedData
    plant_description: str  # the plant, its position, and the data
    make_model: Callable[[nn.Module], Model]  # wraps a trained network so that methods can explain it
    required_accuracy: float  # on the test set
    validation: ModifiedData | None = None  # inputs on which methods may choose their baseline
    training_fold: Callable[[int], EncodedExamples] | None = None  # data of each epoch; None: always `data.train`
    stop_condition: training.StopCondition | None = None  # further condition under which training may stop
    find_fault: Callable[[nn.Module], str] | None = None  # reason to reject a trained network; empty: none
    selects: bool = False
    training_texts: tuple[str, ...] = ()  # for methods that train a masker


PrepareTraining = Callable[[RunSpec, RunSettings, int], TrainingSetup]  # the last argument numbers the attempt


def train_and_explain(
    spec: RunSpec,
    settings: RunSettings,
    methods: Sequence[MethodSpec],
    prepare: PrepareTraining,
    data_settings: str,
    previous: RunRecord | None = None,
) -> RunRecord:
    """Train until a model is accurate and relies on the plant, `settings.max_attempts` times at most, then explain.

    `data_settings`: what else the run depends on (see `run_fingerprint`). `previous`: an earlier record of the run;
    where training gives the same model again, its measures are reused, and where it failed with fewer attempts,
    training continues with the next attempt.
    """
    began = time.perf_counter()
    fingerprint = run_fingerprint(spec, settings, data_settings)
    failed = previous is not None and previous.failed and previous.fingerprint == fingerprint
    attempts = list(previous.attempts[: settings.max_attempts - 1]) if previous is not None and failed else []
    for number in range(len(attempts), settings.max_attempts):
        setup = prepare(spec, settings, number)
        checkpoints = _CheckpointKeeper(setup, settings)
        started = time.perf_counter()
        seed = settings.training_seed(spec, number)
        with attribute_set(torch.backends.cudnn, "deterministic", True):
            trained = train(
                setup.make_network,
                setup.data,
                setup.recipe,
                seed=seed,
                device=compute_device(settings),
                stop_condition=setup.stop_condition,
                epoch_data=setup.training_fold,
                on_epoch=checkpoints if settings.explain_during_training else None,
                half_precision=spec.data == BIRDS,
            )
        attempts.append(_describe_attempt(setup, trained, seed, time.perf_counter() - started))
        record = RunRecord(spec, fingerprint, tuple(attempts), setup.test.bound)
        if not attempts[-1].rejection:
            record = _explain(record, setup, trained, settings, methods, previous)
            record = replace(record, checkpoints=tuple(checkpoints.measure(methods)))
            return replace(record, seconds=time.perf_counter() - began)
    reason = f"all {settings.max_attempts} trainings were rejected; the last: {attempts[-1].rejection}"
    return replace(record, failed=reason, seconds=time.perf_counter() - began)


def is_incomplete(
    record: RunRecord | None, spec: RunSpec, settings: RunSettings, methods: Sequence[MethodSpec], data_settings: str
) -> bool:
    """Whether a run does not exist yet, is out of date, or lacks a requested method."""
    if record is None or record.fingerprint != run_fingerprint(spec, settings, data_settings):
        return True
    if record.failed:
        return len(record.attempts) < settings.max_attempts
    kind, size = ("image", round(record.unit_counts[0] ** 0.5)) if spec.data == BIRDS else ("text", 0)
    return any(
        method.key not in record.measures
        or record.measures[method.key].fingerprint != _current_fingerprint(method, kind, size)
        for method in methods
    )


def run_fingerprint(spec: RunSpec, settings: RunSettings, data_settings: str) -> str:
    """Hash of everything that a run depends on except methods and device.

    The hashed text uses the names of file format 1, so that stored runs stay valid when classes or fields are renamed.
    """
    shared = {
        "study": settings.experiment,
        "methods": (),
        "limit": settings.limit,
        "seed": settings.seed,
        "data": None,
        "device": None,
        "fixed": settings.fixed_position,
        "along": settings.explain_during_training,
        "distinct": settings.distinct_kinds,
        "shares": settings.selected_shares,
    }
    if settings.all_distinct:
        shared["all_distinct"] = True
    if settings.validation != VALIDATION_INPUTS:
        shared["validation"] = settings.validation
    run_text, shared_text = _call_text("Plan", asdict(spec)), _call_text("Setting", shared)
    text = f"({run_text}, {shared_text}, {data_settings!r}, {ACCURACY_STEPS!r})"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def recipe_text(recipe: Recipe, *constants: Any) -> str:
    """A training recipe and constants as text for `run_fingerprint`, also in the names of file format 1."""
    values = dict(zip(_RECIPE_KEYS, astuple(recipe), strict=True))
    return f"({', '.join([_call_text('Recipe', values), *map(repr, constants)])})"


_RECIPE_KEYS = ("epochs", "least", "until", "rate", "warm", "batch", "decay", "clip")


def _call_text(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def compute_device(settings: RunSettings) -> torch.device:
    """The device on which models are trained and explained: the requested one, else CUDA where available."""
    return torch.device(settings.device or ("cuda" if torch.cuda.is_available() else "cpu"))


def _describe_attempt(setup: TrainingSetup, trained: TrainedModel, seed: int, seconds: float) -> TrainingAttempt:
    # With a bound of 1 the original features suffice, and no accuracy can show that the model uses the plant.
    reliance = trained.reliance(setup.test.bound) if setup.test.bound < 1 else None
    rejection = setup.find_fault(trained.module) if setup.find_fault is not None else ""
    if not rejection and trained.accuracy <= setup.required_accuracy:
        rejection = f"accuracy on the test set {trained.accuracy:.1%}, not above {setup.required_accuracy:.0%}"
    if not rejection and reliance is not None and not reliance.relies:
        rejection = str(reliance)
    return TrainingAttempt(
        seed,
        setup.plant_description,
        trained.accuracy,
        trained.n_tested,
        len(trained.history),
        seconds,
        reliance.p_value if reliance is not None else float("nan"),
        rejection,
    )


def select_inputs(planted: Sequence[PlantedExample], limit: int) -> list[PlantedExample]:
    """At most `limit` of the test inputs, evenly spread, with equal numbers of each class where possible."""
    manipulations = sorted({item.manipulation for item in planted})
    by_manipulation = [[item for item in planted if item.manipulation == number] for number in manipulations]
    selected: set[str] = set()
    for i, items in enumerate(by_manipulation):
        count = max(1, (limit + len(by_manipulation) - 1 - i) // len(by_manipulation))
        selected |= {item.example.name for item in evenly(items, count)}
    return [item for item in planted if item.example.name in selected][:limit]


def _encode(
    setup: TrainingSetup, module: nn.Module, settings: RunSettings, methods: Sequence[MethodSpec]
) -> EncodedInputs:
    model, validation = setup.make_model(module), None
    if setup.validation is not None and any(method.alternatives for method in methods):
        planted = setup.validation.planted
        validation = encode_inputs(
            model, select_inputs(planted, settings.validation), background=planted, seed=settings.seed
        )
    return encode_inputs(
        model,
        select_inputs(setup.test.planted, settings.limit),
        background=setup.test.planted,
        selected_shares=settings.selected_shares,
        selects=setup.selects,
        seed=settings.seed,
        validation=validation,
    )


def _explain(
    record: RunRecord,
    setup: TrainingSetup,
    trained: TrainedModel,
    settings: RunSettings,
    methods: Sequence[MethodSpec],
    previous: RunRecord | None,
) -> RunRecord:
    """The record, completed with the measures of all methods on the trained model."""
    inputs = _encode(setup, trained.module, settings, methods)
    fingerprint = model_fingerprint(inputs.model)
    measures = {}
    if previous is not None and previous.model_fingerprint == fingerprint and not settings.explain_during_training:
        measures = dict(previous.measures)
    with TemporaryDirectory() as maskers:
        for method in methods:
            current = _current_fingerprint(method, inputs.model.kind, inputs.size)
            if method.key not in measures or measures[method.key].fingerprint != current:
                measures[method.key] = measure_method(inputs, method, setup.training_texts, Path(maskers))
    return replace(
        record,
        model_fingerprint=fingerprint,
        input_names=tuple(item.example.name for item in inputs.planted),
        manipulations=tuple(item.manipulation for item in inputs.planted),
        unit_counts=tuple(len(region) for region in inputs.regions),
        region_sizes=tuple(int(region.sum()) for region in inputs.regions),
        distractor_sizes=tuple(int(distractors.sum()) for distractors in inputs.distractors),
        measures=measures,
    )


def _current_fingerprint(spec: MethodSpec, kind: str, size: int) -> str:
    return method_fingerprint(spec, spec.build_method(kind, size))


class _CheckpointKeeper:
    """Training callback that copies the network whenever its test accuracy first exceeds one of the steps."""

    def __init__(self, setup: TrainingSetup, settings: RunSettings) -> None:
        self.setup, self.settings = setup, settings
        self.test = setup.data.test.to(compute_device(settings))
        self.copies: list[tuple[int, float, nn.Module]] = []  # epoch, accuracy, network
        self.reached = -1

    def __call__(self, epoch: Epoch, module: nn.Module) -> None:
        accuracy = training.count_correct(module, self.test, self.setup.recipe.batch_size) / len(self.test)
        step = sum(accuracy > threshold for threshold in ACCURACY_STEPS)
        if step > self.reached:
            self.reached = step
            self.copies.append((epoch.number, accuracy, copy.deepcopy(module)))

    def measure(self, methods: Sequence[MethodSpec]) -> Iterator[TrainingCheckpoint]:
        """Measures of all methods on each copy."""
        for epoch, accuracy, module in self.copies:
            inputs = _encode(self.setup, module, self.settings, methods)
            measures = {method.key: measure_method(inputs, method) for method in methods}
            yield TrainingCheckpoint(epoch, accuracy, measures)
