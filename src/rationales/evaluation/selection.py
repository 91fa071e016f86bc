"""Which units are the rationale: rules that turn scores into a choice, with and without the help of people's marks.

All stand in `SELECTIONS`; each is asked with one `Given` and answers with one (n,) bool array per input. Scores of any
scale are welcome: rules that need keeps in [0, 1] divide the positive part by the input's largest score.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rationales.errors import InputError, OptionError
from rationales.evaluation.curves import Faithfulness
from rationales.evaluation.fitting import LOW, SHARES, Agreement, leave_one_out, share_curve
from rationales.evaluation.plausibility import best_threshold_iou, normalised, top
from rationales.options import suggestion


@dataclass(frozen=True, eq=False)
class Given:
    """What a rule may look at. `scores`: one (n,) array per input; `gold` and `curves` where they are known."""

    scores: Sequence[np.ndarray]
    gold: Sequence[np.ndarray | None] | None = None  # (n,) bool; None for inputs that nobody marked
    curves: Faithfulness | None = None  # of the same inputs
    metric: str = "token-f1"  # what a fitted rule is fitted to
    agreement: Agreement | None = None  # the function behind `metric`, where it is not token-f1 or iou-f1

    def marks(self, rule: str) -> list[np.ndarray | None]:
        """The gold marks, or an error that names the rule which needs them."""
        if self.gold is None or all(one is None for one in self.gold):
            raise InputError(f"selection {rule} needs people's marks, and there are none; use sufficient or keep-sum")
        return list(self.gold)


@dataclass(frozen=True)
class Selection(ABC):
    """A rule. `needs` says whether it looks at marks (then it is an oracle or a fit) or at the model's curves."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()

    def check(self, gold: Sequence[np.ndarray | None]) -> None:
        """Raise an InputError where these marks are not enough for the rule; asked before anything is computed."""
        if "marks" in self.needs:
            Given((), gold).marks(self.name)

    @abstractmethod
    def choose(self, given: Given) -> list[np.ndarray]:
        """One (n,) bool array per input."""


@dataclass(frozen=True)
class Share(Selection):
    """The same share of every input."""

    name: ClassVar[str] = "share"
    summary: ClassVar[str] = "the best share of the units, the same for every input"
    value: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise OptionError(f"selection share lies between 0 and 1, not {self.value}")

    def choose(self, given: Given) -> list[np.ndarray]:
        return [at_share(scores, self.value) for scores in given.scores]


@dataclass(frozen=True)
class Threshold(Selection):
    """All units above a score."""

    name: ClassVar[str] = "threshold"
    summary: ClassVar[str] = "all units that score more than this, on the scale of the scores themselves"
    value: float = 0.5

    def choose(self, given: Given) -> list[np.ndarray]:
        return [np.asarray(scores > self.value) for scores in given.scores]


@dataclass(frozen=True)
class Top(Selection):
    """The same number of units of every input."""

    name: ClassVar[str] = "top"
    summary: ClassVar[str] = "the best k units of every input"
    value: float = 5

    def __post_init__(self) -> None:
        if self.value < 0 or self.value != int(self.value):
            raise OptionError(f"selection top takes a whole number of units, not {self.value}")

    def choose(self, given: Given) -> list[np.ndarray]:
        return [top(scores, int(self.value)) for scores in given.scores]


@dataclass(frozen=True)
class GoldLength(Selection):
    """An oracle of the length, not of the place."""

    name: ClassVar[str] = "gold-length"
    summary: ClassVar[str] = "as many units as people marked of this very input"
    needs: ClassVar[tuple[str, ...]] = ("marks",)

    def choose(self, given: Given) -> list[np.ndarray]:
        return [
            top(scores, 0 if gold is None else int(gold.sum()))
            for scores, gold in zip(given.scores, given.marks(self.name), strict=True)
        ]


@dataclass(frozen=True)
class GoldShare(Selection):
    """ERASER's k_d: one share for the data set."""

    name: ClassVar[str] = "gold-share"
    summary: ClassVar[str] = "the share that people marked on average over all inputs"
    needs: ClassVar[tuple[str, ...]] = ("marks",)

    def choose(self, given: Given) -> list[np.ndarray]:
        share = float(np.mean([gold.mean() for gold in given.marks(self.name) if gold is not None]))
        return [at_share(scores, share) for scores in given.scores]


@dataclass(frozen=True)
class BestThreshold(Selection):
    """One threshold for the data set, chosen by the marks it is judged by."""

    name: ClassVar[str] = "best-threshold"
    summary: ClassVar[str] = "scores over the input's largest, cut at the one threshold with the best mean IoU"
    needs: ClassVar[tuple[str, ...]] = ("marks",)

    def choose(self, given: Given) -> list[np.ndarray]:
        pairs = [
            (gold, scores)
            for gold, scores in zip(given.marks(self.name), given.scores, strict=True)
            if gold is not None and gold.any()
        ]
        threshold, _ = best_threshold_iou([gold for gold, _ in pairs], [scores for _, scores in pairs])
        return [normalised(scores) >= (0.5 if math.isnan(threshold) else threshold) - 1e-12 for scores in given.scores]


@dataclass(frozen=True)
class Fitted(Selection):
    """The share by Nadaraya-Watson regression, leave-one-out (MaRC, appendix A), once for each metric.

    x = share of the words whose score, over the input's largest, is more than 0.1; y = the share (0.01 ... 0.99, the
    smallest of equals) that maximises the metric for this input; the share of input i is the mean of the other inputs'
    y with weights exp(-(x_i - x_j)^2 / 0.05).
    """

    name: ClassVar[str] = "fitted"
    summary: ClassVar[str] = "the share by the paper's leave-one-out kernel regression on people's marks, per metric"
    needs: ClassVar[tuple[str, ...]] = ("marks",)

    def check(self, gold: Sequence[np.ndarray | None]) -> None:
        super().check(gold)
        if sum(marks is not None and bool(marks.any()) for marks in gold) < 2:
            raise InputError("selection fitted learns from the other inputs' marks: give at least two marked inputs")

    def choose(self, given: Given) -> list[np.ndarray]:
        gold = given.marks(self.name)
        self.check(gold)
        use = [number for number, marks in enumerate(gold) if marks is not None and marks.any()]
        x = np.array([float((normalised(scores) > LOW).mean()) for scores in given.scores])
        y = np.full(len(x), np.nan)
        for number in use:
            marks = gold[number]
            if marks is not None:
                curve = share_curve(given.metric, marks, given.scores[number], given.agreement)
                y[number] = SHARES[int(np.argmax(curve))]
        share = leave_one_out(x, y)
        return [at_share(scores, float(own)) for scores, own in zip(given.scores, share, strict=True)]


@dataclass(frozen=True)
class Sufficient(Selection):
    """Needs no marks: the model itself says how much it needs."""

    name: ClassVar[str] = "sufficient"
    summary: ClassVar[str] = "the smallest level whose units alone give the target this share of its probability"
    needs: ClassVar[tuple[str, ...]] = ("model",)
    value: float = 0.9

    def choose(self, given: Given) -> list[np.ndarray]:
        curves = given.curves
        if curves is None:
            raise InputError("selection sufficient reads the sufficiency curve: measure faithfulness too")
        full, kept = curves.full.mean(1), curves.kept.mean(1)
        enough = (kept >= self.value * full[:, None]) & curves.counts
        share = np.where(enough.any(1), np.take_along_axis(curves.share, enough.argmax(1)[:, None], 1)[:, 0], 1.0)
        return [at_share(scores, float(own)) for scores, own in zip(given.scores, share, strict=True)]


@dataclass(frozen=True)
class KeepSum(Selection):
    """Needs no marks: a keep is read as the chance that the unit belongs to the rationale."""

    name: ClassVar[str] = "keep-sum"
    summary: ClassVar[str] = "as many units as the keeps add up to"

    def choose(self, given: Given) -> list[np.ndarray]:
        return [top(scores, int(np.floor(as_keeps(scores).sum() + 0.5))) for scores in given.scores]


@dataclass(frozen=True)
class Otsu(Selection):
    """Needs no marks: the threshold that splits the scores into two groups as unlike as can be (Otsu 1979)."""

    name: ClassVar[str] = "otsu"
    summary: ClassVar[str] = "above the threshold with the largest variance between the two sides"

    def choose(self, given: Given) -> list[np.ndarray]:
        return [top(scores, _otsu(scores)) for scores in given.scores]


@dataclass(frozen=True)
class Gap(Selection):
    """Needs no marks: cuts where neighbours in the order of scores differ most."""

    name: ClassVar[str] = "gap"
    summary: ClassVar[str] = "above the largest gap between two scores that follow each other"

    def choose(self, given: Given) -> list[np.ndarray]:
        return [top(scores, _gap(scores)) for scores in given.scores]


SELECTIONS: dict[str, type[Selection]] = {
    rule.name: rule
    for rule in (
        *(Fitted, GoldLength, GoldShare, BestThreshold),
        *(Sufficient, KeepSum, Otsu, Gap),
        *(Share, Threshold, Top),
    )
}


def selection(wanted: str | Selection) -> Selection:
    """A rule by name, with its number after an equals sign where it has one: fitted, share=0.2, top=10."""
    if isinstance(wanted, Selection):
        return wanted
    name, _, number = wanted.partition("=")
    if name not in SELECTIONS:
        raise OptionError(
            f"there is no selection {name!r}{suggestion(name, SELECTIONS)}; there are: {', '.join(SELECTIONS)}"
        )
    if not number:
        return SELECTIONS[name]()
    try:
        return SELECTIONS[name](value=float(number))  # type: ignore[call-arg]  # those without a number refuse it
    except (TypeError, ValueError):
        raise OptionError(
            f"selection {name} cannot be {wanted!r}; such as share=0.2, threshold=0.5 or top=10"
        ) from None


def at_share(scores: np.ndarray, share: float) -> np.ndarray:
    """(n,) bool: the best ceil(share x n) units, equal scores from the left."""
    return top(scores, math.ceil(share * len(scores) - 1e-9))


def as_keeps(scores: np.ndarray) -> np.ndarray:
    """Scores in [0, 1]: as they are if they lie there, else the positive part over the input's largest."""
    values = np.asarray(scores, dtype=np.float64)
    return values if len(values) and values.min() >= 0 and values.max() <= 1 else normalised(values)


def _otsu(scores: np.ndarray) -> int:
    """How many units lie above the best threshold; all of them where scores are equal."""
    ordered = np.sort(np.asarray(scores, dtype=np.float64))[::-1]
    n = len(ordered)
    above = np.cumsum(ordered)[:-1]
    count = np.arange(1, n)
    difference = above / count - (ordered.sum() - above) / (n - count)
    between = count * (n - count) * difference**2 * (np.diff(ordered) != 0)
    return int(count[np.argmax(between)]) if n > 1 and between.max() > 0 else n


def _gap(scores: np.ndarray) -> int:
    ordered = np.sort(np.asarray(scores, dtype=np.float64))[::-1]
    gaps = -np.diff(ordered)
    return int(np.argmax(gaps)) + 1 if len(gaps) and gaps.max() > 0 else len(ordered)
