"""Would the explanation be the same again? Agreement between seeds, and between baselines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rationales.errors import InputError, OptionError
from rationales.evaluation.attribution import attribute, predict
from rationales.evaluation.removal import without
from rationales.evaluation.selection import Given, Selection, Share, selection
from rationales.methods import build
from rationales.models.model import Model

TEXT_BASELINES, IMAGE_BASELINES = ("pad", "mask", "unk", "zero"), ("black", "white", "mean", "blur-10")


@dataclass(frozen=True, eq=False)
class Stability:
    """How well several runs agree on each input, the mean over all pairs of runs. NaN where it is not defined."""

    between: tuple[str, ...]  # the runs
    rank: np.ndarray  # (inputs,) Spearman's correlation of the scores
    iou: np.ndarray  # (inputs,) units that both select over units that one of them does


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's rho: the correlation of the ranks, equal scores sharing theirs; NaN if one side is constant."""
    if np.shape(one) != np.shape(other):
        raise OptionError(f"{np.shape(one)} scores cannot be compared with {np.shape(other)}")
    first, second = (_ranks(values) for values in (one, other))
    first, second = first - first.mean(), second - second.mean()
    size = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / size if size > 0 else math.nan


def selection_iou(one: np.ndarray, other: np.ndarray) -> float:
    """Units that both select over units that at least one does; 1 if neither selects any: they agree."""
    either = np.sum(one | other)
    return float(np.sum(one & other) / either) if either else 1.0


def agreement(runs: Mapping[str, Sequence[np.ndarray]], rule: str | Selection = "share=0.2") -> Stability:
    """How well runs agree; each run has one (n,) array of scores per input."""
    if len(runs) < 2:
        raise OptionError("agreement needs at least two runs")
    names = tuple(runs)
    chosen = {name: selection(rule).choose(Given(runs[name])) for name in names}
    inputs = range(len(runs[names[0]]))
    pairs = list(combinations(names, 2))

    def mean(measure: Callable[[np.ndarray, np.ndarray], float], of: Mapping[str, Sequence[np.ndarray]]) -> np.ndarray:
        return np.array([np.mean([measure(of[a][number], of[b][number]) for a, b in pairs]) for number in inputs])

    return Stability(names, mean(rank_correlation, runs), mean(selection_iou, chosen))


def between_seeds(
    model: Model,
    inputs: Sequence[Any],
    method: str = "marc",
    *,
    seeds: Sequence[int] = (0, 1, 2),
    options: Mapping[str, Any] | None = None,
    smooth: float | None = None,
    rule: str | Selection = "share=0.2",
) -> Stability:
    """Explain the same inputs once with each seed, and see how well the results agree."""
    if len(set(seeds)) < 2:
        raise OptionError(f"agreement between seeds needs at least two different ones, not {list(seeds)}")
    return agreement({str(seed): _scores(model, inputs, method, options, smooth, seed) for seed in seeds}, rule)


def between_baselines(
    model: Model,
    inputs: Sequence[Any],
    method: str = "marc",
    *,
    baselines: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    smooth: float | None = None,
    seed: int = 0,
    rule: str | Selection = Share(0.2),  # noqa: B008  # frozen, so that one for all calls does no harm
) -> Stability:
    """Explain the same inputs once with each baseline, and see how well the results agree.

    By default those of pad, mask, unk and zero that the tokenizer has; for pictures black, white, mean and blur-10.
    """
    chosen = tuple(baselines) if baselines is not None else _usual(model)
    if len(set(chosen)) < 2:
        raise OptionError(f"agreement between baselines needs at least two different ones, not {list(chosen)}")
    runs = {name: _scores(without(model, name), inputs, method, options, smooth, seed) for name in chosen}
    return agreement(runs, rule)


def _usual(model: Any) -> tuple[str, ...]:
    if model.kind == "image":
        return IMAGE_BASELINES
    had = [name for name in TEXT_BASELINES[:-1] if getattr(model.tokenizer, f"{name}_token_id", None) is not None]
    return (*had, TEXT_BASELINES[-1])


def _scores(
    model: Model,
    inputs: Sequence[Any],
    method: str,
    options: Mapping[str, Any] | None,
    smooth: float | None,
    seed: int,
) -> list[np.ndarray]:
    built = build(method, dict(options or {}), model.kind)
    encoded = model.encode([model.read(one, None) for one in inputs])
    targets = predict(model, encoded).argmax(-1).tolist()
    found = attribute(model, encoded, built, targets, seed=seed, smooth=smooth)
    for one, own in zip(encoded, found, strict=True):
        if own.scores is None:
            raise InputError(f"{model.title(one.source)}: {own.failure}; leave it out")
    return [own.scores for own in found if own.scores is not None]


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, equal values sharing the mean of theirs."""
    _, inverse, count = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    shared: np.ndarray = (last - (count - 1) / 2)[inverse]
    return shared
