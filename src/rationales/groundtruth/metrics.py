"""Whether a method finds the plant: Attr% on the region, precision and recall of selections (Zhou et al. 2022).

Scores are (n,) for n units, regions and selections (n,) bool. Every value is a mean over inputs with a 95 % bootstrap
interval, and comes with the value that random scores reach.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rationales.errors import InputError, OptionError
from rationales.evaluation.tables.statistics import Estimate, estimate
from rationales.groundtruth.plants.plant import PlantedExample
from rationales.groundtruth.plants.regions import Mask, area, units_in_region
from rationales.rationale import Rationale

Scores = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Case:
    """The scores of one explained input, with its region, its distractors and its label."""

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
class AttributionShare:
    """Attr% on a set of units, and the share of units in that set: the expected Attr% of random scores."""

    attribution: Estimate
    area: Estimate


@dataclass(frozen=True)
class SelectionQuality:
    """Precision and recall of selections, pooled over the units of all inputs as in Fig. 12 and 13."""

    precision: Estimate
    recall: Estimate
    selection_rate: Estimate  # share of all units that is selected, %Sel
    distractor_rate: Estimate  # share of the selected units that are distractors


def make_case(planted: PlantedExample, rationale: Rationale) -> Case:
    """The case of a planted example and its rationale, on the units of the explained model."""
    example = planted.example
    region, distractors = (
        units_in_region(region, rationale.units, rationale.text) for region in (planted.region, planted.distractors)
    )
    return Case(rationale.scores, region, distractors, str(example.label), example.name)


def attribution_share(scores: Scores, region: Mask) -> float:
    """Attr%(F) = sum_{i in F} |s_i| / sum_i |s_i| (section 3); scores that are all 0 count as equal scores."""
    magnitudes = np.abs(np.asarray(scores, dtype=np.float64))
    largest = magnitudes.max(initial=0.0)
    if largest == 0:
        return area(region)
    magnitudes = magnitudes / largest  # avoids underflow and overflow in the sums
    return float(magnitudes[region].sum() / magnitudes.sum())


def attribution_on_region(cases: Sequence[Case], seed: int = 0) -> AttributionShare:
    """Attr% on the effective region, near 1 for a method that finds the plant; its area is the chance level.

    Inputs with an empty region have no value.
    """
    return _attribution_on([(case.scores, case.region) for case in cases], seed)


def attribution_on_distractors(cases: Sequence[Case], seed: int = 0) -> AttributionShare:
    """Attr% on units that look like the plant but carry no information: near 0 for a method that is not distracted."""
    return _attribution_on([(case.scores, case.distractors) for case in cases], seed)


def attribution_elsewhere(cases: Sequence[Case], seed: int = 0) -> AttributionShare:
    """Attr% on the units outside of both the region and the distractors."""
    return _attribution_on([(case.scores, ~(case.region | case.distractors)) for case in cases], seed)


def attribution_by_label(cases: Sequence[Case], seed: int = 0) -> Mapping[str, AttributionShare]:
    """`attribution_on_region` for each label: inputs with and without the plant are separate questions (section 5)."""
    labels = sorted({case.label for case in cases})
    return {label: attribution_on_region([case for case in cases if case.label == label], seed) for label in labels}


def selection_quality(cases: Sequence[Case], selections: Sequence[Mask], seed: int = 0) -> SelectionQuality:
    """Pr = |F and F_C| / |F| and Re = |F and F_C| / |F_C| of selections F, (n,) bool each (section 3)."""
    counts = np.array(
        [
            (
                (selection & case.region).sum(),
                selection.sum(),
                case.region.sum(),
                (selection & case.distractors).sum(),
                len(selection),
            )
            for case, selection in zip(cases, selections, strict=True)
        ],
        dtype=np.float64,
    ).reshape(-1, 5)
    hits, selected, relevant, distracted, units = counts.T
    return SelectionQuality(
        precision=_pooled_ratio(hits, selected, seed),
        recall=_pooled_ratio(hits, relevant, seed),
        selection_rate=_pooled_ratio(selected, units, seed),
        distractor_rate=_pooled_ratio(distracted, selected, seed),
    )


def top_selections(cases: Sequence[Case], share: float) -> list[Mask]:
    """Select this share of the units of every input by the magnitude of their scores; ties from the left."""
    if not 0 <= share <= 1:
        raise OptionError(f"the share of selected units lies between 0 and 1, not {share}")
    return [_top_units(np.abs(case.scores), round(share * len(case.scores))) for case in cases]


def optimal_selection(
    cases: Sequence[Case], rates: NDArray[np.float64] | Sequence[float], per_input: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The best possible precision and recall at selection rates %Sel in (0, 1]: the lines of Fig. 12 and 13.

    With `per_input` the rate holds for every input (dashed line), else for all inputs together (solid line), so that
    units that one input does not need may be selected in another.
    """
    rates = np.asarray(rates, dtype=np.float64)
    if rates.size and (rates.min() <= 0 or rates.max() > 1):
        raise OptionError("selection rates lie between 0, not included, and 1")
    units = np.array([len(case.region) for case in cases], dtype=np.float64)
    relevant = np.array([case.region.sum() for case in cases], dtype=np.float64)
    if not per_input:
        units, relevant = units.sum(keepdims=True), relevant.sum(keepdims=True)
    hits = np.minimum(rates[..., None] * units, relevant).sum(-1)
    with np.errstate(invalid="ignore"):
        return hits / (rates * units.sum()), hits / relevant.sum()


def _attribution_on(pairs: Sequence[tuple[Scores, Mask]], seed: int) -> AttributionShare:
    values = np.array([attribution_share(scores, mask) if mask.any() else math.nan for scores, mask in pairs])
    areas = np.array([area(mask) if mask.any() else math.nan for _, mask in pairs])
    return AttributionShare(estimate(values, seed=seed), estimate(areas, seed=seed))


def _pooled_ratio(numerators: NDArray[np.float64], denominators: NDArray[np.float64], seed: int) -> Estimate:
    """sum(numerators) / sum(denominators) with its interval; inputs with a denominator of 0 are left out."""
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.where(denominators > 0, numerators / denominators, math.nan)
    return estimate(values, denominators, seed=seed)


def _top_units(magnitudes: Scores, count: int) -> Mask:
    selected = np.zeros(len(magnitudes), dtype=bool)
    selected[np.argsort(-magnitudes, kind="stable")[:count]] = True
    return selected
