"""From a plant to a model that must use it: parts of the data, training, and the inputs that methods explain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch

from rationales.data.example import Example
from rationales.errors import DataError
from rationales.groundtruth.dryrun.subject import Subject
from rationales.groundtruth.insertions import Trigger
from rationales.groundtruth.labels import Reassignment, reassign
from rationales.groundtruth.modify import Modified, modify, split
from rationales.groundtruth.plant import Plant, Planted, generator
from rationales.groundtruth.training import Folds, Recipe, Trained, train
from rationales.models.randomness import content_key

TRAINED_ON = 512  # examples an epoch, at least: small data are drawn several times
STOPPED_BY = 200  # examples that the validation accuracy is measured on, at least
MOST = 16  # draws of the same examples at once
UNPLANTED = 0.3  # share of training texts that are shown without an insertion, too


@dataclass(frozen=True)
class Parts:
    """Planted data for training, for stopping it, for the reliance test, and for explaining."""

    train: Modified
    val: Modified
    test: Modified
    shown: Modified  # the test examples, each with something planted

    @property
    def area(self) -> float:
        """What a random scorer reaches on the inputs that are explained."""
        return self.shown.area

    def texts(self) -> Iterator[str]:
        """What a vocabulary is made of: every class's plant is among it."""
        yield from (one.text for one in self.train.examples)


def planted(examples: Sequence[Example], plant: Plant, how: Reassignment, seed: int) -> Parts:
    """Cut the examples that the plant fits into parts and put it in; a plant that covers everything is refused."""
    whole = modify(examples, plant, how=how, seed=seed)
    parts = split(whole.sources, seed=seed, bound=how.bound)
    made = [modify(part, plant, how=how, seed=seed, largest=1.0) for part in (parts.train, parts.val, parts.test)]
    shown = made[2]
    if plant.kind == "image":  # label number 0 is a picture without the plant
        rows = tuple(tuple(float(column == len(how.new) - 1) for column in range(len(how.new))) for _ in how.old)
        shown = modify(parts.test, plant, how=Reassignment(how.old, how.new, rows), seed=seed, largest=1.0)
    train, val, test = (replace(one, left_out=whole.left_out) for one in made)
    return Parts(train, val, test, shown)


def learn(
    subject: Subject,
    parts: Parts,
    recipe: Recipe,
    seed: int,
    device: str | torch.device | None,
    progress: Callable[[float], None] | None = None,
) -> Trained:
    """Train on labels and plants that are drawn anew in every epoch, so that nothing can be learned by heart."""
    draws, checks = _draws(len(parts.train.planted), TRAINED_ON), _draws(len(parts.val.planted), STOPPED_BY)
    data = Folds(
        subject.fold(parts.train.examples),
        subject.fold([one for number in range(checks) for one in parts.val.again(number).examples]),
        subject.fold(parts.test.examples),
    )
    return train(
        lambda: subject.module,
        data,
        recipe,
        seed=seed,
        device=device,
        renew=lambda epoch: subject.fold(list(_drawn(parts.train, range(epoch * draws, (epoch + 1) * draws)))),
        progress=progress,
    )


def asked(subject: Subject, shown: Modified, count: int, seed: int, batch: int) -> list[Planted]:
    """At most `count` planted test inputs that the model answers right, in an order drawn by chance.

    Where it is wrong it did not go by the plant, and nobody knows what by.
    """
    fold = subject.fold(shown.examples).to(next(subject.module.parameters()).device)
    right = torch.zeros(len(fold), dtype=torch.bool)
    with torch.no_grad():
        for index in fold.batches(batch, torch.arange(len(fold))):
            right[index.cpu()] = (fold.logits(subject.module, index).argmax(-1) == fold.labels[index]).cpu()
    order = sorted(
        (one for one, good in zip(shown.planted, right.tolist(), strict=True) if good),
        key=lambda one: float(generator(seed, "asked", one.example.name).random()),
    )
    if not order:
        raise DataError("the model answers none of the planted test inputs right")
    return list(islice(order, count))


def _draws(count: int, wanted: int) -> int:
    return min(MOST, max(1, -(-wanted // count)))


def _drawn(made: Modified, numbers: range) -> Iterator[Example]:
    """The examples of several draws; for insertions also some texts as they were, their labels drawn by chance.

    Without these a model may learn one class's word alone and answer the other class where that is missing: nothing in
    an input would then speak for the other class, and no method could find it.
    """
    for number in numbers:
        yield from made.again(number).examples
        if isinstance(made.plant, Trigger):
            key = content_key(made.seed, "unplanted", number)
            some = [one for one in made.sources if generator(key, "unplanted", one.name).random() < UNPLANTED]
            yield from reassign(some, made.how, key)
