"""A dry run: plant a known cause in the user's own data, train, explain, and say which methods found it."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from rationales.data.example import Example
from rationales.errors import OptionError, RationalesError
from rationales.evaluation.entries import Entry, MethodEntry
from rationales.evaluation.statistics import estimate
from rationales.groundtruth.dryrun.data import Material, material
from rationales.groundtruth.dryrun.learning import Parts, asked, learn, planted
from rationales.groundtruth.dryrun.plan import INPUTS, LIMIT, SIZE, WORDS, Plan, Wanted, plan, relabelled
from rationales.groundtruth.dryrun.result import DryRun, Explained, Outcome, Row
from rationales.groundtruth.dryrun.subject import Factory, Subject, subject
from rationales.groundtruth.dryrun.verdict import FEWEST, judge
from rationales.groundtruth.metrics import Case, by_label, case, on_distractors, on_region
from rationales.groundtruth.plant import Plant, Planted
from rationales.groundtruth.training import seeded
from rationales.methods import Method
from rationales.models.loading import device_of
from rationales.pipeline import explain
from rationales.version import __version__

Stage = Callable[[str], AbstractContextManager[Callable[[float], None] | None]]
BRIEF = {"steps": 3, "samples": 8, "orders": 1}  # options of a method that is only tried


@dataclass(frozen=True)
class _Settings:
    plan: Plan
    network: str | Factory | None
    size: int
    device: torch.device
    stage: Stage


def dry_run(
    data: str | os.PathLike[str] | Sequence[Example],
    *,
    plants: Sequence[Wanted | Plant] | None = None,
    methods: Sequence[Wanted | MethodEntry] | None = None,
    network: str | Factory | None = None,
    r: float | None = None,
    inputs: int = INPUTS,
    limit: int | None = LIMIT,
    size: int = SIZE,
    words: int = WORDS,
    text_column: str = "",
    label_column: str = "",
    training: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    stage: Stage | None = None,
) -> DryRun:
    """Which methods find a cause that is known?

    `data`: a folder of pictures, a file of texts, the name of a data set, or examples. `plants`: names from `PLANTS`,
    mappings of a name and parameters, or plants; by default a watermark or a trigger word. `methods`: as for
    `evaluate`; a random row is always added. `network`: a name from `NETWORKS`, or a function from the number of labels
    to a module, for texts to a module and its tokenizer. `r`: how often a label stays. `inputs`: explained with each
    method. `training`: fields of `training.Recipe`. `stage` opens a progress bar for each step of the work.
    """
    started = time.perf_counter()
    opened = stage or (lambda _: nullcontext())
    home = device_of(device) if device is not None else torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with opened("reading the data") as report:
        given = material(
            data,
            text_column=text_column,
            label_column=label_column,
            limit=limit,
            size=size,
            words=words,
            progress=report,
        )
    how = plan(given.kind, plants=plants, methods=methods, training=training, r=r, inputs=inputs, seed=seed)
    settings = _Settings(how, network, size, home, opened)
    outcomes = tuple(_outcome(given, plant, settings) for plant in how.plants)
    return DryRun(
        data=given.name,
        kind=given.kind,
        examples=len(given.examples),
        seed=how.seed,
        device=str(home),
        seconds=time.perf_counter() - started,
        versions={"rationales": __version__, "torch": torch.__version__, "python": platform.python_version()},
        notes=given.notes,
        outcomes=outcomes,
    )


def _outcome(given: Material, plant: Plant, settings: _Settings) -> Outcome:
    how = settings.plan
    examples, labels = relabelled(given, plant, how.r)
    with settings.stage(f"{plant.name}: planting and trying the methods") as report:
        parts = planted(examples, plant, labels, how.seed)
        with seeded(how.seed, settings.device):
            tried = subject(given.kind, settings.network, labels.new, settings.size, parts.texts)
        _rehearse(tried, parts.shown.planted[0], how.entries, report)
    with settings.stage(f"{plant.name}: training on {len(parts.train.planted)} examples") as report:
        started = time.perf_counter()
        trained = learn(tried, parts, how.recipe, how.seed, settings.device, report)
        seconds = time.perf_counter() - started
    relies = trained.relies(labels.bound)
    why = trained.why or ("" if relies.relies else str(relies))
    made = Outcome(
        plant=plant,
        labels=labels.new,
        r=labels.matrix[0][0] if labels.old == labels.new else None,
        bound=labels.bound,
        area=parts.area,
        parts=(len(parts.train.planted), len(parts.val.planted), len(parts.test.planted)),
        left_out=parts.test.left_out,
        network=tried.name,
        epochs=len(trained.history),
        reached=trained.reached,
        wanted=how.recipe.until,
        best=max(epoch.accuracy for epoch in trained.history),
        reliance=relies,
        seconds=seconds,
        why=why,
    )
    return made if why else _judged(made, tried, parts, settings)


def _judged(made: Outcome, tried: Subject, parts: Parts, settings: _Settings) -> Outcome:
    """The outcome with a row for each method."""
    how = settings.plan
    some = asked(tried, parts.shown, how.inputs, how.seed, how.recipe.batch)
    if len(some) < FEWEST:
        return replace(made, why=f"only {len(some)} planted test inputs can be explained, {FEWEST} are needed")
    rows = []
    for entry in how.entries:
        with settings.stage(f"{made.plant.name}: explaining {len(some)} inputs with {entry.title}") as report:
            rows.append(_row(tried, some, entry, how.seed, report))
    notes = []
    wrong = len(parts.shown.planted) - len(some)
    if len(some) < min(how.inputs, len(parts.shown.planted)):
        notes.append(
            f"{wrong} of {len(parts.shown.planted)} planted test inputs are left out: the model is wrong there"
        )
    return replace(made, rows=tuple(rows), notes=tuple(notes))


def _row(
    tried: Subject, some: Sequence[Planted], entry: Entry, seed: int, progress: Callable[[float], None] | None
) -> Row:
    failed, found = "", []
    started = time.perf_counter()
    try:
        found = _explained(tried, some, entry.method, entry.smooth, seed, progress)
    except RationalesError as error:
        failed = str(error)
    seconds = (time.perf_counter() - started) / len(some) if found else math.nan
    explained = tuple(
        Explained(one, rationale, case(one, rationale)) for one, rationale in zip(some, found, strict=bool(found))
    )
    cases = [one.case for one in explained]
    return Row(
        title=entry.title,
        verdict=judge(cases, seed) if cases else None,
        region=on_region(cases, seed),
        distractors=on_distractors(cases, seed),
        labels=by_label(cases, seed),
        top=estimate(np.array([_top(one) for one in cases], dtype=float), seed=seed),
        seconds=seconds,
        explained=explained,
        failed=failed,
    )


def _top(one: Case) -> float:
    """Whether the strongest score lies on the plant; of several, how many of them."""
    size = np.abs(one.scores)
    return float(one.region[size == size.max()].mean())


def _explained(
    tried: Subject,
    some: Sequence[Planted],
    method: Method,
    smooth: float | None,
    seed: int,
    progress: Callable[[float], None] | None = None,
) -> list[Any]:
    model = tried.explainable()
    return explain(
        model,
        [one.example.given() for one in some],
        method=method.name,
        target=[tried.labels.index(str(one.example.label)) for one in some],
        seed=seed,
        options={one.name: getattr(method, one.name) for one in fields(method)},
        smooth=smooth,
        names=[one.example.name for one in some],
        progress=progress,
    )


def _rehearse(tried: Subject, one: Planted, entries: Sequence[Entry], progress: Callable[[float], None] | None) -> None:
    """Try everything on one input before minutes of training, as briefly as the options allow."""
    tried.check(one.example)
    for number, entry in enumerate(entries, 1):
        known = {option.name for option in fields(entry.method)}
        brief = {name: value for name, value in BRIEF.items() if name in known}
        try:
            _explained(tried, [one], replace(entry.method, **brief), entry.smooth, 0)
        except RationalesError as error:
            raise OptionError(f"{entry.title} cannot explain {tried.name}: {error}") from None
        if progress is not None:
            progress(number / len(entries))
