"""Does a method find the plant? Attribution on the region, and precision and recall of selections (Zhou et al. 2022).

Scores are (n,) for n units, regions and selections (n,) bool. Every number is a mean over inputs with a 95 % bootstrap
interval, and stands beside what chance reaches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rationales.errors import InputError, OptionError
from rationales.evaluation.statistics import Estimate, estimate
from rationales.groundtruth.plant import Planted
from rationales.groundtruth.regions import Mask, area, on_units
from rationales.rationale import Rationale

Scores = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Case:
    """One explained input: its scores, where the plant is, what only looks like it, and its label."""

    scores: Scores  # (n,)
    region: Mask  # (n,)
    distractors: Mask  # (n,)
    label: str
    name: str = ""

    def __post_init__(self) -> None:
        if not len(self.scores) == len(self.region) == len(self.distractors):
            raise InputError(f"{self.name}: {len(self.scores)} scores for {len(self.region)} units of the region")
        if not np.isfinite(self.scores).all():
            raise InputError(f"{self.name or 'an input'} has scores that are NaN or infinite")


@dataclass(frozen=True)
class Share:
    """Attr% on a set of units, and the set's share of all units: what a random scorer reaches."""

    attribution: Estimate
    area: Estimate


@dataclass(frozen=True)
class Found:
    """How well selections hit the plant, all inputs' units thrown together, as in Fig. 12 and 13."""

    precision: Estimate
    recall: Estimate
    selected: Estimate  # the share of all units that is selected, %Sel
    idle: Estimate  # the share of what is selected that only looks like the plant


def case(planted: Planted, rationale: Rationale) -> Case:
    """What a result of `explain` says of a planted example; its units are the model's own."""
    example = planted.example
    region, distractors = (
        on_units(one, rationale.units, rationale.text) for one in (planted.region, planted.distractors)
    )
    return Case(rationale.scores, region, distractors, str(example.label), example.name)


def attribution_share(scores: Scores, region: Mask) -> float:
    """Attr%(F) = sum_{i in F} |s_i| / sum_i |s_i| (section 3); scores that are all 0 say as little as equal ones."""
    size = np.abs(np.asarray(scores, dtype=np.float64))
    largest = size.max(initial=0.0)
    if largest == 0:
        return area(region)
    size = size / largest  # sums of very small or very large scores neither vanish nor overflow
    return float(size[region].sum() / size.sum())


def on_region(cases: Sequence[Case], seed: int = 0) -> Share:
    """Attr% on the effective region, near 1 for a method that finds the plant; its area is the chance level.

    Inputs whose region is empty (the plant's absence leaves nothing to point at) have no value.
    """
    return _share([(one.scores, one.region) for one in cases], seed)


def on_distractors(cases: Sequence[Case], seed: int = 0) -> Share:
    """Attr% on what looks like the plant and tells nothing: near 0 for a method that is not distracted."""
    return _share([(one.scores, one.distractors) for one in cases], seed)


def on_rest(cases: Sequence[Case], seed: int = 0) -> Share:
    """Attr% on everything else."""
    return _share([(one.scores, ~(one.region | one.distractors)) for one in cases], seed)


def by_label(cases: Sequence[Case], seed: int = 0) -> Mapping[str, Share]:
    """`on_region` for each label apart: with and without the plant are two different questions (section 5)."""
    return {label: on_region(own, seed) for label, own in apart(cases).items()}


def apart(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """The cases of each label."""
    return {label: [one for one in cases if one.label == label] for label in sorted({one.label for one in cases})}


def selections(cases: Sequence[Case], chosen: Sequence[Mask], seed: int = 0) -> Found:
    """Pr = |F and F_C| / |F| and Re = |F and F_C| / |F_C| of selections F, (n,) bool each (section 3)."""
    counts = np.array(
        [
            ((own & one.region).sum(), own.sum(), one.region.sum(), (own & one.distractors).sum(), len(own))
            for one, own in zip(cases, chosen, strict=True)
        ],
        dtype=np.float64,
    ).reshape(-1, 5)
    hits, had, wanted, idle, size = counts.T
    return Found(
        precision=_pooled(hits, had, seed),
        recall=_pooled(hits, wanted, seed),
        selected=_pooled(had, size, seed),
        idle=_pooled(idle, had, seed),
    )


def top_selections(cases: Sequence[Case], share: float) -> list[Mask]:
    """The best share of all inputs' units by the size of their score, each input the same; equal ones from the left."""
    if not 0 <= share <= 1:
        raise OptionError(f"the share of selected units lies between 0 and 1, not {share}")
    return [_top(np.abs(one.scores), round(share * len(one.scores))) for one in cases]


def optimal(
    cases: Sequence[Case], selected: NDArray[np.float64] | Sequence[float], each: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The best precision and recall at selection rates %Sel in (0, 1]: the lines of Fig. 12 and 13.

    With `each` the rate holds for every input (dashed line), else for all of them together (solid line), where units
    that one input does not need may be spent on another.
    """
    rates = np.asarray(selected, dtype=np.float64)
    if rates.size and (rates.min() <= 0 or rates.max() > 1):
        raise OptionError("selection rates lie between 0, not included, and 1")
    size = np.array([len(one.region) for one in cases], dtype=np.float64)
    wanted = np.array([one.region.sum() for one in cases], dtype=np.float64)
    if not each:
        size, wanted = size.sum(keepdims=True), wanted.sum(keepdims=True)
    hits = np.minimum(rates[..., None] * size, wanted).sum(-1)
    with np.errstate(invalid="ignore"):
        return hits / (rates * size.sum()), hits / wanted.sum()


def _share(pairs: Sequence[tuple[Scores, Mask]], seed: int) -> Share:
    values = np.array([attribution_share(scores, own) if own.any() else math.nan for scores, own in pairs])
    areas = np.array([area(own) if own.any() else math.nan for _, own in pairs])
    return Share(estimate(values, seed=seed), estimate(areas, seed=seed))


def _pooled(part: NDArray[np.float64], whole: NDArray[np.float64], seed: int) -> Estimate:
    """sum(part) / sum(whole) with its interval; inputs without any of the whole have no part in it."""
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.where(whole > 0, part / whole, math.nan)
    return estimate(values, whole, seed=seed)


def _top(size: Scores, count: int) -> Mask:
    chosen = np.zeros(len(size), dtype=bool)
    chosen[np.argsort(-size, kind="stable")[:count]] = True
    return chosen
