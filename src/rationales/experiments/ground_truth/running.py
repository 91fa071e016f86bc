"""One run from the beginning to the end: train, see that the model relies on the plant, explain, measure."""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import nn

from rationales.evaluation.cache import model_print
from rationales.evaluation.sampling import evenly
from rationales.experiments.ground_truth.explaining import Questions, method_print, questions, told
from rationales.experiments.ground_truth.plan import BIRDS, Plan, Setting
from rationales.experiments.ground_truth.record import Attempt, Record, Stage
from rationales.experiments.ground_truth.rows import MethodSpec
from rationales.groundtruth import ModifiedData, PlantedExample
from rationales.groundtruth.encoded_examples import EncodedExamples
from rationales.groundtruth.training import (
    EncodedSplits,
    Epoch,
    Recipe,
    StopCondition,
    TrainedModel,
    count_correct,
    train,
)
from rationales.models.model import Model

STEPS = (0.6, 0.7, 0.8, 0.9, 0.95)  # accuracies on the way; beyond each, methods are asked once


@dataclass(frozen=True, eq=False)
class Ready:
    """A training about to begin, and what is to be explained after it."""

    factory: Callable[[], nn.Module]
    data: EncodedSplits
    recipe: Recipe
    test: ModifiedData
    where: str  # the plant, its place, and what it was put into
    model: Callable[[nn.Module], Model]  # a trained network as something that can be explained
    enough: float  # accuracy on the test part that a run must have
    renew: Callable[[int], EncodedExamples] | None = None
    also: StopCondition | None = None
    check: Callable[[nn.Module], str] | None = None  # what else keeps a trained model from counting; empty: nothing
    selects: bool = False


Prepare = Callable[[Plan, Setting, int], Ready]  # the third is the number of the attempt


def carry_out(
    plan: Plan, setting: Setting, specs: Sequence[MethodSpec], prepare: Prepare, about: str, old: Record | None = None
) -> Record:
    """Train until a model is accurate and relies on the plant, `setting.tries` times at most, then ask the methods.

    `old`: an earlier record of the same run; where the training gives the very same model again, what methods said of
    it is taken over, and where it failed with fewer trainings it goes on with the next.
    """
    began = time.perf_counter()
    own = run_print(plan, setting, about)
    failed = old is not None and old.failed and old.print == own
    attempts = list(old.attempts[: setting.tries - 1]) if old is not None and failed else []
    for number in range(len(attempts), setting.tries):
        ready = prepare(plan, setting, number)
        watch = _Watch(ready, setting)
        started = time.perf_counter()
        with reproducible():
            trained = train(
                ready.factory,
                ready.data,
                ready.recipe,
                seed=setting.training_seed(plan, number),
                device=home(setting),
                stop_condition=ready.also,
                epoch_data=ready.renew,
                on_epoch=watch if setting.along else None,
                half_precision=plan.data == BIRDS,
            )
        attempts.append(_attempt(ready, trained, setting.training_seed(plan, number), time.perf_counter() - started))
        if attempts[-1].why:
            continue
        made = _explained(ready, trained, setting, specs, old)
        return replace(
            made,
            plan=plan,
            print=own,
            attempts=tuple(attempts),
            stages=tuple(watch.asked(specs)),
            seconds=time.perf_counter() - began,
        )
    why = f"{setting.tries} trainings with different seeds did not do: {attempts[-1].why}"
    seconds = time.perf_counter() - began
    return Record(plan, own, tuple(attempts), ready.test.bound, failed=why, seconds=seconds)


def missing(record: Record | None, plan: Plan, setting: Setting, specs: Sequence[MethodSpec], about: str) -> bool:
    """Whether a run is still to be made, or has not all that is wanted of it."""
    if record is None or record.print != run_print(plan, setting, about):
        return True
    if record.failed:
        return len(record.attempts) < setting.tries
    kind, size = ("image", round(record.units[0] ** 0.5)) if plan.data == BIRDS else ("text", 0)
    return any(one.key not in record.told or record.told[one.key].print != _today(one, kind, size) for one in specs)


def run_print(plan: Plan, setting: Setting, about: str) -> str:
    """A print of what a run depends on, methods and device left aside."""
    shared = replace(setting, methods=(), data=None, device=None)
    return hashlib.blake2b(repr((plan, shared, about, STEPS)).encode(), digest_size=8).hexdigest()


def home(setting: Setting) -> torch.device:
    """Where models are trained and explained."""
    return torch.device(setting.device or ("cuda" if torch.cuda.is_available() else "cpu"))


@contextmanager
def reproducible() -> Iterator[None]:
    """Inside the block an NVIDIA card computes convolutions the same way every time."""
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.backends.cudnn.deterministic = before


def _attempt(ready: Ready, trained: TrainedModel, seed: int, seconds: float) -> Attempt:
    shown = trained.reliance(ready.test.bound) if ready.test.bound < 1 else None  # else nothing can show it
    why = ready.check(trained.module) if ready.check is not None else ""
    if not why and trained.accuracy <= ready.enough:  # what the best epoch reaches on unseen examples decides
        why = f"accuracy on the test part {trained.accuracy:.1%}, not above {ready.enough:.0%}"
    if not why and shown is not None and not shown.relies:
        why = str(shown)
    p = shown.p_value if shown is not None else float("nan")
    return Attempt(seed, ready.where, trained.accuracy, trained.n_tested, len(trained.history), seconds, p, why)


def explained_inputs(planted: Sequence[PlantedExample], limit: int) -> list[PlantedExample]:
    """At most so many of the test inputs, as many of each class as can be, evenly spread."""
    sides = [
        [one for one in planted if one.manipulation == which] for which in sorted({one.manipulation for one in planted})
    ]
    taken: set[str] = set()
    for place, own in enumerate(sides):
        count = max(1, (limit + len(sides) - 1 - place) // len(sides))
        taken |= {one.example.name for one in evenly(own, count)}
    return [one for one in planted if one.example.name in taken][:limit]


def _questions(ready: Ready, module: nn.Module, setting: Setting) -> Questions:
    return questions(
        ready.model(module),
        explained_inputs(ready.test.planted, setting.limit),
        background=ready.test.planted,
        shares=setting.shares,
        selects=ready.selects,
        seed=setting.seed,
    )


def _explained(
    ready: Ready, trained: TrainedModel, setting: Setting, specs: Sequence[MethodSpec], old: Record | None
) -> Record:
    """What methods say of a trained model; the fields that tell of the training are filled in by the caller."""
    asked = _questions(ready, trained.module, setting)
    weights = model_print(asked.model)
    known = {} if old is None or old.weights != weights or setting.along else dict(old.told)
    for one in specs:
        if one.key not in known or known[one.key].print != _today(one, asked.model.kind, asked.size):
            known[one.key] = told(asked, one)
    return Record(
        plan=Plan("", ""),
        print="",
        attempts=(),
        bound=ready.test.bound,
        weights=weights,
        names=tuple(one.example.name for one in asked.planted),
        which=tuple(one.manipulation for one in asked.planted),
        units=tuple(len(one) for one in asked.regions),
        region=tuple(int(one.sum()) for one in asked.regions),
        idle=tuple(int(one.sum()) for one in asked.idle),
        told=known,
    )


def _today(spec: MethodSpec, kind: str, size: int) -> str:
    """The print of what this method would say now."""
    return method_print(spec, spec.built(kind, size))


class _Watch:
    """Keeps the model as it is during the training, once for every step of accuracy, so that methods can be asked."""

    def __init__(self, ready: Ready, setting: Setting) -> None:
        self.ready, self.setting = ready, setting
        self.test = ready.data.test.to(home(setting))
        self.kept: list[tuple[int, float, nn.Module]] = []  # the epoch, the accuracy, and a copy
        self.reached = -1

    def __call__(self, epoch: Epoch, module: nn.Module) -> None:
        accuracy = count_correct(module, self.test, self.ready.recipe.batch_size) / len(self.test)
        step = sum(accuracy > one for one in STEPS)
        if step > self.reached:
            self.reached = step
            self.kept.append((epoch.number, accuracy, copy.deepcopy(module)))

    def asked(self, specs: Sequence[MethodSpec]) -> Iterator[Stage]:
        """What methods say of each."""
        for epoch, accuracy, module in self.kept:
            asked = _questions(self.ready, module, self.setting)
            yield Stage(epoch, accuracy, {one.key: told(asked, one) for one in specs})
