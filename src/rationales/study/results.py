"""What the answers of a study say: preference, agreement between people and with methods, and time, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rationales.evaluation.agreement.overlap import average_precision, token_f1
from rationales.evaluation.tables.statistics import Estimate, compare, estimate
from rationales.study.answers import Answer

VALUES = {"A": 1.0, "B": 0.0, "same": 0.5}  # preference for A


@dataclass(frozen=True)
class Preference:
    """How often one method was preferred to another; a tie counts half."""

    first: str
    second: str
    share: Estimate  # of the first method; the mean over inputs of the mean over people, intervals over inputs
    p: float  # two-sided, that both are preferred equally: sign flips of the inputs' means around 1/2
    wins: int  # answers for the first method
    losses: int
    ties: int


@dataclass(frozen=True)
class MarkAgreement:
    """How the scores of a method agree with what people marked."""

    method: str  # "people": each person against every other
    f1: Estimate  # of the selected words; the mean over inputs of the mean over people
    average_precision: Estimate  # of the scores; NaN for people, who have none


@dataclass(frozen=True)
class StudyResults:
    """All results of a study."""

    task: str
    people: int
    answers: int
    trials: int
    alpha: float  # Krippendorff's, between people; NaN where nobody shares a trial
    seconds: Estimate  # of a trial: the mean over people of each person's mean, intervals over people
    median_seconds: float
    preferences: tuple[Preference, ...] = ()
    agreements: tuple[MarkAgreement, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "task": self.task,
            "people": self.people,
            "answers": self.answers,
            "trials": self.trials,
            "alpha": _number(self.alpha),
            "seconds": {**_plain(self.seconds), "median": _number(self.median_seconds)},
            "preferences": [
                {**vars(preference), "share": _plain(preference.share), "p": _number(preference.p)}
                for preference in self.preferences
            ],
            "agreements": [
                {"method": row.method, "f1": _plain(row.f1), "average_precision": _plain(row.average_precision)}
                for row in self.agreements
            ],
        }


def study_results(key: Mapping[str, Any], answers: Sequence[Answer]) -> StudyResults:
    """The results of the answers to the study of this key."""
    by_person: dict[str, list[float]] = {}
    for answer in answers:
        by_person.setdefault(answer.person, []).append(answer.seconds)
    times = np.array([answer.seconds for answer in answers])
    compared = key["task"] == "compare"
    return StudyResults(
        task=key["task"],
        people=len(by_person),
        answers=len(answers),
        trials=len({answer.trial for answer in answers}),
        alpha=krippendorff_alpha(_ratings(key, answers)),
        seconds=estimate(np.array([np.mean(seconds) for seconds in by_person.values()])),
        median_seconds=float(np.median(times)),
        preferences=_preferences(key, answers) if compared else (),
        agreements=() if compared else _agreements(key, answers),
    )


def krippendorff_alpha(units: Sequence[Sequence[Any]]) -> float:
    """Krippendorff's alpha for nominal values: 1 - observed / expected disagreement.

    `units`: the values that people gave each unit; units with fewer than two values are left out. 1: people agree, 0:
    as by chance; NaN where nobody shares a unit, or all values are equal.
    """
    shared = [list(values) for values in units if len(values) > 1]
    pooled = [value for values in shared for value in values]
    n = len(pooled)
    counts = {value: pooled.count(value) for value in set(pooled)}
    if len(counts) < 2:
        return math.nan
    disagreement = sum(
        sum(len(values) - values.count(value) for value in values) / (len(values) - 1) for values in shared
    )
    expected = sum(count * (n - count) for count in counts.values()) / (n - 1)
    return float(1 - disagreement / expected)


def _ratings(key: Mapping[str, Any], answers: Sequence[Answer]) -> list[list[Any]]:
    """Values that people gave: the preferred method of a comparison; of a marking, every word."""
    trials = {trial["trial"]: trial for trial in key["trials"]}
    grouped: dict[tuple[str, int], list[Any]] = {}
    for answer in answers:
        trial = trials[answer.trial]
        if key["task"] == "compare":
            grouped.setdefault((answer.trial, 0), []).append(answer.choice)
            continue
        marked = set(answer.marked)
        for unit in range(len(trial["units"])):
            grouped.setdefault((answer.trial, unit), []).append(unit in marked)
    return list(grouped.values())


def _preferences(key: Mapping[str, Any], answers: Sequence[Answer]) -> tuple[Preference, ...]:
    """One for every two methods, the first named first in the key's first trial of the two."""
    trials = {trial["trial"]: trial for trial in key["trials"]}
    pairs: dict[frozenset[str], tuple[str, str]] = {}
    for trial in key["trials"]:
        pairs.setdefault(frozenset(trial["methods"]), tuple(sorted(trial["methods"])))
    results = []
    for members, (first, second) in pairs.items():
        values: dict[str, list[float]] = {}
        for answer in answers:
            methods = trials[answer.trial]["methods"]
            if frozenset(methods) == members:
                for_a = VALUES[answer.choice]
                values.setdefault(answer.trial, []).append(for_a if methods[0] == first else 1 - for_a)
        if not values:
            continue
        means = np.array([np.mean(listed) for listed in values.values()])
        flat = [value for listed in values.values() for value in listed]
        p = compare(means, np.full(len(means), 0.5)).p
        wins, losses = sum(value == 1 for value in flat), sum(value == 0 for value in flat)
        results.append(Preference(first, second, estimate(means), p, wins, losses, len(flat) - wins - losses))
    return tuple(results)


def _agreements(key: Mapping[str, Any], answers: Sequence[Answer]) -> tuple[MarkAgreement, ...]:
    by_trial: dict[str, list[Answer]] = {}
    for answer in answers:
        by_trial.setdefault(answer.trial, []).append(answer)
    f1: dict[str, list[float]] = {"people": []}
    precision: dict[str, list[float]] = {"people": []}
    for trial in key["trials"]:
        trial_answers = by_trial.get(trial["trial"], [])
        if not trial_answers:
            continue
        count = len(trial["units"])
        marks = [np.isin(np.arange(count), answer.marked) for answer in trial_answers]
        between = [token_f1(first, second) for first, second in combinations(marks, 2) if first.any() or second.any()]
        f1["people"].append(float(np.mean([np.nan_to_num(value) for value in between])) if between else math.nan)
        precision["people"].append(math.nan)
        for method, scores, selected in zip(trial["methods"], trial["scores"], trial["selected"], strict=True):
            chosen = np.isin(np.arange(count), selected)
            # a person who marked nothing in a text says nothing about which words are right
            overlaps = [token_f1(mark, chosen) for mark in marks if mark.any()]
            ranked = [average_precision(mark, np.array(scores)) for mark in marks if mark.any()]
            f1.setdefault(method, []).append(float(np.mean(overlaps)) if overlaps else math.nan)
            precision.setdefault(method, []).append(float(np.mean(ranked)) if ranked else math.nan)
    return tuple(
        MarkAgreement(method, estimate(np.array(values)), estimate(np.array(precision[method])))
        for method, values in f1.items()
    )


def _plain(value: Estimate) -> dict[str, float | None]:
    return {"mean": _number(value.mean), "low": _number(value.low), "high": _number(value.high)}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
