"""The search for loss weights (Eq. 4): trials in U(0, 1) for each weight, by Optuna's TPE sampler or at random.

A trial's suggestion is a function of the seed and the results before it, so that an interrupted search goes on as if it
had not been interrupted.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rationales.errors import OptionError
from rationales.masks.instant.aml.example_metrics import HIGHER_IS_BETTER
from rationales.masks.instant.aml.settings import AmlLosses

WEIGHTS = ("prediction_weight", "attribution_weight", "inverse_weight")
INSTALL = "pip install 'rationales[aml]'"


@dataclass(frozen=True)
class WeightTrial:
    """Weights that were tried, and the metrics of the masker that they gave on validation texts."""

    weights: dict[str, float]
    metrics: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def sampler_name(requested: str) -> str:
    """tpe or random; `auto` is tpe where Optuna is installed."""
    installed = importlib.util.find_spec("optuna") is not None
    if requested == "tpe" and not installed:
        raise OptionError(f"search=tpe needs Optuna: {INSTALL}; or set search=random")
    return ("tpe" if installed else "random") if requested == "auto" else requested


def suggest(
    trials: Sequence[WeightTrial], metric: str, sampler: str, seed: int, count: int = 1
) -> list[dict[str, float]]:
    """The weights of the next `count` trials, which are run together: TPE takes them as bad until they have a value."""
    if sampler == "tpe":
        return _suggest_tpe(trials, metric, seed, count)
    return [_suggest_random(number, seed) for number in range(len(trials), len(trials) + count)]


def best_trial(trials: Sequence[WeightTrial], metric: str) -> WeightTrial:
    """The trial with the best metric; the first of equal ones."""
    sign = 1 if HIGHER_IS_BETTER[metric] else -1
    return max(trials, key=lambda trial: sign * trial.metrics[metric])


def ranked_trials(trials: Sequence[WeightTrial], metric: str) -> list[WeightTrial]:
    """The trials from the best metric to the worst; equal ones in the order in which they were made."""
    sign = 1 if HIGHER_IS_BETTER[metric] else -1
    return sorted(trials, key=lambda trial: -sign * trial.metrics[metric])


def with_weights(losses: AmlLosses, weights: Mapping[str, Any]) -> AmlLosses:
    """The losses with other weights; a weight of 0 stays 0, so that a loss that is switched off is not searched."""
    changes: dict[str, Any] = {name: float(value) for name, value in weights.items() if getattr(losses, name)}
    return replace(losses, **changes)


def run_search(
    losses: AmlLosses,
    metric: str,
    count: int,
    run_trial: Callable[[AmlLosses], dict[str, float]],
    *,
    sampler: str,
    seed: int,
    trials: list[WeightTrial],
    stop: Callable[[], bool] = lambda: False,
    on_trial: Callable[[WeightTrial], None] | None = None,
) -> AmlLosses:
    """`losses` with the best weights of `count` trials; `trials` holds those made before, and gets the new ones.

    `stop` ends the search early, after one trial at least.
    """
    while len(trials) < count and not (trials and stop()):
        (weights,) = suggest(trials, metric, sampler, seed)
        trials.append(WeightTrial(weights, run_trial(with_weights(losses, weights))))
        if on_trial is not None:
            on_trial(trials[-1])
    return with_weights(losses, best_trial(trials, metric).weights)


def _suggest_random(number: int, seed: int) -> dict[str, float]:
    values = np.random.default_rng((seed, number)).uniform(size=len(WEIGHTS))
    return {name: float(value) for name, value in zip(WEIGHTS, values, strict=True)}


def _suggest_tpe(trials: Sequence[WeightTrial], metric: str, seed: int, count: int = 1) -> list[dict[str, float]]:
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of the constant liar
            sampler = optuna.samplers.TPESampler(seed=seed + len(trials), constant_liar=count > 1)
        study = optuna.create_study(
            direction="maximize" if HIGHER_IS_BETTER[metric] else "minimize",
            sampler=sampler,
        )
        ranges: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in WEIGHTS
        }
        for trial in trials:
            value = trial.metrics[metric]
            study.add_trial(optuna.trial.create_trial(params=trial.weights, distributions=ranges, value=value))
        return [dict(study.ask(ranges).params) for _ in range(count)]
    finally:
        optuna.logging.set_verbosity(verbosity)
