"""Agreement of runs: rank correlation of scores and overlap of rationales, for every pair of runs and every input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rationales.errors import OptionError


@dataclass(frozen=True, eq=False)
class RunAgreement:
    """How R runs agree on B inputs. Matrices are symmetric; values that are not defined are NaN."""

    rank: np.ndarray  # (R, R, B) Spearman's correlation of the scores
    iou: np.ndarray  # (R, R, B) units that both runs select over units that one of them selects
    chance: np.ndarray  # (R, R, B) expected overlap of random selections of the same sizes

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The numbers of every two different runs."""
        return list(combinations(range(len(self.rank)), 2))

    def per_input(self, values: np.ndarray, pairs: Sequence[tuple[int, int]] | None = None) -> np.ndarray:
        """(R, R, B) -> (B,): mean over pairs of runs where the value is defined; NaN where it is for none."""
        chosen_pairs = self.pairs if pairs is None else list(pairs)
        rows = np.array([values[first, second] for first, second in chosen_pairs]).reshape(-1, values.shape[-1])
        return mean_of_defined(rows)


def mean_of_defined(rows: np.ndarray) -> np.ndarray:
    """(P, B) -> (B,): mean over the first axis without NaN; NaN where nothing is defined."""
    defined = ~np.isnan(rows)
    count = defined.sum(0)
    total = np.where(defined, rows, 0.0).sum(0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def selection_iou(first: np.ndarray, second: np.ndarray) -> float:
    """Units that both select over units that at least one does; 1 if neither selects any: they agree."""
    either = np.sum(first | second)
    return float(np.sum(first & second) / either) if either else 1.0


def chance_iou(first: int, second: int, units: int) -> float:
    """Overlap of two random selections of these sizes: their expected intersection ab/n over the rest of a + b."""
    shared = first * second / units if units else 0.0
    either = first + second - shared
    return shared / either if either else 1.0


def rank_matrix(scores: np.ndarray) -> np.ndarray:
    """(R, n) -> (R, R): Spearman's correlation of every two rows, each ranked once; NaN for a constant row."""
    from scipy.stats import rankdata  # imported here: it takes longer than all of `import rationales`

    ranks = rankdata(scores, axis=1)
    centred = ranks - ranks.mean(1, keepdims=True)
    norms = np.sqrt((centred**2).sum(1))
    centred = centred / np.where(norms > 0, norms, np.nan)[:, None]
    correlations: np.ndarray = np.clip(centred @ centred.T, -1.0, 1.0)
    return correlations


def agreement(scores: Sequence[Sequence[np.ndarray]], selections: Sequence[Sequence[np.ndarray]]) -> RunAgreement:
    """How runs agree; `scores` and `selections` hold for each run one (n,) array per input."""
    runs, inputs = len(scores), len(scores[0]) if scores else 0
    if runs < 1 or any(len(run) != inputs for run in (*scores, *selections)):
        raise OptionError("agreement needs at least one run, and the same inputs in all of them")
    rank, iou, chance = (np.ones((runs, runs, inputs)) for _ in range(3))
    for number in range(inputs):
        rank[:, :, number] = rank_matrix(np.stack([run[number] for run in scores]))
        selected = np.stack([run[number] for run in selections]).astype(np.float64)  # (R, n)
        shared, sizes = selected @ selected.T, selected.sum(1)
        either = sizes[:, None] + sizes[None, :] - shared
        iou[:, :, number] = np.where(either > 0, shared / np.maximum(either, 1.0), 1.0)
        units = selected.shape[1]
        chance[:, :, number] = [[chance_iou(int(a), int(b), units) for b in sizes] for a in sizes]
    return RunAgreement(rank, iou, chance)
