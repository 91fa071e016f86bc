"""Probabilities of selections of several sizes; all sizes of all inputs in a few forward passes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rationales.models.batch import Batch
from rationales.rationale import Curve, by_label

SIZES = (0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 0.9, 1)  # shares of the units
KEEPS_AT_ONCE = 2**26  # elements of the keeps in memory at once: 256 MiB
MARGIN = 1e-3  # distance of the first and the last threshold from the scores, as a share of their range


def curve_thresholds(scores: np.ndarray) -> list[float]:
    """Falling thresholds, one for each size: the first is above all scores, the last below all.

    With few units every size has one. Equal scores are selected together, so there can be fewer sizes than `SIZES`.
    """
    n = len(scores)
    ranked = np.sort(scores.astype(np.float32))[::-1]
    counts = np.arange(n + 1) if n < len(SIZES) else np.unique(np.rint(np.asarray(SIZES) * n).astype(int))
    margin = MARGIN * (float(ranked[0] - ranked[-1]) or max(abs(float(ranked[0])), 1.0))
    inner = [float(value) for value in dict.fromkeys(ranked[counts[1:-1]].tolist()) if value < ranked[0]]
    below = min(np.float32(ranked[-1] - margin), np.nextafter(ranked[-1], np.float32(-np.inf)))
    return [float(np.float32(ranked[0] + margin)), *inner, float(below)]


def curve_probabilities(batch: Batch, scores: Sequence[Tensor], thresholds: Sequence[Sequence[float]]) -> Tensor:
    """(2, K, inputs, classes): probabilities of every selection alone, and of its complement.

    K is the largest number of thresholds of an input; for inputs with fewer the last one is repeated.
    """
    sizes = max(map(len, thresholds))
    at_once = max(1, KEEPS_AT_ONCE // (2 * batch.zeros().numel()))
    pieces = []

    def selections(size: int) -> Tensor:
        levels = [by_size[min(size, len(by_size) - 1)] for by_size in thresholds]
        return batch.spread([(values > level).float() for values, level in zip(scores, levels, strict=True)])

    for begin in range(0, sizes, at_once):
        keep = torch.stack([selections(size) for size in range(begin, min(begin + at_once, sizes))])
        predicted = batch.predict(torch.cat([keep, (1 - keep) * batch.rows.real])).cpu()
        pieces.append(predicted.reshape(2, len(keep), *predicted.shape[1:]))
    return torch.cat(pieces, 1)


def curve(labels: Sequence[str], scores: np.ndarray, thresholds: Sequence[float], probabilities: Tensor) -> Curve:
    """The curve of one input; `probabilities` is (2, K, classes), `scores` those of the result."""
    alone, complement = (
        [by_label(labels, values.tolist()) for values in by_size[: len(thresholds)]] for by_size in probabilities
    )
    return Curve(
        tuple(round(float((scores > threshold).mean()), 6) for threshold in thresholds),
        tuple(thresholds),
        {label: tuple(values[label] for values in alone) for label in labels},
        {label: tuple(values[label] for values in complement) for label in labels},
    )
