"""What a method is told after a dry run: found, distracted or missed.

Judged by its gain, for each input (Attr% - area) / (1 - area): 0 is what random scores reach, 1 a perfect scorer.
Inputs of any length and plants of any size can then be judged by one rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rationales.evaluation.statistics import Estimate, estimate
from rationales.groundtruth.metrics import Case, attribution_share
from rationales.groundtruth.regions import Mask, area

FOUND, DISTRACTED, MISSED = "found", "distracted", "missed"
VERDICTS = (FOUND, DISTRACTED, MISSED)
HALF = 0.5  # of the way from chance to a perfect scorer: from here on a plant is found
LEAST = 0.05  # of the way: what is less is chance for all purposes, however narrow its interval
FEWEST = 5  # inputs below which there is no verdict


@dataclass(frozen=True)
class Verdict:
    """One of `VERDICTS`, and what it rests on."""

    name: str
    gain: Estimate  # on the plant
    distraction: Estimate  # the same on what only looks like the plant; without a value where there is no such thing
    sure: bool  # whether the whole interval says the same


def judge(cases: Sequence[Case], seed: int = 0) -> Verdict | None:
    """The verdict on one method's scores; None with fewer than `FEWEST` inputs.

    `missed`: the gain is not above chance (the lower end of its 95 % interval is not above 0, or its mean is below
    `LEAST`). `found`: it is, and its mean is `HALF` or more. `distracted`: it is above chance but less than that, so
    that most of the attribution lies elsewhere; or what only looks like the plant is above chance itself.
    """
    gain = estimate(np.array([gain_on(one.scores, one.region) for one in cases]), seed=seed)
    distraction = estimate(np.array([gain_on(one.scores, one.distractors) for one in cases]), seed=seed)
    if gain.n < FEWEST:
        return None
    if _above(distraction):
        return Verdict(DISTRACTED, gain, distraction, sure=distraction.low >= LEAST)
    name = _name(gain.mean) if _above(gain) else MISSED
    return Verdict(name, gain, distraction, sure=_name(gain.low) == _name(gain.high) == name)


def gain_on(scores: np.ndarray, region: Mask) -> float:
    """(Attr% - area) / (1 - area) of one input; NaN where there is no region or nothing beside it."""
    share = area(region)
    return (attribution_share(scores, region) - share) / (1 - share) if 0 < share < 1 else math.nan


def _above(gain: Estimate) -> bool:
    return gain.n >= FEWEST and gain.low > 0 and gain.mean >= LEAST


def _name(gain: float) -> str:
    return FOUND if gain >= HALF else DISTRACTED if gain >= LEAST else MISSED
