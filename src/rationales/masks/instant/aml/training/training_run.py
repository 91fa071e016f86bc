"""The course of a pretraining: search for loss weights, epochs, validation, early stopping, best checkpoint."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rationales.errors import DataError, InputError
from rationales.masks.instant.aml.attribution_network import AttributionNetwork
from rationales.masks.instant.aml.backbone import Backbone
from rationales.masks.instant.aml.example_metrics import HIGHER_IS_BETTER, unit_counts
from rationales.masks.instant.aml.masker import AmlCard, AmlMasker, embedding_name
from rationales.masks.instant.aml.masking import MapProblem, mask_token
from rationales.masks.instant.aml.settings import AmlLosses, AmlTraining
from rationales.masks.instant.aml.training.progress_file import ProgressFile, trained_state
from rationales.masks.instant.aml.training.training_texts import TextGroup, TrainingTexts
from rationales.masks.instant.aml.training.weight_search import (
    WEIGHTS,
    WeightTrial,
    best_trial,
    ranked_trials,
    run_search,
    sampler_name,
    with_weights,
)
from rationales.models.text import baselines
from rationales.models.text.batch import TextBatch
from rationales.models.text.model import TextModel

SEARCH_TIME_SHARE = 0.5  # of the time limit


@dataclass(frozen=True)
class EpochResult:
    """Where a training stands after an epoch or a trial."""

    phase: str  # search or training
    metric: str
    number: int  # of the epoch or trial, from 1
    total: int
    loss: float  # mean over the epoch; of a trial NaN
    value: float  # of the metric on the validation texts
    best: bool
    seconds: float  # since the start
    remaining_seconds: float  # estimate, for all that is still to be done
    network: int = 1  # of the `networks` that are trained for the metric, one after the other or together
    networks: int = 1


@dataclass(eq=False)
class TrainingRun:
    """The pretraining of maskers of one model."""

    settings: AmlTraining
    losses: AmlLosses
    backbone: Backbone
    batch: TextBatch  # any one of the model
    validation: TrainingTexts
    sources: Sequence[Any]
    metrics: tuple[str, ...]
    state: ProgressFile
    start_time: float
    progress: Callable[[float], None] | None
    on_epoch: Callable[[EpochResult], None] | None
    done: float = 0.0  # epochs of all phases, skipped ones and those of an earlier, interrupted run included
    trained: float = 0.0  # epochs of this run

    def __post_init__(self) -> None:
        settings, model = self.settings, self.validation.model
        self.sampler = sampler_name(settings.search) if settings.trials else "none"
        self.training = TrainingTexts(model, self.sources, self.backbone, settings.seed)
        trial_sources = self.sources[: settings.trial_texts]
        self.trial_texts = TrainingTexts(model, trial_sources, self.backbone, settings.seed)
        searches = 1 if self.sampler == "random" else len(self.metrics)
        share = len(trial_sources) / len(self.sources)
        self.trial_cost = settings.trial_epochs * share  # in epochs of the training
        stored = self.state.values.get("searches", {}).values()
        self.done = sum(len(trials) for trials in stored) * self.trial_cost
        trainings = len(self.metrics) * min(settings.finalists, max(1, settings.trials))
        self.done += settings.epochs * sum(len(ended) for ended in self.state.values.get("trainings", {}).values())
        self.total = searches * settings.trials * self.trial_cost + trainings * settings.epochs
        self.first_step_time = time.monotonic()

    def masker_for(self, metric: str, card: AmlCard) -> AmlMasker:
        """Search the weights for a metric and train with them."""
        if self.settings.trials:
            self._search(metric)
        for rank in range(len(self.ended_trainings(metric)), len(self.finalists(metric))):
            if rank and self.late():
                break
            losses = self.finalists(metric)[rank]
            network = self.new_network(losses)
            figures = self._train(network, losses, self.training, self.settings.epochs, metric, self.state, rank)
            self.end_training(metric, losses, figures, trained_state(network))
        return self.trained_masker(metric, card)

    def finalists(self, metric: str) -> list[AmlLosses]:
        """The losses that networks are trained with: the weights of the best trials, or those of the settings."""
        trials = ranked_trials([WeightTrial(**values) for values in self.trials_of(metric)], metric)
        best = trials[: self.settings.finalists]
        return [with_weights(self.losses, trial.weights) for trial in best] or [self.losses]

    def ended_trainings(self, metric: str) -> list[dict[str, Any]]:
        """Weights and figures of the networks that were trained for a metric."""
        ended: dict[str, list[dict[str, Any]]] = self.state.values.setdefault("trainings", {})
        return ended.setdefault(metric, [])

    def end_training(self, metric: str, losses: AmlLosses, figures: dict[str, Any], weights: dict[str, Tensor]) -> None:
        """Store a training that has ended, and the network's weights if it is the best one for the metric so far."""
        ended = self.ended_trainings(metric)
        sign = 1 if HIGHER_IS_BETTER[metric] else -1
        is_best = all(sign * figures["value"] > sign * other["value"] for other in ended)
        ended.append({"weights": {name: getattr(losses, name) for name in WEIGHTS}} | figures)
        if is_best:
            self.state.keep(metric, weights)
        else:
            self.state.write()

    def trained_masker(self, metric: str, card: AmlCard) -> AmlMasker:
        """The masker of the best training for a metric, with the figures of search and training in its card."""
        trainings, trials = self.ended_trainings(metric), self.trials_of(metric)
        best = best_training(trainings, metric)
        losses = with_weights(self.losses, best["weights"])
        network = self.new_network(losses)
        load_weights(network, self.state.kept(metric))
        network = network.requires_grad_(False).eval()
        training = card.training | {name: value for name, value in best.items() if name != "weights"}
        training |= {"metric": metric, "search": self.sampler, "seed": self.settings.seed, "trials": len(trials)}
        training |= {
            "random_value": round(self.validation.random_value(metric), 6),
            "maps": self._map_statistics(network, losses),
            "tried_weights": [
                {"weights": trial["weights"], "value": round(trial["metrics"][metric], 6)} for trial in trials
            ],
            "trainings": trainings,
            "settings": asdict(self.settings),
        }
        backbone = replace(self.backbone, encoder=network.encoder)
        return AmlMasker(network, backbone, replace(card, losses=losses, training=training))

    def trials_of(self, metric: str) -> list[dict[str, Any]]:
        searches: dict[str, list[dict[str, Any]]] = self.state.values.setdefault("searches", {})
        return searches.setdefault("all" if self.sampler == "random" else metric, [])

    def _search(self, metric: str) -> None:
        ended: list[str] = self.state.values.setdefault("ended_searches", [])
        if metric in ended:  # in a training that goes on, even if a time limit ended the search
            return
        stored = self.trials_of(metric)
        trials = [WeightTrial(**values) for values in stored]
        measured = self.metrics if self.sampler == "random" else (metric,)
        limit = 60 * self.settings.minutes * SEARCH_TIME_SHARE

        def run_trial(losses: AmlLosses) -> dict[str, float]:
            network = self.new_network(losses)
            self._train(network, losses, self.trial_texts, self.settings.trial_epochs, "", None)
            return {name: self._validate(network, losses, name) for name in measured}

        def on_trial(trial: WeightTrial) -> None:
            stored.append(trial.to_dict())
            self.state.write()
            best = trial == best_trial(trials, metric)
            value = trial.metrics[metric]
            self.advance(self.trial_cost)
            self.report("search", metric, len(trials), self.settings.trials, math.nan, value, best)

        run_search(
            self.losses, metric, self.settings.trials, run_trial, sampler=self.sampler, seed=self.settings.seed,
            trials=trials, stop=lambda: bool(limit) and time.monotonic() - self.start_time > limit, on_trial=on_trial,
        )  # fmt: skip
        ended.append(metric)

    def new_network(self, losses: AmlLosses) -> AttributionNetwork:
        """A network with the backbone's weights and a new head, drawn on the CPU: a seed means the same anywhere."""
        model, mask_vector = self.batch.networks[0], None
        if losses.replacement == "learned":
            tokenizer = self.batch.text_sources().tokenizer
            mask_vector = baselines.vector(mask_token(self.batch), tokenizer, model.embedding)
        with seeded(self.settings.seed, self.validation.model):
            encoder = copy.deepcopy(self.backbone.encoder)
            size = 0 if mask_vector is None else len(mask_vector)
            network = AttributionNetwork(encoder, self.batch.classes, size)
        network.initialise(torch.Generator().manual_seed(self.settings.seed), mask_vector)
        network = network.to(self.batch.device).requires_grad_(True)
        if not self.backbone.train_embeddings:
            network.get_parameter(embedding_name(network)).requires_grad_(False)
        return network

    def _train(
        self,
        network: AttributionNetwork,
        losses: AmlLosses,
        texts: TrainingTexts,
        epochs: int,
        metric: str,
        state: ProgressFile | None,
        rank: int = 0,
    ) -> dict[str, Any]:
        """Train, and with a metric load the best checkpoint; figures of the training."""
        settings = self.settings
        weights = [weight for weight in network.parameters() if weight.requires_grad]
        optimiser = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=settings.weight_decay)
        values: dict[str, Any] = {"epoch": 0, "step": 0, "best_epoch": 0, "last_gain": 0, "best": None, "history": []}
        best: dict[str, Tensor] = {}
        if state is not None:
            stored, best = state.take_training(network, optimiser)
            values = stored or values
            self.done += values["epoch"]
        steps = epochs * max(1, texts.steps(settings.inputs, settings.tokens))
        while values["epoch"] < epochs and not self.ends(values, metric):
            loss = self._epoch(network, losses, texts, optimiser, values, steps)
            values["epoch"] += 1
            if not metric:
                continue
            value = self._validate(network, losses, metric)
            sign = 1 if HIGHER_IS_BETTER[metric] else -1
            gain = sign * (value - values["best"]) if values["best"] is not None else math.inf
            improved = math.isfinite(value) and gain >= 0  # of equal checkpoints the one that was trained longer
            values["history"].append(round(value, 6))
            if improved:
                values |= {"best": value, "best_epoch": values["epoch"]}
                values["last_gain"] = values["epoch"] if gain > 0 else values["last_gain"]
                best = {name: weight.clone() for name, weight in trained_state(network).items()}
            if state is not None:
                state.put_training(network, optimiser, best, values)
            self.advance(1.0)
            self.report("training", metric, values["epoch"], epochs, loss, value, improved, rank)
        if not metric:
            return {}
        self.done += epochs - values["epoch"]  # of an early stop
        if not best:
            raise InputError("the training found no finite metric; lower learning_rate, or check the model's weights")
        load_weights(network, best)
        if state is not None:
            state.finish_training()
        return {"epochs": values["epoch"], "best_epoch": values["best_epoch"], "value": round(values["best"], 6),
                "history": values["history"]}  # fmt: skip

    def _epoch(
        self,
        network: AttributionNetwork,
        losses: AmlLosses,
        texts: TrainingTexts,
        optimiser: torch.optim.Optimizer,
        values: dict[str, Any],
        steps: int,
    ) -> float:
        settings, seed = self.settings, self.settings.seed * 1009 + values["epoch"]
        total, count = torch.zeros((), device=self.batch.device), 0
        network.train(settings.dropout)
        with seeded(seed, self.validation.model):
            for group in texts.random_groups(settings.inputs, settings.tokens, seed):
                for param_group in optimiser.param_groups:
                    param_group["lr"] = settings.learning_rate * max(0.0, 1 - values["step"] / steps)
                problem = group.problem(losses, network.mask_vector, settings.other_target_share, values["step"])
                backward = partial(_backward, network, group, problem, losses, values["step"])
                loss = group.bucket.batch.fit(backward)
                optimiser.step()
                values["step"] += 1
                total, count = total + loss.sum(), count + len(loss)
        if not count:
            raise DataError("the tokenizer returns no tokens for any of the training texts")
        return float(total / count)

    def _validate(self, network: AttributionNetwork, losses: AmlLosses, metric: str) -> float:
        """Mean of the metric over the validation texts."""
        network.eval()
        values: list[Tensor] = []
        with torch.no_grad():
            for group in self.validation.groups():
                problem = group.problem(losses, network.mask_vector)
                maps = group.bucket.batch.fit(partial(network, group.windows, problem.y, losses.merge))
                values.append(group.measure(maps, metric))
        return float(torch.cat(values).mean())

    def _map_statistics(self, network: AttributionNetwork, losses: AmlLosses) -> dict[str, float]:
        """Of the validation texts the mean score, and the mean distance of a text's highest score from its lowest."""
        means, ranges = list[Tensor](), list[Tensor]()
        with torch.no_grad():
            for group in self.validation.groups():
                problem = group.problem(losses, network.mask_vector)
                maps = group.bucket.batch.fit(partial(network, group.windows, problem.y, losses.merge))
                counts = unit_counts(group.bucket.batch)
                real = torch.arange(maps.shape[1], device=maps.device) < counts[:, None]
                means.append((maps * real).sum(1) / counts)
                ranges.append(maps.masked_fill(~real, 0).amax(1) - maps.masked_fill(~real, 1).amin(1))
        return {
            "mean_score": round(float(torch.cat(means).mean()), 6),
            "score_range": round(float(torch.cat(ranges).mean()), 6),
        }

    def late(self) -> bool:
        """Whether the time limit has passed."""
        return bool(self.settings.minutes) and time.monotonic() - self.start_time > 60 * self.settings.minutes

    def ends(self, values: dict[str, Any], metric: str) -> bool:
        """Whether the training stops early: for lack of progress, or of time."""
        waited = values["epoch"] - values["last_gain"]
        return bool(metric) and values["epoch"] > 0 and (self.late() or 0 < self.settings.patience <= waited)

    def advance(self, epochs: float) -> None:
        """Count epochs that were trained in this run."""
        self.done += epochs
        self.trained += epochs

    def remaining_seconds(self) -> float:
        """Estimate for all that is still to be done, at the speed of this run's own epochs."""
        now = time.monotonic()
        remaining = max(0.0, self.total - self.done) * (now - self.first_step_time) / self.trained
        limit = 60 * self.settings.minutes
        return min(remaining, max(0.0, limit - (now - self.start_time))) if limit else remaining

    def report(
        self, phase: str, metric: str, number: int, total: int, loss: float, value: float, best: bool, rank: int = 0
    ) -> None:
        """Tell the callbacks where the training stands; `rank`: of the network, from 0."""
        seconds, networks = time.monotonic() - self.start_time, 1
        if phase == "training":
            networks = len(self.finalists(metric))
        if self.progress is not None:
            self.progress(min(1.0, self.done / self.total))
        if self.on_epoch is not None:
            position = (self.remaining_seconds(), rank + 1, networks)
            self.on_epoch(EpochResult(phase, metric, number, total, loss, value, best, seconds, *position))


def _backward(
    network: AttributionNetwork, group: TextGroup, problem: MapProblem, losses: AmlLosses, step: int
) -> Tensor:
    """(I,): the losses of a group, whose mean gives the network's weights their gradients."""
    network.zero_grad(set_to_none=True)
    values = problem.losses(network(group.windows, problem.y, losses.merge), losses, step)
    torch.autograd.backward(values.mean())
    return values.detach()


def best_training(trainings: Sequence[dict[str, Any]], metric: str) -> dict[str, Any]:
    """The training with the best value; the first of equal ones."""
    sign = 1 if HIGHER_IS_BETTER[metric] else -1
    return max(trainings, key=lambda training: sign * training["value"])


def load_weights(network: AttributionNetwork, weights: dict[str, Tensor]) -> None:
    state = network.state_dict()
    with torch.no_grad():
        for name, value in weights.items():
            state[name].copy_(value)


@contextmanager
def seeded(seed: int, model: TextModel) -> Iterator[None]:
    """Inside the block torch's generators are seeded; on exit they are as before."""
    device = model.networks[0].baseline.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)
        yield
