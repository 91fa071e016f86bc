"""The trials of a study: which explanations are compared or which text is marked, and the key that unblinds them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from rationales.errors import DataError, OptionError
from rationales.files import read_text
from rationales.rationale import Rationale

TASKS = ("compare", "mark")
ANSWERS = ("A", "B", "same")  # of a comparison
FORMAT = 1  # of the key file


@dataclass(frozen=True, eq=False)
class StudyTrial:
    """One question to a person: a text or an image and, in a comparison, the two explanations shown as A and B."""

    identity: str  # says nothing about methods
    rationales: tuple[Rationale, ...]  # compare: of A and B; mark: of every method, none of which is shown
    methods: tuple[str, ...]  # their titles, in the same order

    @property
    def reference(self) -> Rationale:
        """A rationale of the trial; all are of the same input and target."""
        return self.rationales[0]


@dataclass(frozen=True, eq=False)
class HumanStudy:
    """The trials of a study in the order in which they were made; every person gets an order of their own."""

    title: str
    task: str
    trials: tuple[StudyTrial, ...]
    seed: int
    identical: int = 0  # comparisons left out because both explanations mark the same units

    @property
    def identity(self) -> str:
        """A hash of the content, by which answers are matched with their key."""
        content = [self.title, self.task, self.seed, [trial_record(trial) for trial in self.trials]]
        return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=6).hexdigest()

    def key(self) -> dict[str, Any]:
        """What unblinds the answers: for each trial its input, and the method and selection of every explanation."""
        return {
            "format": FORMAT,
            "study": self.identity,
            "title": self.title,
            "task": self.task,
            "seed": self.seed,
            "identical": self.identical,
            "trials": [trial_record(trial) for trial in self.trials],
        }


def make_study(
    rationales: Mapping[str, Sequence[Rationale]], task: str = "compare", *, title: str = "", seed: int = 0
) -> HumanStudy:
    """The trials for rationales of the same inputs by several methods, title -> one for each input.

    compare: every two methods on every input, in random order as A and B, except where both mark the same units, which
    nobody could tell apart. mark: every input once.
    """
    if task not in TASKS:
        raise OptionError(f"a study's task is one of {', '.join(TASKS)}, not {task!r}")
    methods = list(rationales)
    counts = {len(listed) for listed in rationales.values()}
    if len(counts) != 1 or not (count := counts.pop()):
        raise OptionError("a study needs at least one input, and the rationales of all methods for each")
    if task == "compare" and len(methods) < 2:
        raise OptionError("a comparison needs at least two methods")
    random = np.random.default_rng(seed)
    trials: list[StudyTrial] = []
    identical = 0
    for number in range(count):
        listed = [rationales[method][number] for method in methods]
        _check_same_input(listed, number)
        groups = list(combinations(range(len(methods)), 2)) if task == "compare" else [tuple(range(len(methods)))]
        for group in groups:
            if task == "compare" and np.array_equal(listed[group[0]].selected(), listed[group[1]].selected()):
                identical += 1
                continue
            order = random.permutation(group).tolist() if task == "compare" else list(group)
            identity = f"t{len(trials) + 1}"
            trials.append(
                StudyTrial(identity, tuple(listed[index] for index in order), tuple(methods[index] for index in order))
            )
    if not trials:
        raise OptionError(
            "all explanations mark the same units, so that there is nothing to compare; choose other methods"
        )
    return HumanStudy(title or "Why did the model decide so?", task, tuple(trials), seed, identical)


def trial_record(trial: StudyTrial) -> dict[str, Any]:
    """Plain data of a trial for the key file."""
    reference = trial.reference
    text_units = reference.units if isinstance(reference.units, tuple) else ()
    return {
        "trial": trial.identity,
        "name": reference.name,
        "text": reference.text,
        "pair": reference.pair,
        "target": reference.target,
        "units": [[unit.start, unit.end, unit.text_index] for unit in text_units],
        "methods": list(trial.methods),
        "scores": [[round(float(score), 6) for score in rationale.scores] if text_units else []
                   for rationale in trial.rationales],
        "selected": [np.flatnonzero(rationale.selected()).tolist() if text_units else []
                     for rationale in trial.rationales],
    }  # fmt: skip


def read_key(path: str | Path) -> dict[str, Any]:
    """A key file, checked as far as the results need it."""
    try:
        key = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON (line {error.lineno}): {error.msg}") from None
    needed = ("study", "task", "trials")
    if not isinstance(key, dict) or key.get("format") != FORMAT or not all(name in key for name in needed):
        raise DataError(
            f"{path} is no key of a study; give the file that 'rationales study make' wrote beside the page"
        )
    fields = {"trial": str, "methods": list, "units": list, "scores": list, "selected": list}
    for trial in key["trials"] if isinstance(key["trials"], list) else [None]:
        if not isinstance(trial, dict) or not all(isinstance(trial.get(name), kind) for name, kind in fields.items()):
            raise DataError(f"{path} holds a trial without {', '.join(fields)}")
    if key["task"] not in TASKS:
        raise DataError(f"{path} has the task {key['task']!r}; there are {', '.join(TASKS)}")
    return key


def _check_same_input(rationales: Sequence[Rationale], number: int) -> None:
    first = rationales[0]
    for rationale in rationales[1:]:
        same = (rationale.text, rationale.pair, rationale.target) == (first.text, first.pair, first.target)
        if not same or len(rationale.units) != len(first.units):
            raise OptionError(f"the methods' rationales of input {number + 1} are of different inputs or targets")
