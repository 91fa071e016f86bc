"""The verdict on a method after a dry run: found, distracted or missed.

It depends on the gain of each input, (Attr% - area) / (1 - area): 0 for random scores, 1 for perfect scores. The gain
makes inputs of any length and plants of any size comparable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rationales.evaluation.tables.statistics import Estimate, estimate
from rationales.groundtruth.metrics import Case, attribution_share
from rationales.groundtruth.plants.regions import Mask, area

FOUND, DISTRACTED, MISSED = "found", "distracted", "missed"
VERDICTS = (FOUND, DISTRACTED, MISSED)
FOUND_GAIN = 0.5  # mean gain from which a plant counts as found
CHANCE_GAIN = 0.05  # mean gain below which a result counts as chance, however narrow its interval
MIN_INPUTS = 5  # there is no verdict with fewer inputs


@dataclass(frozen=True)
class MethodVerdict:
    """One of `VERDICTS` with the estimates it is based on."""

    name: str
    gain: Estimate  # on the plant
    distraction: Estimate  # gain on the distractors; without a value where there are none
    certain: bool  # whether both ends of the interval give the same verdict


def judge(cases: Sequence[Case], seed: int = 0) -> MethodVerdict | None:
    """The verdict on the scores of one method; None with fewer than `MIN_INPUTS` inputs.

    `missed`: the gain is not above chance (the lower end of its 95 % interval is not above 0, or its mean is below
    `CHANCE_GAIN`). `found`: it is above chance, and its mean is at least `FOUND_GAIN`. `distracted`: it is above chance
    but lower, so that most of the attribution lies elsewhere; or the gain on the distractors is above chance.
    """
    gain = estimate(np.array([attribution_gain(case.scores, case.region) for case in cases]), seed=seed)
    distraction = estimate(np.array([attribution_gain(case.scores, case.distractors) for case in cases]), seed=seed)
    if gain.n < MIN_INPUTS:
        return None
    if _above_chance(distraction):
        return MethodVerdict(DISTRACTED, gain, distraction, certain=distraction.low >= CHANCE_GAIN)
    name = _verdict_name(gain.mean) if _above_chance(gain) else MISSED
    certain = _verdict_name(gain.low) == _verdict_name(gain.high) == name
    return MethodVerdict(name, gain, distraction, certain=certain)


def attribution_gain(scores: np.ndarray, region: Mask) -> float:
    """(Attr% - area) / (1 - area) of one input; NaN if the region is empty or covers all units."""
    share = area(region)
    return (attribution_share(scores, region) - share) / (1 - share) if 0 < share < 1 else math.nan


def _above_chance(gain: Estimate) -> bool:
    return gain.n >= MIN_INPUTS and gain.low > 0 and gain.mean >= CHANCE_GAIN


def _verdict_name(gain: float) -> str:
    return FOUND if gain >= FOUND_GAIN else DISTRACTED if gain >= CHANCE_GAIN else MISSED
