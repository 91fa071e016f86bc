"""Training of a masker for one image classifier: its network minimises MaRC's loss (Eq. 8) over many pictures.

No mask is optimised: a step costs two rows of the explained model per picture, and MaRC two to four rows in each of
its steps. No labels are needed: the target is the predicted class, or for a share of the pictures another likely one.
The randomness of a step is a function of the seed and its number, so that an interrupted training goes on as it would
have without the interruption.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rationales.errors import DataError, InputError, OptionError
from rationales.masks.instant.aml.training.progress_file import SAVE_SECONDS, ProgressFile
from rationales.masks.instant.masker_file import MaskerCard
from rationales.masks.instant.pictures.augmentation import TrainingPictures
from rationales.masks.instant.pictures.feature_layers import find_layers
from rationales.masks.instant.pictures.masker import PictureMasker
from rationales.masks.instant.pictures.network import PictureMaskerNetwork, PictureMaskerShape, predict_parameters
from rationales.masks.instant.training import ValidationResult
from rationales.masks.objective import Problem
from rationales.masks.optimizer import losses
from rationales.masks.settings import IMAGE, MaskSettings
from rationales.models.image.batch import ImageBatch
from rationales.models.image.fingerprint import image_fingerprint
from rationales.models.image.model import ImageModel
from rationales.options import check_settings, option

TRAINING_BASELINES = ("mean", "black", "white", "blur-10", "blur-20", "noise")  # drawn at random in every step
VALIDATION_BASELINE = "mean"
VALIDATION_LEVELS = 2  # drawn sizes at which the loss on held-out pictures is measured
MASK_SHARE = 3  # every third step has the loss of the mask itself, the others that at drawn sizes
LIKELY_CLASSES = 5  # classes that another target is drawn from


@dataclass(frozen=True)
class PictureTrainSettings:
    """Settings of the training and the sizes of the network."""

    steps: int = option(2000, "largest number of training steps")
    minutes: float = option(0.0, "time limit, to which the learning rate's schedule adapts; 0: none")
    inputs: int = option(8, "pictures in a step")
    learning_rate: float = option(2e-3, "largest learning rate of AdamW")
    warmup_share: float = option(0.05, "share of the training in which the learning rate rises; then a cosine to 0")
    weight_decay: float = option(0.01, "weight decay of AdamW")
    other_target_share: float = option(0.2, "share of pictures whose target is another likely class")
    held_out: int = option(16, "pictures held out to select the best checkpoint, at most a tenth of all")
    validations: int = option(8, "number of validations on the held-out pictures")
    width: int = option(64, "width of the network")
    blocks: int = option(2, "blocks of the network")
    workers: int = option(0, "threads that read and crop the pictures of later steps; 0: none")
    seed: int = option(0, "seed of the initial weights and of the order of the pictures")

    def __post_init__(self) -> None:
        positive = ("steps", "inputs", "learning_rate", "held_out", "validations", "width", "blocks")
        check_settings(self, positive, ("minutes", "weight_decay", "workers"))
        for name in ("warmup_share", "other_target_share"):
            if not 0 <= getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 0 and less than 1, not {getattr(self, name)}")


def train_pictures(
    model: ImageModel,
    pictures: Sequence[Any],
    settings: PictureTrainSettings | None = None,
    objective: MaskSettings = IMAGE,
    progress: Callable[[float], None] | None = None,
    on_validation: Callable[[ValidationResult], None] | None = None,
    resume: Path | None = None,
) -> PictureMasker:
    """Train a masker for `model` on pictures without labels (paths, PIL images or arrays); the model is left unchanged.

    `resume`: file with the state of an unfinished training, which is continued, and removed at the end.
    """
    settings = settings or PictureTrainSettings()
    if not objective.mask_weight:
        raise OptionError("a masker for pictures learns the size of its masks, so mask_weight must be above 0")
    if not pictures:
        raise DataError("there are no pictures to train a masker on; give a folder with some")
    order = torch.randperm(len(pictures), generator=_generator(settings.seed, -1)).tolist()
    shuffled = [pictures[number] for number in order]
    held_out = min(settings.held_out, max(1, len(shuffled) // 10)) if len(shuffled) > 1 else 0
    training_pictures = TrainingPictures(model, shuffled[held_out:])
    with torch.inference_mode(False), torch.enable_grad(), model.frozen():
        validation = TrainingPictures(model, shuffled[:held_out] or shuffled)
        first_batch = _batch(model, [validation.picture(0)], VALIDATION_BASELINE)
        first_batch.check_gradients()
        resolved = replace(objective, warmup_steps=0, anchor=0.0).on(first_batch.grid)
        shape = PictureMaskerShape(find_layers(first_batch), settings.width, settings.blocks)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(settings.seed)
            network = PictureMaskerNetwork(shape).to(first_batch.device)
        description = _description(first_batch, shuffled, settings, objective)
        run = _PictureTraining(model, network, settings, resolved, training_pictures, validation)
        figures = run.run(ProgressFile(resume, description), progress, on_validation)
        card = MaskerCard(
            fingerprint=image_fingerprint(first_batch),
            model=model.name,
            baseline=model.baseline,
            unit=model.unit,
            labels=model.labels,
            objective=replace(objective, warmup_steps=0, anchor=0.0),
            training={"pictures": len(shuffled) - held_out, "held_out": held_out, "seed": settings.seed} | figures,
        )
    return PictureMasker(network.requires_grad_(False).eval(), card)


def _description(
    batch: ImageBatch, pictures: Sequence[Any], settings: PictureTrainSettings, objective: MaskSettings
) -> str:
    """Hash of what a training depends on."""
    sources = [str(picture) if isinstance(picture, (str, Path)) else "array" for picture in pictures]
    result_settings = {name: value for name, value in asdict(settings).items() if name != "workers"}
    values = [image_fingerprint(batch), sources, result_settings, asdict(objective)]
    return hashlib.blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()


def _generator(seed: int, step: int) -> torch.Generator:
    return torch.Generator().manual_seed((seed + 1) * 1_000_003 + step)


def _batch(model: ImageModel, images: Sequence[Any], baseline: str, seed: int = 0) -> ImageBatch:
    single = replace(model, baselines=(baseline,))
    return single.batch(single.prepare(images), seed)


@dataclass(frozen=True, eq=False)
class _StepPictures:
    """The pictures of one step, its baseline, and the generator that its further random choices come from."""

    model: ImageModel  # with the baseline of the step
    encoded: Sequence[Any]
    generator: torch.Generator


@dataclass(eq=False)
class _PictureTraining:
    """State of a training."""

    model: ImageModel
    network: PictureMaskerNetwork
    settings: PictureTrainSettings
    objective: MaskSettings
    pictures: TrainingPictures
    validation: TrainingPictures
    step: int = 0
    validated: int = 0
    earlier_seconds: float = 0.0  # of a training that was interrupted
    best: float = math.inf
    best_step: int = 0
    best_state: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start_time = time.monotonic()
        self.saved_time = self.start_time
        # made once: a model measures the memory of a row and its preprocessing with its first batch
        self.baseline_models = [replace(self.model, baselines=(name,)) for name in TRAINING_BASELINES]

    def run(
        self,
        state: ProgressFile,
        progress: Callable[[float], None] | None,
        on_validation: Callable[[ValidationResult], None] | None,
    ) -> dict[str, Any]:
        """Train, load the best checkpoint, and return figures of the training."""
        weights = list(self.network.parameters())
        optimiser = torch.optim.AdamW(weights, weight_decay=self.settings.weight_decay)
        self._continue(state, optimiser)
        with self._read_ahead() as step_pictures:
            self._optimise(weights, optimiser, step_pictures, state, progress, on_validation)
        if not self.best_state:
            raise InputError("the training found no finite loss; lower learning_rate, or check the model's weights")
        self.network.load_state_dict(self.best_state)
        state.delete()
        return {"steps": self.step, "best_step": self.best_step, "held_out_loss": round(self.best, 6)}

    def _optimise(
        self,
        weights: list[torch.nn.Parameter],
        optimiser: torch.optim.Optimizer,
        step_pictures: Callable[[int], _StepPictures],
        state: ProgressFile,
        progress: Callable[[float], None] | None,
        on_validation: Callable[[ValidationResult], None] | None,
    ) -> None:
        """Steps until the training is done."""
        while self._share_done() < 1:
            gradients = torch.autograd.grad(self._loss(step_pictures(self.step)), weights, allow_unused=True)
            for parameter, gradient in zip(weights, gradients, strict=True):
                parameter.grad = gradient
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            for group in optimiser.param_groups:
                group["lr"] = self._learning_rate()
            optimiser.step()
            self.step += 1
            done = self._share_done()
            if progress is not None:
                progress(min(done, 1.0))
            if done * self.settings.validations >= self.validated + 1 or done >= 1:
                self._validate(done, on_validation)
            if time.monotonic() - self.saved_time > SAVE_SECONDS and done < 1:
                self._save(state, optimiser)

    @contextmanager
    def _read_ahead(self) -> Iterator[Callable[[int], _StepPictures]]:
        """Context with a function from a step's number to its pictures; threads read those of the steps after it."""
        if not self.settings.workers:
            yield self._pictures_of
            return
        pending: dict[int, Future[_StepPictures]] = {}
        with ThreadPoolExecutor(self.settings.workers) as pool:

            def take(step: int) -> _StepPictures:
                for number in range(step, step + 2 * self.settings.workers):
                    if number not in pending:
                        pending[number] = pool.submit(self._pictures_of, number)
                return pending.pop(step).result()

            yield take
            pool.shutdown(cancel_futures=True)

    def _pictures_of(self, step: int) -> _StepPictures:
        generator = _generator(self.settings.seed, step)
        images = self.pictures.draw(self.settings.inputs, generator)
        number = int(torch.randint(len(TRAINING_BASELINES), (1,), generator=generator))
        single = self.baseline_models[number]
        return _StepPictures(single, single.prepare(images), generator)

    def _loss(self, pictures: _StepPictures) -> Tensor:
        """Loss of the next step: mean of Eq. 8 over some pictures on one baseline, for the mask or at a drawn size."""
        # made here, since a batch may run the model, whose outputs are watched below
        batch, generator = pictures.model.batch(pictures.encoded, self.settings.seed), pictures.generator
        explained: list[Tensor] = []

        def choose_target(logits: Tensor) -> Tensor:
            target = logits.argmax(-1)
            if logits.shape[-1] > 1 and self.settings.other_target_share:
                likely = logits.topk(min(LIKELY_CLASSES, logits.shape[-1]), -1).indices
                column = torch.randint(1, likely.shape[1], (len(logits), 1), generator=generator)
                is_other_target = torch.rand(len(logits), generator=generator) < self.settings.other_target_share
                alternative = likely.gather(1, column.to(likely.device))[:, 0]
                target = torch.where(is_other_target.to(target.device), alternative, target)
            explained.append(target)
            return target

        w, sigma = predict_parameters(self.network, batch, choose_target, self.objective)
        problem = Problem.of(batch, torch.cat(explained), self._step_objective())
        step = torch.full((batch.masks,), self.step, device=batch.device)
        with batch.threads():
            return losses(problem, w, sigma, step).mean()

    def _step_objective(self) -> MaskSettings:
        """The terms of the objective that this step has, weighted so that their mean over steps is the objective."""
        objective = self.objective
        if not objective.level_weight:
            return objective
        if self.step % MASK_SHARE == 0:
            weights = {name: MASK_SHARE * getattr(objective, name) for name in ("mask_weight", "sparsity")}
            return replace(objective, level_weight=0.0, **weights)
        return replace(objective, mask_weight=0.0, level_weight=objective.level_weight * MASK_SHARE / (MASK_SHARE - 1))

    def _validate(self, done: float, on_validation: Callable[[ValidationResult], None] | None) -> None:
        self.validated = int(done * self.settings.validations)
        loss = self._validation_loss()
        improved = loss < self.best
        if improved:
            self.best, self.best_step = loss, self.step
            self.best_state = {name: value.clone() for name, value in self.network.state_dict().items()}
        if on_validation is not None:
            on_validation(ValidationResult(self.step, loss, improved, self._seconds()))

    def _validation_loss(self) -> float:
        """Mean loss of the predicted classes on the held-out pictures, without noise, at a few sizes."""
        objective = replace(self.objective, noise=0.0, flip_share=0.0)
        total, count = 0.0, 0
        for begin in range(0, len(self.validation), self.settings.inputs):
            numbers = range(begin, min(begin + self.settings.inputs, len(self.validation)))
            batch = _batch(self.model, [self.validation.picture(number) for number in numbers], VALIDATION_BASELINE)
            with torch.no_grad(), batch.threads():
                target = batch.full_logits()[: batch.masks].argmax(-1)
                w, sigma = predict_parameters(self.network, batch, target, objective)
                problem = Problem.of(batch, target, objective)
                for level in range(VALIDATION_LEVELS):
                    step = torch.full((batch.masks,), level, device=batch.device)
                    total += float(losses(problem, w, sigma, step).sum())
                    count += batch.inputs
        return total / count

    def _seconds(self) -> float:
        return self.earlier_seconds + time.monotonic() - self.start_time

    def _share_done(self) -> float:
        """Share of the training that is done, by steps or by the time limit, whichever is larger."""
        clock = self._seconds() / (60 * self.settings.minutes) if self.settings.minutes else 0.0
        return max(self.step / self.settings.steps, clock)

    def _learning_rate(self) -> float:
        """Learning rate of the next step: a linear rise, then a cosine to 0."""
        done, warmup = min(self._share_done(), 1.0), self.settings.warmup_share
        if done < warmup:
            return self.settings.learning_rate * max(done, 1 / self.settings.steps) / warmup
        return self.settings.learning_rate * 0.5 * (1 + math.cos(math.pi * (done - warmup) / (1 - warmup)))

    def _save(self, state: ProgressFile, optimiser: torch.optim.Optimizer) -> None:
        values = {"step": self.step, "validated": self.validated, "seconds": self._seconds()}
        best = {"best": None if math.isinf(self.best) else self.best, "best_step": self.best_step}
        state.put_training(self.network, optimiser, self.best_state, values | best)
        self.saved_time = time.monotonic()

    def _continue(self, state: ProgressFile, optimiser: torch.optim.Optimizer) -> None:
        """Take over what an interrupted training stored."""
        values, best_state = state.take_training(self.network, optimiser)
        if not values:
            return
        self.step, self.validated, self.earlier_seconds = values["step"], values["validated"], values["seconds"]
        self.best = math.inf if values["best"] is None else values["best"]
        self.best_step, self.best_state = values["best_step"], best_state
