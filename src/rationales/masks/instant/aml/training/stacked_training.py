"""The course of a pretraining whose networks are trained together: the trials of a round, then a network per metric."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rationales.errors import DataError, InputError
from rationales.masks.instant.aml.example_metrics import HIGHER_IS_BETTER
from rationales.masks.instant.aml.masker import AmlCard, AmlMasker
from rationales.masks.instant.aml.masking import MapProblem
from rationales.masks.instant.aml.settings import AmlLosses
from rationales.masks.instant.aml.training.network_stack import NetworkStack, stacked_losses
from rationales.masks.instant.aml.training.training_run import SEARCH_TIME_SHARE, TrainingRun, seeded
from rationales.masks.instant.aml.training.training_texts import TextGroup, TrainingTexts
from rationales.masks.instant.aml.training.weight_search import WeightTrial, best_trial, suggest, with_weights

ROUND_TRIALS = 5  # of each metric, suggested before any of them has a value
STEP_TOKENS = 50_000  # of all networks, in a training step
VALIDATION_TOKENS = 200_000  # of all networks, in a pass without gradients


@dataclass(frozen=True)
class FinalTraining:
    """A network that is trained for a metric, with the weights of its best trial (rank 0) or of the next best."""

    metric: str
    rank: int
    losses: AmlLosses

    @property
    def key(self) -> str:
        """Name in the state of a training."""
        return f"{self.metric}/{self.rank}"


def train_maskers_together(run: TrainingRun, card: AmlCard) -> dict[str, AmlMasker]:
    """Metric -> its masker: what `TrainingRun.masker_for` gives, with the networks of all metrics side by side."""
    if run.settings.trials and not run.state.values.get("ended_searches"):
        _search(run)
        run.state.values["ended_searches"] = list(run.metrics)
    _train(run)
    return {metric: run.trained_masker(metric, card) for metric in run.metrics}


def _search(run: TrainingRun) -> None:
    """The trials of all metrics; every round trains the next ones of each."""
    settings = run.settings
    limit = 60 * settings.minutes * SEARCH_TIME_SHARE
    shared = run.sampler == "random"  # one search for all metrics
    searched = run.metrics[:1] if shared else run.metrics
    while any(len(run.trials_of(metric)) < settings.trials for metric in searched):
        if limit and run.trials_of(searched[0]) and time.monotonic() - run.start_time > limit:
            break
        suggestions: dict[str, list[dict[str, float]]] = {}
        for metric in searched:
            stored = run.trials_of(metric)
            count = min(run.settings.networks if shared else ROUND_TRIALS, settings.trials - len(stored))
            known = [WeightTrial(**values) for values in stored]
            suggestions[metric] = suggest(known, metric, run.sampler, settings.seed, count)
        distinct = list(
            {tuple(weights.values()): weights for line in suggestions.values() for weights in line}.values()
        )
        measured = {
            tuple(weights.values()): run.metrics
            if shared
            else tuple(metric for metric, line in suggestions.items() if weights in line)
            for weights in distinct
        }
        values = _run_trials(run, distinct, [measured[tuple(weights.values())] for weights in distinct])
        by_weights = {tuple(weights.values()): value for weights, value in zip(distinct, values, strict=True)}
        reports: list[tuple[str, int, float, bool]] = []
        for metric, line in suggestions.items():
            stored = run.trials_of(metric)
            for weights in line:
                metrics = by_weights[tuple(weights.values())]
                trial_values = metrics if shared else {metric: metrics[metric]}
                stored.append(WeightTrial(weights, trial_values).to_dict())
                best = stored[-1] == best_trial([WeightTrial(**item) for item in stored], metric).to_dict()
                reports.append((metric, len(stored), metrics[metric], best))
        run.state.write()
        run.advance(len(reports) * run.trial_cost)
        for metric, number, value, best in reports:
            run.report("search", metric, number, settings.trials, math.nan, value, best)


def _run_trials(
    run: TrainingRun, weights: Sequence[Mapping[str, float]], metrics: Sequence[Sequence[str]]
) -> list[dict[str, float]]:
    """The metrics of short trainings with these loss weights, as many at once as `networks` and memory allow."""
    values: list[dict[str, float]] = []
    at_once = _networks_at_once(run, run.trial_texts)
    for begin in range(0, len(weights), at_once):
        losses = [with_weights(run.losses, item) for item in weights[begin : begin + at_once]]
        stack = NetworkStack(run.new_network(run.losses), len(losses))
        optimiser = _optimiser(run, stack)
        progress = {"epoch": 0, "step": 0}
        steps = run.settings.trial_epochs * max(1, _steps(run, run.trial_texts))
        for _ in range(run.settings.trial_epochs):
            _epoch(run, stack, losses, run.trial_texts, optimiser, progress, steps)
        requested = metrics[begin : begin + at_once]
        values += _validate(run, stack, requested)
    return values


def _train(run: TrainingRun) -> None:
    """Train the networks of all metrics: those of the best trials first, as many at once as memory allows."""
    at_once = _networks_at_once(run, run.training)
    while True:
        candidates = {metric: run.finalists(metric) for metric in run.metrics}
        ended = {metric: len(run.ended_trainings(metric)) for metric in run.metrics}
        pending = [
            FinalTraining(metric, rank, losses)
            for rank in range(run.settings.finalists)
            for metric, lines in candidates.items()
            for losses in lines[rank : rank + 1]
            if rank >= ended[metric] and not (rank and run.late())
        ]
        if not pending:
            return
        trainings = pending[:at_once]
        best, figures = _train_group(run, trainings)
        for training in trainings:
            run.end_training(training.metric, training.losses, figures[training.key], best[training.key])


def _train_group(
    run: TrainingRun, trainings: Sequence[FinalTraining]
) -> tuple[dict[str, dict[str, Tensor]], dict[str, dict[str, Any]]]:
    """Key -> the weights of the best checkpoint, and figures of the training; each stops on its own."""
    settings, losses = run.settings, [training.losses for training in trainings]
    stack = NetworkStack(run.new_network(run.losses), len(trainings))
    optimiser = _optimiser(run, stack)
    progress: dict[str, Any] = {"epoch": 0, "step": 0}
    marks: dict[str, dict[str, Any]] = {
        training.key: {"epoch": 0, "best_epoch": 0, "last_gain": 0, "best": None, "history": []}
        for training in trainings
    }
    best: dict[str, dict[str, Tensor]] = {training.key: {} for training in trainings}
    stored, best_weights = run.state.take_training(stack, optimiser)
    if stored:
        progress, marks = stored["progress"], stored["marks"]
        best = {training.key: _group(best_weights, training.key) for training in trainings}
        run.done += len(trainings) * progress["epoch"]
    steps = settings.epochs * max(1, _steps(run, run.training))
    while progress["epoch"] < settings.epochs and not all(run.ends(marks[item.key], item.metric) for item in trainings):
        epoch_losses = _epoch(run, stack, losses, run.training, optimiser, progress, steps)
        values = _validate(run, stack, [(training.metric,) for training in trainings])
        reports: list[tuple[FinalTraining, float, float, bool]] = []
        for number, training in enumerate(trainings):
            mark, metric = marks[training.key], training.metric
            if run.ends(mark, metric):
                run.done += 1
                continue
            mark["epoch"] = progress["epoch"]
            value = values[number][metric]
            sign = 1 if HIGHER_IS_BETTER[metric] else -1
            gain = sign * (value - mark["best"]) if mark["best"] is not None else math.inf
            improved = math.isfinite(value) and gain >= 0
            mark["history"].append(round(value, 6))
            if improved:
                mark |= {"best": value, "best_epoch": progress["epoch"]}
                mark["last_gain"] = progress["epoch"] if gain > 0 else mark["last_gain"]
                best[training.key] = stack.weights_of(number)
            reports.append((training, epoch_losses[number], value, improved))
        if run.state.path is not None:
            flat = {f"{key}.{name}": weight for key, group in best.items() for name, weight in group.items()}
            run.state.put_training(stack, optimiser, flat, {"progress": progress, "marks": marks})
        run.advance(len(reports))
        for training, loss, value, improved in reports:
            epoch = progress["epoch"]
            run.report("training", training.metric, epoch, settings.epochs, loss, value, improved, training.rank)
    run.done += len(trainings) * (settings.epochs - progress["epoch"])
    if not all(best.values()):
        raise InputError("the training found no finite metric; lower learning_rate, or check the model's weights")
    run.state.finish_training()
    figures = {
        key: {
            "epochs": mark["epoch"],
            "best_epoch": mark["best_epoch"],
            "value": round(mark["best"], 6),
            "history": mark["history"],
        }
        for key, mark in marks.items()
    }
    return best, figures


def _group(weights: Mapping[str, Tensor], key: str) -> dict[str, Tensor]:
    start = f"{key}."
    return {name[len(start) :]: weight for name, weight in weights.items() if name.startswith(start)}


def _optimiser(run: TrainingRun, stack: NetworkStack) -> torch.optim.Optimizer:
    settings = run.settings
    return torch.optim.AdamW(stack.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)


def _steps(run: TrainingRun, texts: TrainingTexts) -> int:
    return texts.steps(run.settings.inputs, run.settings.tokens)


def _networks_at_once(run: TrainingRun, texts: TrainingTexts) -> int:
    longest = max((max(bucket.token_counts) for bucket in texts.buckets), default=1)
    tokens = min(longest * run.settings.inputs, max(longest, run.settings.tokens))
    return max(1, min(run.settings.networks, STEP_TOKENS // max(1, tokens)))


def _epoch(
    run: TrainingRun,
    stack: NetworkStack,
    losses: Sequence[AmlLosses],
    texts: TrainingTexts,
    optimiser: torch.optim.Optimizer,
    progress: dict[str, Any],
    steps: int,
) -> list[float]:
    """One pass over the texts; the mean loss of each network."""
    settings, seed = run.settings, run.settings.seed * 1009 + progress["epoch"]
    total, count = torch.zeros(len(losses), device=run.batch.device), 0
    stack.train(settings.dropout)
    with seeded(seed, run.validation.model):
        for group in texts.random_groups(settings.inputs, settings.tokens, seed):
            for param_group in optimiser.param_groups:
                param_group["lr"] = settings.learning_rate * max(0.0, 1 - progress["step"] / steps)
            problem = group.problem(losses[0], None, settings.other_target_share, progress["step"])
            values = group.bucket.batch.fit(partial(_backward, stack, group, problem, losses))
            optimiser.step()
            progress["step"] += 1
            total, count = total + values.sum(1), count + values.shape[1]
    if not count:
        raise DataError("the tokenizer returns no tokens for any of the training texts")
    progress["epoch"] += 1
    return [float(value) for value in (total / count).tolist()]


def _backward(stack: NetworkStack, group: TextGroup, problem: MapProblem, losses: Sequence[AmlLosses]) -> Tensor:
    """(K, I): the losses; each network's weights get the gradient of the mean of its own."""
    stack.zero_grad(set_to_none=True)
    values = stacked_losses(problem, stack(group.windows, problem.y, losses[0].merge), losses)
    torch.autograd.backward(values.mean(1).sum())
    return values.detach()


def _validate(run: TrainingRun, stack: NetworkStack, metrics: Sequence[Sequence[str]]) -> list[dict[str, float]]:
    """Of each network the means of its metrics over the validation texts."""
    stack.eval()
    values: list[dict[str, list[Tensor]]] = [{metric: [] for metric in line} for line in metrics]
    network_numbers = torch.arange(stack.count, device=run.batch.device)
    with torch.no_grad():
        for group in run.validation.groups():
            problem = group.problem(run.losses, None)
            at_once = max(1, VALIDATION_TOKENS // max(1, group.windows.ids.numel()))
            maps = torch.cat(
                [
                    stack.maps_of(network_numbers[start : start + at_once], group.windows, problem.y, run.losses.merge)
                    for start in range(0, stack.count, at_once)
                ]
            )  # (K, I, U)
            for metric in {metric for line in metrics for metric in line}:
                numbers = [number for number, line in enumerate(metrics) if metric in line]
                measured = group.measure_many(maps[numbers], metric)
                for number, line in zip(numbers, measured, strict=True):
                    values[number][metric].append(line)
    return [{metric: float(torch.cat(parts).mean()) for metric, parts in line.items()} for line in values]
