"""Stability of explanations: agreement between seeds, and between baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rationales.errors import InputError, OptionError
from rationales.evaluation.faithfulness.removal import with_removal_baseline
from rationales.evaluation.scores.attribution import attribute, predict
from rationales.evaluation.selection.rules import SelectionInputs, SelectionRule, find_selection
from rationales.evaluation.tables.statistics import rank_correlation
from rationales.methods import Method, resolve_method
from rationales.models.model import Model
from rationales.rationale import Rule

TEXT_BASELINES, IMAGE_BASELINES = ("pad", "mask", "unk", "zero"), ("black", "white", "mean", "blur-10")


@dataclass(frozen=True, eq=False)
class Stability:
    """Agreement of several runs on each input, averaged over all pairs of runs; NaN where it is not defined."""

    between: tuple[str, ...]  # the runs
    rank: np.ndarray  # (inputs,) Spearman's correlation of the scores
    iou: np.ndarray  # (inputs,) units that both select over units that one of them does


def selection_iou(first: np.ndarray, second: np.ndarray) -> float:
    """Units that both select over units that at least one does; 1 if neither selects any: they agree."""
    either = np.sum(first | second)
    return float(np.sum(first & second) / either) if either else 1.0


def agreement(runs: Mapping[str, Sequence[np.ndarray]], rule: str | Rule | SelectionRule = "share=0.2") -> Stability:
    """How well runs agree; each run has one (n,) array of scores per input."""
    if len(runs) < 2:
        raise OptionError("agreement needs at least two runs")
    names = tuple(runs)
    selected = {name: find_selection(rule).select(SelectionInputs(runs[name])) for name in names}
    inputs = range(len(runs[names[0]]))
    pairs = list(combinations(names, 2))

    def mean(measure: Callable[..., float], arrays: Mapping[str, Sequence[np.ndarray]]) -> np.ndarray:
        """(inputs,): mean of the measure over all pairs of runs."""
        return np.array([np.mean([measure(arrays[a][i], arrays[b][i]) for a, b in pairs]) for i in inputs])

    return Stability(names, mean(rank_correlation, runs), mean(selection_iou, selected))


def between_seeds(
    model: Model,
    inputs: Sequence[Any],
    method: str = "marc",
    *,
    seeds: Sequence[int] = (0, 1, 2),
    options: Mapping[str, Any] | None = None,
    smooth: float | None = None,
    rule: str | Rule | SelectionRule = "share=0.2",
) -> Stability:
    """Explain the same inputs once with each seed and measure the agreement of the results."""
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
    rule: str | Rule | SelectionRule = "share=0.2",
) -> Stability:
    """Explain the same inputs once with each baseline and measure the agreement of the results.

    By default those of pad, mask, unk and zero that the tokenizer has; for images black, white, mean and blur-10.
    """
    baseline_names = tuple(baselines) if baselines is not None else _default_baselines(model)
    if len(set(baseline_names)) < 2:
        raise OptionError(f"agreement between baselines needs at least two different ones, not {list(baseline_names)}")
    runs = {
        name: _scores(with_removal_baseline(model, name), inputs, method, options, smooth, seed)
        for name in baseline_names
    }
    return agreement(runs, rule)


def _default_baselines(model: Any) -> tuple[str, ...]:
    if model.kind == "image":
        return IMAGE_BASELINES
    available = [name for name in TEXT_BASELINES[:-1] if getattr(model.tokenizer, f"{name}_token_id", None) is not None]
    return (*available, TEXT_BASELINES[-1])


def _scores(
    model: Model,
    inputs: Sequence[Any],
    method: str | Method,
    options: Mapping[str, Any] | None,
    smooth: float | None,
    seed: int,
) -> list[np.ndarray]:
    built_method = resolve_method(method, options, model.kind)
    encoded = model.encode([model.read(item, None) for item in inputs])
    targets = predict(model, encoded).argmax(-1).tolist()
    raw_scores = attribute(model, encoded, built_method, targets, seed=seed, smooth=smooth)
    for item, raw in zip(encoded, raw_scores, strict=True):
        if raw.scores is None:
            raise InputError(f"{model.title(item.source)}: {raw.failure}; leave it out")
    return [raw.scores for raw in raw_scores if raw.scores is not None]
