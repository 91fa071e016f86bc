"""Training of a masker for one model: its network minimises MaRC's objective over many texts.

Without `mask_weight`, as by default, it learns to predict MaRC's optimised fields instead (distillation.py). No labels
are needed: the target is the predicted label, or for a share of the texts another class, so that any class can be
explained. All randomness is a function of the seed and the texts.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rationales.errors import DataError, InputError, OptionError
from rationales.masks.instant.aml.training.progress_file import SAVE_SECONDS, ProgressFile
from rationales.masks.instant.distillation import FieldDistillation, draw_targets
from rationales.masks.instant.length_buckets import LengthBucket, LengthBuckets, without_repetitions
from rationales.masks.instant.masker_file import Masker, MaskerCard
from rationales.masks.instant.network import MaskerNetwork, MaskerShape, predict_parameters
from rationales.masks.objective import Problem
from rationales.masks.optimize import fast_precision
from rationales.masks.optimizer import losses
from rationales.masks.settings import CLAUSES, MaskSettings
from rationales.models.text.batch import TextBatch
from rationales.models.text.fingerprint import digests, fingerprint, model_digest
from rationales.models.text.model import TextModel
from rationales.options import check_settings, option

RANDOM_STATE = "random_state"  # name of the generator's state among the tensors of an unfinished training
POSITIVE = ("steps", "inputs", "tokens", "learning_rate", "held_out", "validations", "width", "layers", "heads")


@dataclass(frozen=True)
class TrainSettings:
    """Settings of the training and the sizes of the network."""

    steps: int = option(3000, "largest number of training steps")
    minutes: float = option(0.0, "time limit, to which the learning rate's schedule adapts; 0: none")
    inputs: int = option(32, "largest number of texts in a step")
    tokens: int = option(16384, "largest number of tokens in a step")
    learning_rate: float = option(2e-3, "largest learning rate of AdamW")
    warmup_share: float = option(0.05, "share of the training in which the learning rate rises; then a cosine to 0")
    weight_decay: float = option(0.01, "weight decay of AdamW")
    other_target_share: float = option(0.2, "share of texts whose target is another class than the predicted one")
    held_out: int = option(200, "texts held out to select the best checkpoint, at most a tenth of all")
    validations: int = option(10, "number of validations on the held-out texts")
    width: int = option(128, "width of the network")
    layers: int = option(2, "layers of the network")
    heads: int = option(4, "attention heads of a layer")
    max_sigma: float = option(6.0, "largest sigma, in units of distance; 0: the bound of `max_sigma_share`")
    seed: int = option(0, "seed of the initial weights and of the order of the texts")

    def __post_init__(self) -> None:
        check_settings(self, POSITIVE, ("minutes", "weight_decay", "max_sigma"))
        for name in ("warmup_share", "other_target_share"):
            if not 0 <= getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 0 and less than 1, not {getattr(self, name)}")
        if self.width % self.heads:
            raise OptionError(f"width ({self.width}) must be a multiple of heads ({self.heads})")


@dataclass(frozen=True)
class ValidationResult:
    """Result of a validation on the held-out texts."""

    step: int
    loss: float  # mean over the held-out texts, see `validation_loss`
    best: bool
    seconds: float


def train(
    model: TextModel,
    texts: Sequence[str | tuple[str, str]],
    settings: TrainSettings | None = None,
    objective: MaskSettings = CLAUSES,
    progress: Callable[[float], None] | None = None,
    on_validation: Callable[[ValidationResult], None] | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> Masker:
    """Train a masker for `model` on texts without labels; the model is left unchanged.

    Empty texts and duplicates are left out. On the CPU the same seed gives the same bits, unless `minutes` ends the
    training. `resume`: file with the state of an unfinished training, which goes on, and is removed at the end.
    """
    settings = settings or TrainSettings()
    objective = _training_objective(objective)
    start_time = time.monotonic()
    distinct_texts = without_repetitions(texts)
    digest = training_digest(model, texts, settings, objective)
    generator = torch.Generator().manual_seed(settings.seed)
    order = torch.randperm(len(distinct_texts), generator=generator).tolist()
    sources = [model.read(distinct_texts[number], None) for number in order]
    held_out = min(settings.held_out, max(1, len(distinct_texts) // 10)) if len(distinct_texts) > 1 else 0
    with torch.inference_mode(False), torch.enable_grad(), model.frozen():
        validation_buckets = list(LengthBuckets(model, sources[:held_out] or sources, settings.seed))
        if not validation_buckets:
            raise DataError("there are no texts to train a masker on; give some that are not empty")
        validation_buckets[0].batch.check_gradients()
        network = _new_network(validation_buckets[0].batch, settings)
        state = ProgressFile(None if resume is None else Path(resume), digest)
        training_run = _TrainingRun(network, settings, objective, validation_buckets, start_time)
        buckets = LengthBuckets(model, sources[held_out:], settings.seed)
        figures = training_run.run(buckets, generator, state, progress, on_validation)
        card = MaskerCard(
            fingerprint=fingerprint(validation_buckets[0].batch),
            model=model.name,
            baseline=model.baseline,
            unit=model.unit,
            labels=model.labels,
            objective=objective,
            training={"texts": len(distinct_texts) - held_out, "held_out": held_out, "seed": settings.seed} | figures,
            digest=digest,
            digests=digests(validation_buckets[0].batch),
        )
    return Masker(network.requires_grad_(False).eval(), card)


def training_digest(
    model: TextModel,
    texts: Sequence[str | tuple[str, str]],
    settings: TrainSettings | None = None,
    objective: MaskSettings = CLAUSES,
) -> str:
    """Hash of all that decides the masker of `train`, as its card has it."""
    decisive = (
        model_digest(model),
        without_repetitions(texts),
        settings or TrainSettings(),
        _training_objective(objective),
    )
    return hashlib.blake2b(repr(decisive).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _training_objective(objective: MaskSettings) -> MaskSettings:
    """The objective for texts; one with the loss of the mask itself has no warm-up, and no anchor to its gradients."""
    objective = objective.on(None)
    return replace(objective, warmup_steps=0, anchor=0.0) if objective.mask_weight else objective


def validation_loss(masker: Masker, model: TextModel, texts: Sequence[str | tuple[str, str]]) -> float:
    """Mean loss for the predicted labels: Eq. 8 without noise, or the mean squared error of the distillation."""
    with torch.inference_mode(False), model.frozen():
        buckets = list(LengthBuckets(model, [model.read(text, None) for text in texts], seed=0))
        return _validation_loss(masker.network, buckets, FieldDistillation(masker.card.objective, 0.0), TrainSettings())


def _new_network(batch: TextBatch, settings: TrainSettings) -> MaskerNetwork:
    """Network with initial weights, created on the CPU, so that the same seed gives the same weights everywhere."""
    sizes = {name: getattr(settings, name) for name in ("width", "layers", "heads", "max_sigma")}
    shape = MaskerShape.of(batch, **sizes)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(settings.seed)  # of the CPU only
        network = MaskerNetwork(shape)
    return network.to(batch.device)


@dataclass(eq=False)
class _TrainingRun:
    """State of a training."""

    network: MaskerNetwork
    settings: TrainSettings
    objective: MaskSettings
    validation_buckets: Sequence[LengthBucket]
    start_time: float
    step: int = 0
    validated: int = 0
    best: float = math.inf
    best_step: int = 0
    best_state: dict[str, Tensor] = field(default_factory=dict)
    pass_step: int = 0  # first step of the current pass over the texts
    pass_random_state: Tensor | None = None  # of the generator, before this pass

    def __post_init__(self) -> None:
        self.saved_time = time.monotonic()
        self.distillation = FieldDistillation(self.objective, self.settings.other_target_share)
        self.validation_distillation = FieldDistillation(self.objective, 0.0)

    def run(
        self,
        buckets: LengthBuckets,
        generator: torch.Generator,
        state: ProgressFile,
        progress: Callable[[float], None] | None,
        on_validation: Callable[[ValidationResult], None] | None,
    ) -> dict[str, Any]:
        """Train, load the best checkpoint, and return figures of the training."""
        weights = [parameter for parameter in self.network.parameters() if parameter.numel()]
        matrices, vectors = ([weight for weight in weights if (weight.dim() > 1) is wide] for wide in (True, False))
        decayed = {"params": matrices, "weight_decay": self.settings.weight_decay}
        optimiser = torch.optim.AdamW([decayed, {"params": vectors, "weight_decay": 0.0}])
        self._continue(state, optimiser, generator)
        done = 0.0
        while done < 1:
            self.pass_random_state = generator.get_state()
            groups = buckets.random_groups(self.settings.inputs, self.settings.tokens, generator)
            for bucket, group in islice(groups, self.step - self.pass_step, None):
                for parameter, gradient in zip(weights, self._gradients(weights, bucket, group), strict=True):
                    parameter.grad = gradient
                torch.nn.utils.clip_grad_norm_(weights, 1.0)
                for param_group in optimiser.param_groups:
                    param_group["lr"] = self._learning_rate()
                optimiser.step()
                self.step += 1
                done = self._progress()
                if progress is not None:
                    progress(min(done, 1.0))
                if done * self.settings.validations >= self.validated + 1 or done >= 1:
                    self._validate_and_report(done, on_validation)
                if done >= 1:
                    break
                if time.monotonic() - self.saved_time > SAVE_SECONDS:
                    self._save(state, optimiser)
            if self.step == self.pass_step:
                raise DataError("the tokenizer returns no tokens for any of the training texts")
            self.pass_step = self.step
        if not self.best_state:
            raise InputError("the training found no finite loss; lower learning_rate, or check the model's weights")
        self.network.load_state_dict(self.best_state)
        state.delete()
        return {"steps": self.step, "best_step": self.best_step, "held_out_loss": round(self.best, 6)}

    def _gradients(self, weights: Sequence[Tensor], bucket: LengthBucket, group: list[int]) -> tuple[Tensor, ...]:
        if not self.objective.mask_weight:
            loss = partial(self.distillation.loss, self.network, bucket, group)
            return bucket.batch.fit(lambda: torch.autograd.grad(loss().mean(), weights))
        group_batch = bucket.batch.take(group)
        predicted_labels = bucket.predicted_labels[torch.tensor(group, device=group_batch.device)]
        target = draw_targets(group_batch, predicted_labels, self.settings.other_target_share, self.step)
        fast_batch, objective = fast_precision(group_batch, self.objective)
        problem = Problem.of(fast_batch, target, objective)
        step = torch.full((group_batch.masks,), self.step, device=group_batch.device)

        def compute_gradients() -> tuple[Tensor, ...]:
            w, sigma = predict_parameters(self.network, group_batch, target, self.objective)
            return torch.autograd.grad(losses(problem, w, sigma, step).mean(), weights)

        gradients = group_batch.fit(compute_gradients)
        bucket.batch.budget = group_batch.budget  # a size that did not fit is not tried again
        return gradients

    def _save(self, state: ProgressFile, optimiser: torch.optim.Optimizer) -> None:
        if state.path is None or self.pass_random_state is None:
            return
        seconds = time.monotonic() - self.start_time
        values = {"step": self.step, "pass_step": self.pass_step, "validated": self.validated, "seconds": seconds}
        best = {"best": None if math.isinf(self.best) else self.best, "best_step": self.best_step}
        further = self.distillation.tensors() | {RANDOM_STATE: self.pass_random_state}
        state.put_training(self.network, optimiser, self.best_state, values | best, further)
        self.saved_time = time.monotonic()

    def _continue(self, state: ProgressFile, optimiser: torch.optim.Optimizer, generator: torch.Generator) -> None:
        """Take over what an interrupted training stored."""
        values, best_state = state.take_training(self.network, optimiser)
        if not values:
            return
        further = state.further()
        generator.set_state(further.pop(RANDOM_STATE))
        self.distillation.stored_fields = further
        self.step, self.pass_step, self.validated = values["step"], values["pass_step"], values["validated"]
        self.start_time -= values["seconds"]
        self.best = math.inf if values["best"] is None else values["best"]
        self.best_step, self.best_state = values["best_step"], best_state

    def _validate_and_report(self, progress: float, on_validation: Callable[[ValidationResult], None] | None) -> None:
        self.validated = int(progress * self.settings.validations)
        loss = _validation_loss(self.network, self.validation_buckets, self.validation_distillation, self.settings)
        improved = loss < self.best
        if improved:
            self.best, self.best_step = loss, self.step
            self.best_state = {name: value.clone() for name, value in self.network.state_dict().items()}
        if on_validation is not None:
            on_validation(ValidationResult(self.step, loss, improved, time.monotonic() - self.start_time))

    def _progress(self) -> float:
        """Share of the training that is done, by steps or by the time limit, whichever is larger."""
        clock = (time.monotonic() - self.start_time) / (60 * self.settings.minutes) if self.settings.minutes else 0.0
        return max(self.step / self.settings.steps, clock)

    def _learning_rate(self) -> float:
        """Learning rate of the next step: a linear rise, then a cosine to 0."""
        done, warmup = min(self._progress(), 1.0), self.settings.warmup_share
        if done < warmup:
            return self.settings.learning_rate * max(done, 1 / self.settings.steps) / warmup
        return self.settings.learning_rate * 0.5 * (1 + math.cos(math.pi * (done - warmup) / (1 - warmup)))


def _validation_loss(
    network: MaskerNetwork, buckets: Sequence[LengthBucket], distillation: FieldDistillation, settings: TrainSettings
) -> float:
    objective, total, count = replace(distillation.objective, noise=0.0, flip_share=0.0), 0.0, 0
    for bucket in buckets:
        for group in bucket.groups(settings.inputs, settings.tokens):
            with torch.no_grad():
                if objective.mask_weight:
                    group_batch = bucket.batch.take(group)
                    target = bucket.predicted_labels[torch.tensor(group, device=group_batch.device)]
                    w, sigma = predict_parameters(network, group_batch, target, objective)
                    step = torch.zeros(group_batch.masks, dtype=torch.long, device=group_batch.device)
                    losses_of_group = losses(Problem.of(group_batch, target, objective), w, sigma, step)
                else:
                    losses_of_group = distillation.loss(network, bucket, group)
            total += float(losses_of_group.sum())
            count += len(group)
    return total / count
