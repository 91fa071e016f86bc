"""Training of a classifier from scratch until it has learned the plant, or with the reason why it has not."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn, optim

from rationales.errors import ModelError, OptionError
from rationales.groundtruth.encoded_examples import EncodedExamples
from rationales.groundtruth.theory import Reliance, reliance_test
from rationales.options import checked_seed

TARGET_ACCURACY = 0.97  # training stops above this validation accuracy

ModuleFactory = Callable[[], nn.Module]
StopCondition = Callable[[nn.Module, EncodedExamples], bool]  # called with the validation examples


@dataclass(frozen=True)
class EncodedSplits:
    """Planted data for training, validation and test."""

    train: EncodedExamples
    val: EncodedExamples
    test: EncodedExamples

    def to(self, device: torch.device) -> EncodedSplits:
        """A copy on another device."""
        return EncodedSplits(self.train.to(device), self.val.to(device), self.test.to(device))


@dataclass(frozen=True)
class Recipe:
    """Settings of a training with AdamW; the paper uses Adam."""

    epochs: int = 60  # maximum
    min_epochs: int = 1  # training does not stop earlier
    target_accuracy: float = TARGET_ACCURACY
    learning_rate: float = 1e-3
    warmup_steps: int = 0  # steps in which the learning rate rises linearly to its value
    batch_size: int = 128
    weight_decay: float = 0.0
    max_grad_norm: float = 5.0  # gradients are clipped to this norm

    def __post_init__(self) -> None:
        if (
            min(self.epochs, self.min_epochs, self.batch_size) < 1
            or self.warmup_steps < 0
            or min(self.learning_rate, self.max_grad_norm) <= 0
        ):
            raise OptionError(f"epochs, batch_size, learning_rate and max_grad_norm must be positive; not {self}")
        if not 0 < self.target_accuracy <= 1:
            raise OptionError(f"training stops at an accuracy between 0 and 1, not {self.target_accuracy}")


@dataclass(frozen=True)
class Epoch:
    """Loss and accuracy after one epoch of training."""

    number: int  # from 1
    loss: float
    accuracy: float  # on the validation examples
    seconds: float  # since the start of training


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model with its history and its test accuracy."""

    module: nn.Module  # in evaluation mode
    reached_target: bool
    history: tuple[Epoch, ...]
    n_correct: int  # test examples predicted correctly
    n_tested: int
    failure: str = ""  # why the target accuracy was not reached; empty if it was

    @property
    def accuracy(self) -> float:
        """Accuracy on the test examples."""
        return self.n_correct / self.n_tested

    def reliance(self, bound: float) -> Reliance:
        """The binomial test that the model uses the plant; see `theory.reliance_test`."""
        return reliance_test(self.n_correct, self.n_tested, bound)


def train(
    factory: ModuleFactory,
    data: EncodedSplits,
    recipe: Recipe | None = None,
    *,
    seed: int = 0,
    device: str | torch.device | None = None,
    stop_condition: StopCondition | None = None,
    epoch_data: Callable[[int], EncodedExamples] | None = None,
    progress: Callable[[float], None] | None = None,
    on_epoch: Callable[[Epoch, nn.Module], None] | None = None,
    half_precision: bool = False,
) -> TrainedModel:
    """Build a model and train it until its validation accuracy exceeds `recipe.target_accuracy`.

    Args:
        stop_condition: must also hold before training stops, for example a selection rate.
        epoch_data: returns the training examples of an epoch, numbered from 0, in place of `data.train` (see
            `ModifiedData.redraw`); prevents memorisation when there are few examples.
        progress: called with the share of epochs that are done.
        on_epoch: called after every epoch with the model in evaluation mode.
        half_precision: run training steps in bfloat16 and images in channels-last layout on NVIDIA GPUs that support
            it; weights stay in float32, and accuracies are measured in float32.

    The same seed gives the same model on the same device; the global random state is restored. A model that does not
    reach the target is returned as it was after its best epoch, with `reached_target` False and the reason in
    `failure`.
    """
    recipe = recipe or Recipe()
    device = torch.device(device if device is not None else "cuda" if torch.cuda.is_available() else "cpu")
    data = data.to(device)
    started = time.perf_counter()
    with seeded(seed, device):
        module = factory().to(device)
        half = half_precision and device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        if half:
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # stubs lack this overload
        training = _Training(module, recipe, seed, half)
        history: list[Epoch] = []
        best: tuple[float, dict[str, torch.Tensor]] | None = None
        reached = False
        for number in range(1, recipe.epochs + 1):
            examples = data.train if epoch_data is None else epoch_data(number - 1).to(device)
            loss = training.run_epoch(examples, number - 1)
            if not math.isfinite(loss):
                raise ModelError(f"training diverged in epoch {number}: the loss is {loss}; lower the learning rate")
            module.eval()
            accuracy = count_correct(module, data.val, recipe.batch_size) / len(data.val)
            history.append(Epoch(number, loss, accuracy, time.perf_counter() - started))
            if on_epoch is not None:
                on_epoch(history[-1], module)
            if progress is not None:
                progress(number / recipe.epochs)
            ready = accuracy > recipe.target_accuracy and (stop_condition is None or stop_condition(module, data.val))
            reached = ready and number >= recipe.min_epochs
            if reached:
                break
            if best is None or accuracy >= best[0]:
                best = (accuracy, copy.deepcopy(module.state_dict()))
    if not reached and best is not None:
        module.load_state_dict(best[1])
    if half:
        module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    module.eval()
    n_correct = count_correct(module, data.test, recipe.batch_size)
    if reached and progress is not None:
        progress(1.0)
    failure = "" if reached else _failure(history, recipe, stop_condition is not None)
    return TrainedModel(module, reached, tuple(history), n_correct, len(data.test), failure)


def count_correct(module: nn.Module, examples: EncodedExamples, batch_size: int = 128) -> int:
    """The number of examples that the model predicts correctly."""
    n_correct = torch.zeros((), dtype=torch.long, device=examples.labels.device)
    with torch.no_grad():
        for index in examples.batches(batch_size, torch.arange(len(examples))):
            n_correct += (examples.logits(module, index).argmax(-1) == examples.labels[index]).sum()
    return int(n_correct)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's random state inside the block, and restore the previous state afterwards."""
    devices = [torch.cuda.current_device()] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(checked_seed(seed))
        yield


class _Training:
    """The optimizer, the learning-rate schedule and the order of examples of one training."""

    def __init__(self, module: nn.Module, recipe: Recipe, seed: int, half: bool) -> None:
        self.module, self.recipe, self.half = module, recipe, half
        self.optimizer = optim.AdamW(module.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
        warmup = recipe.warmup_steps + 1
        self.schedule = optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min(1.0, (step + 1) / warmup))
        self.shuffle = torch.Generator().manual_seed(checked_seed(seed))

    def run_epoch(self, examples: EncodedExamples, epochs_done: int) -> float:
        """Train on all examples once; returns the mean loss."""
        self.module.train()
        device, batch_size = examples.labels.device, self.recipe.batch_size
        total_loss = torch.zeros((), device=device)
        steps = 0
        n_batches = -(-len(examples) // batch_size)
        for index in examples.batches(batch_size, torch.randperm(len(examples), generator=self.shuffle)):
            if len(index) == 1 and len(examples) > 1:
                continue  # batch normalisation needs at least two examples
            with torch.autocast(device.type, torch.bfloat16, enabled=self.half):
                progress = (epochs_done + steps / n_batches) / self.recipe.epochs
                loss = examples.loss(self.module, index, progress)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            nn.utils.clip_grad_norm_(self.module.parameters(), self.recipe.max_grad_norm)
            self.optimizer.step()
            self.schedule.step()
            total_loss += loss.detach()
            steps += 1
        return float(total_loss / max(steps, 1))


def _failure(history: list[Epoch], recipe: Recipe, has_condition: bool) -> str:
    best = max(history, key=lambda epoch: epoch.accuracy)
    summary = f"the best validation accuracy in {len(history)} epochs was {best.accuracy:.1%}"
    if best.accuracy > recipe.target_accuracy:
        missed = "together with its further condition" if has_condition else f"after {recipe.min_epochs} epochs or more"
        return f"{summary}, above the target of {recipe.target_accuracy:.0%}, but not {missed}"
    return (
        f"{summary}, not above the {recipe.target_accuracy:.0%} that shows a model to have learned the plant; train "
        "longer, on more examples, or make the plant more visible"
    )
