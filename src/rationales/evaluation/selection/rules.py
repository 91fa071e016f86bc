"""Selection rules: they turn scores into the units of a rationale, with or without people's marks.

`SELECTIONS` lists all of them. Each takes `SelectionInputs` and returns one (n,) bool array per input. Scores may have
any scale: rules that need keeps in [0, 1] divide the positive scores by the input's largest.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from rationales.errors import InputError, OptionError
from rationales.evaluation.agreement.overlap import as_keeps, best_threshold_iou, normalised, top
from rationales.evaluation.faithfulness.curves import FaithfulnessCurves
from rationales.evaluation.selection.fitted_share import COUNTED_SCORE, SHARES, Agreement, leave_one_out, share_curve
from rationales.options import suggestion
from rationales.rationale import Rule


@dataclass(frozen=True, eq=False)
class SelectionInputs:
    """What a rule may look at. `scores`: one (n,) array per input; `gold` and `curves` where they are known."""

    scores: Sequence[np.ndarray]
    gold: Sequence[np.ndarray | None] | None = None  # (n,) bool; None for inputs that nobody marked
    curves: FaithfulnessCurves | None = None  # of the same inputs
    metric: str = "token-f1"  # what a fitted rule is fitted to
    agreement: Agreement | None = None  # the function behind `metric`, where it is not token-f1 or iou-f1

    def marks(self, rule: str) -> list[np.ndarray | None]:
        """The gold marks, or an error that names the rule which needs them."""
        if self.gold is None or all(marks is None for marks in self.gold):
            raise InputError(f"selection {rule} needs people's marks, and there are none; use sufficient or keep-sum")
        return list(self.gold)


@dataclass(frozen=True)
class SelectionRule(ABC):
    """A rule. `needs` says whether it looks at marks (then it is an oracle or a fit) or at the model's curves."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()

    def check(self, gold: Sequence[np.ndarray | None]) -> None:
        """Raise an InputError where these marks are not enough for the rule; called before anything is computed."""
        if "marks" in self.needs:
            SelectionInputs((), gold).marks(self.name)

    @abstractmethod
    def select(self, inputs: SelectionInputs) -> list[np.ndarray]:
        """One (n,) bool array per input."""


@dataclass(frozen=True)
class FixedSelection(SelectionRule):
    """The `Rule` of a rationale (threshold, share or top), the same one for every input."""

    value: float

    def __post_init__(self) -> None:
        _ = self.rule  # checks the value

    @property
    def rule(self) -> Rule:
        """The rule that selects the units of each input."""
        fields: dict[str, Any] = {self.name: self.value}
        return Rule(**fields)

    def select(self, inputs: SelectionInputs) -> list[np.ndarray]:
        return [self.rule.select(scores) for scores in inputs.scores]


@dataclass(frozen=True)
class FixedShare(FixedSelection):
    """The same share of every input."""

    name: ClassVar[str] = "share"
    summary: ClassVar[str] = "the best share of the units, the same for every input"
    value: float = 0.2


@dataclass(frozen=True)
class FixedThreshold(FixedSelection):
    """All units above a score."""

    name: ClassVar[str] = "threshold"
    summary: ClassVar[str] = "all units that score more than this, on the scale of the scores themselves"
    value: float = 0.5


@dataclass(frozen=True)
class FixedTop(FixedSelection):
    """The same number of units of every input."""

    name: ClassVar[str] = "top"
    summary: ClassVar[str] = "the best k units of every input"
    value: float = 5

    @property
    def rule(self) -> Rule:
        if self.value != int(self.value):
            raise OptionError(f"selection top takes a whole number of units, not {self.value}")
        return Rule(top=int(self.value))


@dataclass(frozen=True)
class GoldLength(SelectionRule):
    """An oracle of the length, not of the place."""

    name: ClassVar[str] = "gold-length"
    summary: ClassVar[str] = "as many units as people marked of this very input"
    needs: ClassVar[tuple[str, ...]] = ("marks",)

    def select(self, inputs: SelectionInputs) -> list[np.ndarray]:
        return [
            top(scores, 0 if gold is None else int(gold.sum()))
            for scores, gold in zip(inputs.scores, inputs.marks(self.name), strict=True)
        ]


@dataclass(frozen=True)
class GoldShare(SelectionRule):
    """ERASER's k_d: one share for the data set."""

    name: ClassVar[str] = "gold-share"
    summary: ClassVar[str] = "the share that people marked on average over all inputs"
    needs: ClassVar[tuple[str, ...]] = ("marks",)

    def select(self, inputs: SelectionInputs) -> list[np.ndarray]:
        share = float(np.mean([gold.mean() for gold in inputs.marks(self.name) if gold is not None]))
        return [at_share(scores, share) for scores in inputs.scores]


@dataclass(frozen=True)
class BestThreshold(SelectionRule):
    """One threshold for the data set, chosen by the marks it is judged by."""

    name: ClassVar[str] = "best-threshold"
    summary: ClassVar[str] = "scores over the input's largest, cut at the one threshold with the best mean IoU"
    needs: ClassVar[tuple[str, ...]] = ("marks",)

    def select(self, inputs: SelectionInputs) -> list[np.ndarray]:
        pairs = [
            (gold, scores)
            for gold, scores in zip(inputs.marks(self.name), inputs.scores, strict=True)
            if gold is not None and gold.any()
        ]
        threshold, _ = best_threshold_iou([gold for gold, _ in pairs], [scores for _, scores in pairs])
        return [normalised(scores) >= (0.5 if math.isnan(threshold) else threshold) - 1e-12 for scores in inputs.scores]


@dataclass(frozen=True)
class Fitted(SelectionRule):
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

    def select(self, inputs: SelectionInputs) -> list[np.ndarray]:
        gold = inputs.marks(self.name)
        self.check(gold)
        x = np.array([float((normalised(scores) > COUNTED_SCORE).mean()) for scores in inputs.scores])
        y = np.full(len(x), np.nan)
        for number, marks in enumerate(gold):
            if marks is not None and marks.any():
                curve = share_curve(inputs.metric, marks, inputs.scores[number], inputs.agreement)
                y[number] = SHARES[int(np.argmax(curve))]
        share = leave_one_out(x, y)
        return [at_share(scores, float(input_share)) for scores, input_share in zip(inputs.scores, share, strict=True)]


@dataclass(frozen=True)
class Sufficient(SelectionRule):
    """Needs no marks: the model itself says how much it needs."""

    name: ClassVar[str] = "sufficient"
    summary: ClassVar[str] = "the smallest level whose units alone give the target this share of its probability"
    needs: ClassVar[tuple[str, ...]] = ("model",)
    value: float = 0.9

    def select(self, inputs: SelectionInputs) -> list[np.ndarray]:
        curves = inputs.curves
        if curves is None:
            raise InputError("selection sufficient reads the sufficiency curve: measure faithfulness too")
        full, kept = curves.full.mean(1), curves.kept.mean(1)
        enough = (kept >= self.value * full[:, None]) & curves.counts
        share = np.where(enough.any(1), np.take_along_axis(curves.share, enough.argmax(1)[:, None], 1)[:, 0], 1.0)
        return [at_share(scores, float(input_share)) for scores, input_share in zip(inputs.scores, share, strict=True)]


@dataclass(frozen=True)
class KeepSum(SelectionRule):
    """Needs no marks: a keep is read as the chance that the unit belongs to the rationale."""

    name: ClassVar[str] = "keep-sum"
    summary: ClassVar[str] = "as many units as the keeps add up to"

    def select(self, inputs: SelectionInputs) -> list[np.ndarray]:
        return [top(scores, int(np.floor(as_keeps(scores).sum() + 0.5))) for scores in inputs.scores]


@dataclass(frozen=True)
class Otsu(SelectionRule):
    """Needs no marks: the threshold that splits the scores into two groups as unlike as can be (Otsu 1979)."""

    name: ClassVar[str] = "otsu"
    summary: ClassVar[str] = "above the threshold with the largest variance between the two sides"

    def select(self, inputs: SelectionInputs) -> list[np.ndarray]:
        return [top(scores, _otsu(scores)) for scores in inputs.scores]


@dataclass(frozen=True)
class Gap(SelectionRule):
    """Needs no marks: cuts where neighbours in the order of scores differ most."""

    name: ClassVar[str] = "gap"
    summary: ClassVar[str] = "above the largest gap between two scores that follow each other"

    def select(self, inputs: SelectionInputs) -> list[np.ndarray]:
        return [top(scores, _gap(scores)) for scores in inputs.scores]


FIXED_SELECTIONS: dict[str, type[FixedSelection]] = {rule.name: rule for rule in (FixedShare, FixedThreshold, FixedTop)}
_RULES = (Fitted, GoldLength, GoldShare, BestThreshold, Sufficient, KeepSum, Otsu, Gap)
SELECTIONS: dict[str, type[SelectionRule]] = {**{rule.name: rule for rule in _RULES}, **FIXED_SELECTIONS}


def find_selection(rule: str | Rule | SelectionRule) -> SelectionRule:
    """A selection by name, with its number after an equals sign where it has one (fitted, share=0.2, top=10); or of the
    rule that a rationale has."""
    if isinstance(rule, SelectionRule):
        return rule
    if isinstance(rule, Rule):
        (name, number), *_ = ((name, number) for name, number in asdict(rule).items() if number is not None)
        return FIXED_SELECTIONS[name](number)
    name, _, text = rule.partition("=")
    if name not in SELECTIONS:
        known = ", ".join(SELECTIONS)
        raise OptionError(f"there is no selection {name!r}{suggestion(name, SELECTIONS)}; there are: {known}")
    if not text:
        return SELECTIONS[name]()
    try:
        return SELECTIONS[name](value=float(text))  # type: ignore[call-arg]  # those without a number refuse it
    except (TypeError, ValueError):
        raise OptionError(f"selection {name} cannot be {rule!r}; such as share=0.2, threshold=0.5 or top=10") from None


def at_share(scores: np.ndarray, share: float) -> np.ndarray:
    """(n,) bool: the best ceil(share x n) units, equal scores from the left."""
    return Rule(share=share).select(np.asarray(scores, dtype=np.float64))


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
