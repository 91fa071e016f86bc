"""What must hold of a model that learned the plant: the accuracy it cannot have otherwise, and its Shapley values.

Zhou et al. 2022, section 4 (binomial bound), section 5.4 (Eq. 1 to 4) and appendix B.6 (Eq. 9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rationales.errors import OptionError

LEVEL = 0.01  # below this, chance is no explanation


@dataclass(frozen=True)
class Reliance:
    """Whether a model's accuracy is beyond what the original features allow."""

    correct: int
    n: int
    bound: float
    p: float  # the probability of so many correct answers, or more, without the plant; at most
    level: float = LEVEL

    @property
    def accuracy(self) -> float:
        """On the test part."""
        return self.correct / self.n

    @property
    def relies(self) -> bool:
        """Whether the model must use the plant."""
        return self.p < self.level

    def __str__(self) -> str:
        told = f"{self.correct} of {self.n} correct ({self.accuracy:.1%}); without the plant at most {self.bound:.1%}"
        verdict = "so the model relies on it" if self.relies else "so the model need not rely on it"
        return f"{told} are expected, p = {self.p:.2g}: {verdict}"


def reliance(correct: int, n: int, bound: float, level: float = LEVEL) -> Reliance:
    """The binomial test of section 4: P(X >= correct), X ~ Binomial(n, bound), on examples not trained on."""
    if n < 1 or not 0 <= correct <= n:
        raise OptionError(f"{correct} of {n} correct answers cannot be")
    if not 0 <= bound <= 1:
        raise OptionError(f"the bound is an accuracy, between 0 and 1; not {bound}")
    return Reliance(int(correct), int(n), float(bound), binomial_tail(correct, n, bound), level)


def binomial_tail(least: int, n: int, p: float) -> float:
    """P(X >= least) of X ~ Binomial(n, p)."""
    if least <= 0 or p >= 1:
        return 1.0
    if least > n or p <= 0:
        return 0.0
    k = torch.arange(least, n + 1, dtype=torch.float64)
    total = math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    logs = total + k * math.log(p) + (n - k) * math.log1p(-p)
    return min(1.0, float(torch.logsumexp(logs, 0).exp()))


def smallest_test(bound: float, level: float = LEVEL) -> int:
    """How many test examples a perfect model needs to show its reliance: the least n with bound^n < level."""
    if not 0 <= bound < 1:
        raise OptionError(
            f"with a bound of {bound} no accuracy shows that a model relies on the plant; choose a smaller r"
        )
    return 1 if bound < level else math.floor(math.log(level) / math.log(bound)) + 1


def accuracy_given(feature: NDArray[np.int64], predicted: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """a(F) of Eq. 9 on a sample: how often the prediction on one input is the label of another with the same feature.

    feature, predicted, labels: (N,) whole numbers from 0. a(F) = sum_f P(f) sum_c P(g = c | f) P(y = c | f).
    """
    if not len(feature) == len(predicted) == len(labels) or not len(feature):
        raise OptionError("features, predictions and labels must be of the same examples, one at least")
    classes, features = int(max(predicted.max(), labels.max())) + 1, int(feature.max()) + 1
    size = features * classes
    said, true = (np.bincount(feature * classes + one, minlength=size).reshape(features, classes)
                  for one in (predicted, labels))  # fmt: skip
    count = np.maximum(said.sum(1), 1)
    return float(((said * true).sum(1) / count).sum() / len(feature))


def shapley(none: float, planted: float, original: float, both: float) -> tuple[float, float]:
    """Eq. 1, 2: the Shapley values of the planted and of the original features, from the accuracy with each alone."""
    return 0.5 * (planted - none + both - original), 0.5 * (original - none + both - planted)


def shapley_band(
    r: float | NDArray[np.float64], accuracy: float | NDArray[np.float64] = 1.0, none: float = 0.5
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eq. 3, 4: the least share for the planted features and the largest for the original ones, which add up to 1.

    r: the bound on the accuracy by the original features (max(r, 1 - r) of two classes); `accuracy` p of the model;
    `none` what is right without any features, 1/K of K classes. With K = 2: (2p - r - 0.5) / (2p - 1) and
    (r - 0.5) / (2p - 1), cut to [0, 1]; NaN where p <= none and there is nothing to share out.
    """
    bound, p = np.broadcast_arrays(np.asarray(r, dtype=np.float64), np.asarray(accuracy, dtype=np.float64))
    gained = 2 * (p - none)
    with np.errstate(invalid="ignore", divide="ignore"):
        original = np.where(gained > 0, np.clip((bound - none) / gained, 0, 1), np.nan)
    return 1 - original, original
