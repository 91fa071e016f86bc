"""The two curves that faithfulness is read off, and the metrics computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rationales.evaluation.protocols import Protocol


@dataclass(frozen=True, eq=False)
class FaithfulnessCurves:
    """The curves of B inputs, V views (baselines, or models explained together) and L levels. All float64.

    Probabilities are the target's. Metrics are computed for each view apart, then averaged.
    """

    protocol: Protocol
    target: np.ndarray  # (B,) the class whose probability is measured
    predicted: np.ndarray  # (B,) the class that the model gives to the whole input
    gold: np.ndarray  # (B,) the right class; -1 where it is not known
    full: np.ndarray  # (B, V) the whole input
    empty: np.ndarray  # (B, V) nothing of it
    kept: np.ndarray  # (B, V, L) only the units selected at each level
    removed: np.ndarray  # (B, V, L) all but these
    odds: np.ndarray  # (B, V, L) removed, by the removal that log-odds uses
    share: np.ndarray  # (B, L) the share of units selected
    counts: np.ndarray  # (B, L) bool: the level is part of the result

    def sufficiency(self) -> np.ndarray:
        """(B,): p(input) - p(rationale alone), at the protocol's level or over all; lower is better (MaRC, Eq. 11)."""
        return self._plain(self._lost(self.kept), self.protocol.level, self.full - self.empty, np.zeros_like(self.full))

    def comprehensiveness(self) -> np.ndarray:
        """(B,): p(input) - p(input without the rationale); higher is better (MaRC, Eq. 10)."""
        lost, start, end = self._lost(self.removed), np.zeros_like(self.full), self.full - self.empty
        return self._plain(lost, self.protocol.level, start, end)

    def aopc_sufficiency(self) -> np.ndarray:
        """(B,): sufficiency over all levels, by the protocol's normaliser."""
        return self._plain(self._lost(self.kept), None, self.full - self.empty, np.zeros_like(self.full))

    def aopc_comprehensiveness(self) -> np.ndarray:
        """(B,): comprehensiveness over all levels, by the protocol's normaliser."""
        return self._plain(self._lost(self.removed), None, np.zeros_like(self.full), self.full - self.empty)

    def log_odds(self) -> np.ndarray:
        """(B,): log p(input without the rationale) - log p(input), or of p / (1 - p); lower is better."""
        change = self._log(self.odds) - self._log(self.full)[..., None]
        if self.protocol.empty == "zero":
            change = np.where(self._nothing(), 0.0, change)
        end = self._log(self.empty) - self._log(self.full)
        return self._plain(change, self.protocol.odds_level, np.zeros_like(self.full), end)

    def deletion(self) -> np.ndarray:
        """(B,): the probability while the best units are removed, area or mean; lower is better."""
        return self._curve(self.removed, self.full, self.empty)

    def insertion(self) -> np.ndarray:
        """(B,): the probability while the best units alone are put in, area or mean; higher is better."""
        return self._curve(self.kept, self.empty, self.full)

    def left_out(self) -> np.ndarray:
        """(B,) bool: inputs that the protocol does not measure (wrongly classified ones, where it says so)."""
        wrong: np.ndarray = self.predicted != self.gold
        return wrong if self.protocol.only_correct else np.zeros_like(wrong)

    def _nothing(self) -> np.ndarray:
        return np.asarray(self.share == 0)[:, None, :]

    def _lost(self, probabilities: np.ndarray) -> np.ndarray:
        lost = self.full[..., None] - probabilities
        return np.where(self._nothing(), 0.0, lost) if self.protocol.empty == "zero" else lost

    def _log(self, probabilities: np.ndarray) -> np.ndarray:
        safe = np.clip(probabilities, self.protocol.clip, 1 - self.protocol.clip)
        logged: np.ndarray = np.log(safe) - (np.log1p(-safe) if self.protocol.odds == "odds" else 0.0)
        return logged

    def _plain(self, values: np.ndarray, level: float | None, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """(B, V, L) -> (B,): at one level, or over all of them; `start` and `end` are (B, V) at the shares 0 and 1."""
        if level is not None:
            return self._undefined(values[..., self.protocol.levels.index(level)].mean(1))
        if self.protocol.normaliser == "area":
            return self._undefined(self._area(values, start, end).mean(1))
        number = self.counts.sum(1)
        divided = np.array([self.protocol.divisor(int(levels)) or np.nan for levels in number])
        total = (values * self.counts[:, None, :]).sum(-1).mean(1)
        # no level is left where all were skipped: nothing was measured
        return self._undefined(np.where(number > 0, total / divided, np.nan))

    def _curve(self, probabilities: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        if self.protocol.curve == "area":
            return self._undefined(self._area(probabilities, start, end).mean(1))
        number = self.counts.sum(1)
        mean = (probabilities * self.counts[:, None, :]).sum(-1).mean(1) / np.maximum(number, 1)
        return self._undefined(np.where(number > 0, mean, np.nan))

    def _area(self, values: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """(B, V): trapezoids over the share, from 0 to the last level or to 1, divided by that range."""
        x = np.maximum.accumulate(np.where(self.counts, self.share, 0.0), axis=1)  # levels that do not count are flat
        padded = np.concatenate([start[..., None], values], -1)
        last = np.maximum.accumulate(np.where(self.counts, np.arange(1, x.shape[1] + 1), 0), axis=1)
        y = np.take_along_axis(padded, np.concatenate([np.zeros_like(last[:, :1]), last], 1)[:, None, :], axis=-1)
        x = np.concatenate([np.zeros_like(x[:, :1]), x], 1)
        if self.protocol.to_end:
            x, y = np.concatenate([x, np.ones_like(x[:, :1])], 1), np.concatenate([y, end[..., None]], -1)
        width = np.diff(x, axis=1)[:, None, :]
        total: np.ndarray = ((y[..., 1:] + y[..., :-1]) / 2 * width).sum(-1)
        # nothing was ever selected: the curve never left its start
        return np.where(x[:, -1:] > 0, total / np.maximum(x[:, -1:], 1e-12), start)

    def _undefined(self, values: np.ndarray) -> np.ndarray:
        return np.where(self.left_out(), np.nan, values)


def concatenate_curves(pieces: Sequence[FaithfulnessCurves], order: np.ndarray | None = None) -> FaithfulnessCurves:
    """The pieces as one, in this order or as they come; shorter ones are padded with levels that do not count."""
    levels = max(curves.share.shape[1] for curves in pieces)

    def concatenate(name: str) -> np.ndarray:
        arrays = []
        for curves in pieces:
            values = getattr(curves, name)
            if name in ("kept", "removed", "odds", "share", "counts") and values.shape[-1] < levels:
                padding = [(0, 0)] * (values.ndim - 1) + [(0, levels - values.shape[-1])]
                mode: Any = "constant" if name == "counts" else "edge"
                values = np.pad(values, padding, mode=mode)
            arrays.append(values)
        concatenated: np.ndarray = np.concatenate(arrays)
        return concatenated if order is None else concatenated[order]

    names = ("target", "predicted", "gold", "full", "empty", "kept", "removed", "odds", "share", "counts")
    return FaithfulnessCurves(pieces[0].protocol, **{name: concatenate(name) for name in names})
