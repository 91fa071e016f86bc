"""Guarantees for a model that has learned the plant: its accuracy must exceed a bound, its Shapley values a share.

Zhou et al. 2022, section 4 (binomial bound), section 5.4 (Eq. 1 to 4) and appendix B.6 (Eq. 9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rationales.errors import OptionError

LEVEL = 0.01  # significance level of the reliance test


@dataclass(frozen=True)
class Reliance:
    """The result of the reliance test: whether the accuracy of a model exceeds what the original features allow."""

    correct: int
    n: int
    bound: float
    p_value: float  # upper bound on the probability of at least `correct` correct predictions without the plant
    level: float = LEVEL

    @property
    def accuracy(self) -> float:
        """Accuracy on the test examples."""
        return self.correct / self.n

    @property
    def relies(self) -> bool:
        """Whether the test shows that the model uses the plant."""
        return self.p_value < self.level

    def __str__(self) -> str:
        verdict = "so the model relies on it" if self.relies else "so the model need not rely on it"
        return (
            f"{self.correct} of {self.n} correct ({self.accuracy:.1%}); without the plant at most {self.bound:.1%} "
            f"are expected, p = {self.p_value:.2g}: {verdict}"
        )


def reliance_test(correct: int, n: int, bound: float, level: float = LEVEL) -> Reliance:
    """The binomial test of section 4: P(X >= correct), X ~ Binomial(n, bound), on examples not used in training."""
    if n < 1 or not 0 <= correct <= n:
        raise OptionError(f"{correct} correct predictions of {n} are impossible")
    if not 0 <= bound <= 1:
        raise OptionError(f"the bound is an accuracy, between 0 and 1; not {bound}")
    return Reliance(int(correct), int(n), float(bound), binomial_tail(correct, n, bound), level)


def binomial_tail(k_min: int, n: int, p: float) -> float:
    """P(X >= k_min) of X ~ Binomial(n, p)."""
    if k_min <= 0 or p >= 1:
        return 1.0
    if k_min > n or p <= 0:
        return 0.0
    k = torch.arange(k_min, n + 1, dtype=torch.float64)
    log_binomial = math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    log_probabilities = log_binomial + k * math.log(p) + (n - k) * math.log1p(-p)
    return min(1.0, float(torch.logsumexp(log_probabilities, 0).exp()))


def min_test_size(bound: float, level: float = LEVEL) -> int:
    """How many test examples a perfect model needs to pass the reliance test: the smallest n with bound^n < level."""
    if not 0 <= bound < 1:
        raise OptionError(
            f"with a bound of {bound} no accuracy shows that a model relies on the plant; choose a smaller r"
        )
    return 1 if bound < level else math.floor(math.log(level) / math.log(bound)) + 1


def accuracy_from_feature(feature: NDArray[np.int64], predicted: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """a(F) of Eq. 9 on a sample: how often the prediction for one input is the label of another with the same feature.

    feature, predicted, labels: (N,) integers from 0. a(F) = sum_f P(f) sum_c P(g = c | f) P(y = c | f).
    """
    if not len(feature) == len(predicted) == len(labels) or not len(feature):
        raise OptionError("features, predictions and labels must belong to the same examples, at least one")
    n_classes, n_features = int(max(predicted.max(), labels.max())) + 1, int(feature.max()) + 1
    predicted_counts, label_counts = (
        np.bincount(feature * n_classes + values, minlength=n_features * n_classes).reshape(n_features, n_classes)
        for values in (predicted, labels)
    )
    feature_counts = np.maximum(predicted_counts.sum(1), 1)
    return float(((predicted_counts * label_counts).sum(1) / feature_counts).sum() / len(feature))


def shapley_values(none: float, planted: float, original: float, both: float) -> tuple[float, float]:
    """Eq. 1, 2: the Shapley values of the planted and of the original features, from the accuracy with each set."""
    return 0.5 * (planted - none + both - original), 0.5 * (original - none + both - planted)


def shapley_bounds(
    r: float | NDArray[np.float64], accuracy: float | NDArray[np.float64] = 1.0, none: float = 0.5
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eq. 3, 4: the minimum share of the planted features and the maximum share of the original ones; their sum is 1.

    r: bound on the accuracy by the original features (max(r, 1 - r) for two classes); `accuracy`: p of the model;
    `none`: accuracy without any features, 1/K for K classes. For K = 2: (2p - r - 0.5) / (2p - 1) and
    (r - 0.5) / (2p - 1), clipped to [0, 1]; NaN where p <= none, since there is nothing to share.
    """
    bound, p = np.broadcast_arrays(np.asarray(r, dtype=np.float64), np.asarray(accuracy, dtype=np.float64))
    gained = 2 * (p - none)
    with np.errstate(invalid="ignore", divide="ignore"):
        original = np.where(gained > 0, np.clip((bound - none) / gained, 0, 1), np.nan)
    return 1 - original, original
