"""The paper's rule for the number of words: a kernel regression on what would have been best for the other inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rationales.errors import OptionError
from rationales.evaluation.agreement.overlap import MIN_SPAN_IOU, runs

SHARES = np.arange(1, 100) / 100  # the grid on which the best share of an input is looked for
KERNEL_WIDTH = 0.05  # exp(-d^2 / KERNEL)
COUNTED_SCORE = 0.1  # words that score more than this are counted for the regression

Agreement = Callable[[np.ndarray, np.ndarray], float]  # (gold, chosen) -> how well they agree


def leave_one_out(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n,): for each input the kernel-weighted mean of the others' y; inputs without y (NaN) teach nothing."""
    known = ~np.isnan(y)
    weight = np.exp(-((x[:, None] - x[None, :]) ** 2) / KERNEL_WIDTH) * known[None, :]
    np.fill_diagonal(weight, 0.0)
    predicted: np.ndarray = weight @ np.where(known, y, 0.0) / weight.sum(1)
    return predicted


def share_curve(metric: str, gold: np.ndarray, scores: np.ndarray, agreement: Agreement | None = None) -> np.ndarray:
    """(99,): how well the best share of the units agrees with the marks, for every share of the grid."""
    counts = np.ceil(SHARES * len(scores) - 1e-9).astype(np.int64)
    rank = np.empty(len(scores), dtype=np.int64)
    rank[np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")] = np.arange(len(scores))
    if agreement is None and metric == "token-f1":
        hits = np.cumsum(gold[np.argsort(rank)])[counts - 1]
        return np.asarray(2 * hits / (gold.sum() + counts))
    selections = rank < counts[:, None]
    if agreement is None and metric == "iou-f1":
        return _iou_f1_of_many(gold, selections)
    if agreement is None:
        raise OptionError(f"a selection cannot be fitted to {metric!r} without its function")
    return np.array([agreement(gold, selected) for selected in selections])


def _iou_f1_of_many(gold: np.ndarray, selected: np.ndarray) -> np.ndarray:
    """(K, n) choices -> (K,): `plausibility.iou_f1` of each, in a few array operations."""
    kinds, n = selected.shape
    marks = runs(gold)
    of_mark = np.full(n, -1)  # the marked span that a unit belongs to
    for number, (start, end) in enumerate(marks):
        of_mark[start:end] = number
    begins = selected & ~np.pad(selected, ((0, 0), (1, 0)))[:, :-1]
    run = np.cumsum(begins.ravel()).reshape(kinds, n) - 1  # numbered over all choices
    run_count = int(begins.sum())
    row_of = np.nonzero(begins)[0]
    length = np.bincount(run[selected], minlength=run_count)
    shared = selected & (of_mark >= 0)
    run_mark = run[shared] * len(marks) + np.broadcast_to(of_mark, selected.shape)[shared]
    run_marks, overlap = np.unique(run_mark, return_counts=True)
    run_index, mark = run_marks // len(marks), run_marks % len(marks)
    size = marks[:, 1] - marks[:, 0]
    matched = overlap >= (MIN_SPAN_IOU - 1e-12) * (length[run_index] + size[mark] - overlap)
    runs_matched = np.bincount(row_of[np.unique(run_index[matched])], minlength=kinds)
    marks_matched = np.bincount(
        np.unique(row_of[run_index[matched]] * len(marks) + mark[matched]) // len(marks), minlength=kinds
    )
    recall, precision = marks_matched / len(marks), runs_matched / np.maximum(np.bincount(row_of, minlength=kinds), 1)
    total = recall + precision
    return np.asarray(2 * recall * precision / np.where(total > 0, total, 1.0))
