"""Training of a masker for one model: MaRC's objective, descended on by a network over many texts instead of one mask.

Where a mask has no size of its own, as by default, what MaRC finds is imitated instead (lessons.py). No labels are
needed: the target is what the model predicts, and now and then another class, so that any can be asked for. Everything
that is drawn is a function of the seed and the texts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rationales.errors import DataError, InputError, OptionError
from rationales.masks.descent import losses
from rationales.masks.lessons import Lessons, targets
from rationales.masks.masker import Network, Shape, predict
from rationales.masks.masker_file import Card, Masker
from rationales.masks.objective import Problem
from rationales.masks.optimize import quick
from rationales.masks.settings import DEFAULT, MaskSettings
from rationales.masks.shelves import Shelf, Shelves
from rationales.models.fingerprint import fingerprint
from rationales.models.probing import check_gradients
from rationales.models.text import TextModel
from rationales.models.text_batch import TextBatch
from rationales.options import check_option, option


@dataclass(frozen=True)
class TrainSettings:
    """How a masker is trained, and its size."""

    steps: int = option(3000, "training steps at most")
    minutes: float = option(0.0, "training ends after so many minutes, its rate falling accordingly; 0: no limit")
    inputs: int = option(32, "texts in a step at most")
    tokens: int = option(16384, "tokens in a step at most, if that is fewer texts")
    rate: float = option(2e-3, "largest learning rate of AdamW")
    warm_up: float = option(0.05, "share of the training in which the rate rises; then it falls to 0 as a cosine")
    decay: float = option(0.01, "weight decay of AdamW")
    others: float = option(0.2, "share of texts for which another class than the predicted one is the target")
    held: int = option(200, "texts held out to choose the best state by, at most a tenth of all")
    looks: int = option(10, "how often the held-out texts are looked at")
    width: int = option(128, "width of the network")
    layers: int = option(2, "layers of the network")
    heads: int = option(4, "attention heads of a layer")
    widest: float = option(6.0, "sigma in units at most; 0: whatever `reach` allows")
    seed: int = option(0, "of the network's start and of everything that is drawn")

    def __post_init__(self) -> None:
        for one in fields(self):
            check_option(one.name, getattr(self, one.name), str(one.type), ())
        for name in ("steps", "inputs", "tokens", "rate", "held", "looks", "width", "layers", "heads"):
            if getattr(self, name) <= 0:
                raise OptionError(f"{name} must be greater than 0, not {getattr(self, name)}")
        for name in ("minutes", "decay", "widest"):
            if getattr(self, name) < 0:
                raise OptionError(f"{name} must not be negative, but is {getattr(self, name)}")
        for name in ("warm_up", "others"):
            if not 0 <= getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 0 and less than 1, not {getattr(self, name)}")
        if self.width % self.heads:
            raise OptionError(f"width ({self.width}) must be a multiple of heads ({self.heads})")


@dataclass(frozen=True)
class Look:
    """What is told after a look at the held-out texts."""

    step: int
    loss: float  # MaRC's without noise, or the distance from what MaRC finds; mean over held-out texts
    best: bool
    seconds: float


def train(
    model: TextModel,
    texts: Sequence[str | tuple[str, str]],
    settings: TrainSettings | None = None,
    objective: MaskSettings = DEFAULT,
    progress: Callable[[float], None] | None = None,
    tell: Callable[[Look], None] | None = None,
) -> Masker:
    """A masker for `model` from texts without labels; the model is given back as it was.

    Empty texts and repetitions are left out. On the CPU the same seed gives the same bits, unless `minutes` ends the
    training.
    """
    settings = settings or TrainSettings()
    objective = objective.on(None)
    if objective.own:
        objective = replace(objective, warm=0, anchor=0.0)
    begun = time.monotonic()
    kept = list(dict.fromkeys(one for one in texts if not isinstance(one, str) or one.strip()))
    draw = torch.Generator().manual_seed(settings.seed)
    sources = [model.read(kept[number], None) for number in torch.randperm(len(kept), generator=draw).tolist()]
    held = min(settings.held, max(1, len(kept) // 10)) if len(kept) > 1 else 0
    with torch.inference_mode(False), torch.enable_grad(), model.borrowed():
        check = list(Shelves(model, sources[:held] or sources, settings.seed))
        if not check:
            raise DataError("there are no texts to train a masker on; give some that are not empty")
        check_gradients(check[0].batch)
        run = _Run(_fresh(check[0].batch, settings), settings, objective, check, begun)
        figures = run.all(Shelves(model, sources[held:], settings.seed), draw, progress, tell)
        card = Card(
            fingerprint=fingerprint(check[0].batch),
            model=model.name,
            baseline=model.baseline,
            unit=model.unit,
            labels=model.labels,
            objective=objective,
            training={"texts": len(kept) - held, "held": held, "seed": settings.seed} | figures,
        )
    return Masker(run.network.requires_grad_(False).eval(), card)


def validate(masker: Masker, model: TextModel, texts: Sequence[str | tuple[str, str]]) -> float:
    """MaRC's loss (Eq. 8) without noise, or the distance from what MaRC finds; for the class that is predicted."""
    with torch.inference_mode(False), model.borrowed():
        shelves = list(Shelves(model, [model.read(one, None) for one in texts], seed=0))
        return _validate(masker.network, shelves, Lessons(masker.card.objective, 0.0), TrainSettings())


def _fresh(batch: TextBatch, settings: TrainSettings) -> Network:
    """A network at its start; made on the CPU, so that the same seed starts alike everywhere."""
    size = {name: getattr(settings, name) for name in ("width", "layers", "heads", "widest")}
    shape = Shape.of(batch, **size)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(settings.seed)  # of the CPU alone: no other device's is touched
        network = Network(shape)
    return network.to(batch.device)


@dataclass(eq=False)
class _Run:
    """A training on its way."""

    network: Network
    settings: TrainSettings
    objective: MaskSettings
    check: Sequence[Shelf]
    begun: float
    step: int = 0
    looked: int = 0
    best: float = math.inf
    best_step: int = 0
    state: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lessons = Lessons(self.objective, self.settings.others)
        self.tests = Lessons(self.objective, 0.0)

    def all(
        self,
        shelves: Shelves,
        draw: torch.Generator,
        progress: Callable[[float], None] | None,
        tell: Callable[[Look], None] | None,
    ) -> dict[str, Any]:
        """Train until the end, put the best state in place, and give figures about it."""
        weights = [one for one in self.network.parameters() if one.numel()]
        optimiser = torch.optim.AdamW(
            [
                {"params": [one for one in weights if one.dim() > 1], "weight_decay": self.settings.decay},
                {"params": [one for one in weights if one.dim() == 1], "weight_decay": 0.0},
            ]
        )
        done = 0.0
        while done < 1:
            before = self.step
            for shelf, group in shelves.drawn(self.settings.inputs, self.settings.tokens, draw):
                for one, slope in zip(weights, self._slopes(weights, shelf, group), strict=True):
                    one.grad = slope
                torch.nn.utils.clip_grad_norm_(weights, 1.0)
                for part in optimiser.param_groups:
                    part["lr"] = self._rate()
                optimiser.step()
                self.step += 1
                done = self._done()
                if progress is not None:
                    progress(min(done, 1.0))
                if done * self.settings.looks >= self.looked + 1 or done >= 1:
                    self._look(done, tell)
                if done >= 1:
                    break
            if self.step == before:
                raise DataError("the tokenizer makes nothing of any text to train on")
        if not self.state:
            raise InputError("the training found no finite loss; lower the rate, or check the model's weights")
        self.network.load_state_dict(self.state)
        return {"steps": self.step, "best_step": self.best_step, "held_out_loss": round(self.best, 6)}

    def _slopes(self, weights: Sequence[Tensor], shelf: Shelf, group: list[int]) -> tuple[Tensor, ...]:
        if not self.objective.own:
            loss = partial(self.lessons.loss, self.network, shelf, group)
            return shelf.batch.fit(lambda: torch.autograd.grad(loss().mean(), weights))
        part = shelf.batch.take(group)
        predicted = shelf.predicted[torch.tensor(group, device=part.device)]
        target = targets(part, predicted, self.settings.others, self.step)
        quickly, objective = quick(part, self.objective)
        problem = Problem.of(quickly, target, objective)
        count = torch.full((part.masks,), self.step, device=part.device)

        def work() -> tuple[Tensor, ...]:
            w, sigma = predict(self.network, part, target, self.objective)
            return torch.autograd.grad(losses(problem, w, sigma, count).mean(), weights)

        found = part.fit(work)
        shelf.batch.budget = part.budget  # what did not fit once is not tried again
        return found

    def _look(self, done: float, tell: Callable[[Look], None] | None) -> None:
        self.looked = int(done * self.settings.looks)
        found = _validate(self.network, self.check, self.tests, self.settings)
        better = found < self.best
        if better:
            self.best, self.best_step = found, self.step
            self.state = {name: value.clone() for name, value in self.network.state_dict().items()}
        if tell is not None:
            tell(Look(self.step, found, better, time.monotonic() - self.begun))

    def _done(self) -> float:
        """How far the training is, by steps or by the clock, whichever is further."""
        clock = (time.monotonic() - self.begun) / (60 * self.settings.minutes) if self.settings.minutes else 0.0
        return max(self.step / self.settings.steps, clock)

    def _rate(self) -> float:
        """Linear up, then half a cosine down to 0."""
        done, warm = min(self._done(), 1.0), self.settings.warm_up
        if done < warm:
            return self.settings.rate * max(done, 1 / self.settings.steps) / warm
        return self.settings.rate * 0.5 * (1 + math.cos(math.pi * (done - warm) / (1 - warm)))


def _validate(network: Network, shelves: Sequence[Shelf], lessons: Lessons, settings: TrainSettings) -> float:
    """For the predicted class, mean over inputs: Eq. 8 without noise, or the distance from what the lessons say."""
    objective, total, count = replace(lessons.objective, noise=0.0, flip=0.0), 0.0, 0
    for shelf in shelves:
        for group in shelf.groups(settings.inputs, settings.tokens):
            with torch.no_grad():
                if objective.own:
                    part = shelf.batch.take(group)
                    target = shelf.predicted[torch.tensor(group, device=part.device)]
                    w, sigma = predict(network, part, target, objective)
                    first = torch.zeros(part.masks, dtype=torch.long, device=part.device)
                    found = losses(Problem.of(part, target, objective), w, sigma, first)
                else:
                    found = lessons.loss(network, shelf, group)
            total += float(found.sum())
            count += len(group)
    return total / count
