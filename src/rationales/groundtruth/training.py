"""Train a classifier from scratch until it has learned the plant, or say that it has not."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from rationales.errors import ModelError, OptionError
from rationales.groundtruth.folds import Fold
from rationales.groundtruth.theory import Reliance, reliance
from rationales.options import whole

ACCURACY = 0.97  # training stops beyond this on the validation part

Factory = Callable[[], nn.Module]
Further = Callable[[nn.Module, Fold], bool]  # a further condition for stopping, asked with the validation part


@dataclass(frozen=True)
class Folds:
    """Three parts of planted data: to train on, to stop by, to report on."""

    train: Fold
    val: Fold
    test: Fold


@dataclass(frozen=True)
class Recipe:
    """How to train: Adam, as the paper does."""

    epochs: int = 60  # at most
    least: int = 1  # epochs before training may stop
    until: float = ACCURACY
    rate: float = 1e-3
    warm: int = 0  # steps in which the rate rises to its value
    batch: int = 128
    decay: float = 0.0  # of weights
    clip: float = 5.0  # the largest norm of a gradient

    def __post_init__(self) -> None:
        if min(self.epochs, self.least, self.batch) < 1 or self.warm < 0 or min(self.rate, self.clip) <= 0:
            raise OptionError(f"epochs, batch, rate and clip are greater than 0; not {self}")
        if not 0 < self.until <= 1:
            raise OptionError(f"training stops at an accuracy between 0 and 1, not {self.until}")


@dataclass(frozen=True)
class Epoch:
    """How far training is."""

    number: int  # from 1
    loss: float
    accuracy: float  # on the validation part
    seconds: float  # since the beginning


@dataclass(frozen=True, eq=False)
class Trained:
    """A model, how it got there, and whether it may be used to judge methods."""

    module: nn.Module  # in evaluation mode
    reached: bool
    history: tuple[Epoch, ...]
    correct: int  # of the test part
    tested: int
    why: str = ""  # where the accuracy was not reached

    @property
    def accuracy(self) -> float:
        """On the test part."""
        return self.correct / self.tested

    def relies(self, bound: float) -> Reliance:
        """The binomial test that the model uses the plant; see `theory.reliance`."""
        return reliance(self.correct, self.tested, bound)


def train(
    factory: Factory,
    data: Folds,
    recipe: Recipe | None = None,
    *,
    seed: int = 0,
    device: str | torch.device | None = None,
    also: Further | None = None,
    renew: Callable[[int], Fold] | None = None,
    progress: Callable[[float], None] | None = None,
    each: Callable[[Epoch, nn.Module], None] | None = None,
    half: bool = False,
) -> Trained:
    """Make a model and train it until its validation accuracy is above `recipe.until`.

    `also`: a further condition, such as a selection rate. `renew`: gives the training part of each epoch, numbered from
    0, instead of the same one every time (see `Modified.again`): few examples then go a long way. `progress` is told
    the share of all epochs; `each` is called after every epoch, with the model in evaluation mode: the place for
    measurements along the training. `half`: steps in bfloat16 where an NVIDIA card has it, pictures with their colours
    last; weights stay as precise as they are, and accuracies are measured in full. The same seed gives the same model
    on the same device; the global random state is left as it was. A model that never gets there comes back as it was at
    its best epoch, with `reached` False and why.
    """
    how = recipe or Recipe()
    home = torch.device(device) if device is not None else torch.device("cuda" if torch.cuda.is_available() else "cpu")
    parts = Folds(*(part.to(home) for part in (data.train, data.val, data.test)))
    started = time.perf_counter()
    with seeded(seed, home):
        module = factory().to(home)
        half = half and home.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        if half:
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch knows no layout alone
        optimizer = torch.optim.AdamW(module.parameters(), lr=how.rate, weight_decay=how.decay)
        warming = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / (how.warm + 1)))
        order = torch.Generator().manual_seed(whole("the seed", seed))
        history: list[Epoch] = []
        best: tuple[float, dict[str, torch.Tensor]] | None = None
        reached = False
        for number in range(1, how.epochs + 1):
            fold = parts.train if renew is None else renew(number - 1).to(home)
            loss = _epoch(module, fold, how, optimizer, warming, order, number - 1, half)
            if not math.isfinite(loss):
                raise ModelError(f"training diverged in epoch {number}: the loss is {loss}; lower the rate")
            module.eval()
            accuracy = correct(module, parts.val, how.batch) / len(parts.val)
            history.append(Epoch(number, loss, accuracy, time.perf_counter() - started))
            if each is not None:
                each(history[-1], module)
            if progress is not None:
                progress(number / how.epochs)
            good = accuracy > how.until and (also is None or also(module, parts.val))
            reached = good and number >= how.least
            if reached:
                break
            if best is None or accuracy >= best[0]:
                best = (accuracy, copy.deepcopy(module.state_dict()))
    if not reached and best is not None:
        module.load_state_dict(best[1])
    if half:
        module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    module.eval()
    hits = correct(module, parts.test, how.batch)
    if reached and progress is not None:
        progress(1.0)
    why = "" if reached else _why(history, how, also is not None)
    return Trained(module, reached, tuple(history), hits, len(parts.test), why)


def correct(module: nn.Module, fold: Fold, batch: int = 128) -> int:
    """How many examples the model answers right."""
    hits = torch.zeros((), dtype=torch.long, device=fold.labels.device)
    with torch.no_grad():
        for index in fold.batches(batch, torch.arange(len(fold))):
            hits += (fold.logits(module, index).argmax(-1) == fold.labels[index]).sum()
    return int(hits)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Inside the block, random numbers begin at the seed; afterwards they go on as if nothing had been."""
    devices = [torch.cuda.current_device()] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(whole("the seed", seed))
        yield


def _epoch(
    module: nn.Module,
    fold: Fold,
    how: Recipe,
    optimizer: torch.optim.Optimizer,
    warming: torch.optim.lr_scheduler.LRScheduler,
    order: torch.Generator,
    before: int,
    half: bool,
) -> float:
    """Go through the training part once; the mean loss."""
    module.train()
    total = torch.zeros((), device=fold.labels.device)
    steps = 0
    count = -(-len(fold) // how.batch)
    for index in fold.batches(how.batch, torch.randperm(len(fold), generator=order)):
        if len(index) == 1 and len(fold) > 1:
            continue  # batch normalisation needs two
        with torch.autocast(fold.labels.device.type, torch.bfloat16, enabled=half):
            loss = fold.loss(module, index, (before + steps / count) / how.epochs)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        nn.utils.clip_grad_norm_(module.parameters(), how.clip)
        optimizer.step()
        warming.step()
        total += loss.detach()
        steps += 1
    return float(total / max(steps, 1))


def _why(history: list[Epoch], how: Recipe, also: bool) -> str:
    best = max(history, key=lambda one: one.accuracy)
    told = f"the best validation accuracy in {len(history)} epochs was {best.accuracy:.1%}"
    if best.accuracy > how.until:
        further = " together with its further condition" if also else f" in {how.least} epochs or more"
        return f"{told}, above the {how.until:.0%} wanted, but not{further} at the end of training"
    return (
        f"{told}, not above the {how.until:.0%} that shows a model to have learned the plant; train longer, on more "
        "examples, or make the plant more visible"
    )
