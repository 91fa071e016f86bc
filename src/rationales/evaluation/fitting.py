"""The paper's rule for the number of words: a kernel regression on what would have been best for the other inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rationales.errors import OptionError
from rationales.evaluation.plausibility import OVERLAP, runs

SHARES = np.arange(1, 100) / 100  # the grid on which the best share of an input is looked for
KERNEL = 0.05  # exp(-d^2 / KERNEL)
LOW = 0.1  # words that score more than this are counted for the regression

Agreement = Callable[[np.ndarray, np.ndarray], float]  # (gold, chosen) -> how well they agree


def leave_one_out(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n,): for each input the kernel-weighted mean of the others' y; inputs without y (NaN) teach nothing."""
    known = ~np.isnan(y)
    weight = np.exp(-((x[:, None] - x[None, :]) ** 2) / KERNEL) * known[None, :]
    np.fill_diagonal(weight, 0.0)
    found: np.ndarray = weight @ np.where(known, y, 0.0) / weight.sum(1)
    return found


def share_curve(metric: str, gold: np.ndarray, scores: np.ndarray, agreement: Agreement | None = None) -> np.ndarray:
    """(99,): how well the best share of the units agrees with the marks, for every share of the grid."""
    counts = np.ceil(SHARES * len(scores) - 1e-9).astype(np.int64)
    rank = np.empty(len(scores), dtype=np.int64)
    rank[np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")] = np.arange(len(scores))
    if agreement is None and metric == "token-f1":
        hits = np.cumsum(gold[np.argsort(rank)])[counts - 1]
        return np.asarray(2 * hits / (gold.sum() + counts))
    chosen = rank < counts[:, None]
    if agreement is None and metric == "iou-f1":
        return _iou_f1_of_many(gold, chosen)
    if agreement is None:
        raise OptionError(f"a selection cannot be fitted to {metric!r} without its function")
    return np.array([agreement(gold, own) for own in chosen])


def _iou_f1_of_many(gold: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """(K, n) choices -> (K,): `plausibility.iou_f1` of each, in a few array operations."""
    kinds, n = chosen.shape
    marks = runs(gold)
    of_mark = np.full(n, -1)  # the marked span that a unit belongs to
    for number, (start, end) in enumerate(marks):
        of_mark[start:end] = number
    begins = chosen & ~np.pad(chosen, ((0, 0), (1, 0)))[:, :-1]
    run = np.cumsum(begins.ravel()).reshape(kinds, n) - 1  # numbered over all choices
    total = int(begins.sum())
    row_of = np.nonzero(begins)[0]
    length = np.bincount(run[chosen], minlength=total)
    shared = chosen & (of_mark >= 0)
    pair = run[shared] * len(marks) + np.broadcast_to(of_mark, chosen.shape)[shared]
    pairs, overlap = np.unique(pair, return_counts=True)
    own, mark = pairs // len(marks), pairs % len(marks)
    size = marks[:, 1] - marks[:, 0]
    good = overlap >= (OVERLAP - 1e-12) * (length[own] + size[mark] - overlap)
    right = np.bincount(row_of[np.unique(own[good])], minlength=kinds)
    found = np.bincount(np.unique(row_of[own[good]] * len(marks) + mark[good]) // len(marks), minlength=kinds)
    recall, precision = found / len(marks), right / np.maximum(np.bincount(row_of, minlength=kinds), 1)
    both = recall + precision
    return np.asarray(2 * recall * precision / np.where(both > 0, both, 1.0))
