"""A data set whose true cause is known: labels reassigned, the plant put in, and what that guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rationales.data.example import Example, words_of
from rationales.errors import DataError, OptionError
from rationales.groundtruth.labels import Reassignment, keeping, labels_of, reassign
from rationales.groundtruth.plant import Plant, Planted, generator
from rationales.groundtruth.regions import area, on_units
from rationales.groundtruth.theory import smallest_test
from rationales.models.randomness import content_key
from rationales.models.units import words
from rationales.parts import Unit

LARGEST = 0.95  # share of the input that a plant may cover on average; beyond, every scorer finds it by chance
SHARES = (0.7, 0.15, 0.15)  # train, validation, test
TOLD = 3  # examples that a message names


@dataclass(frozen=True, eq=False)
class Modified:
    """Planted examples, and what is known of them."""

    planted: tuple[Planted, ...]
    labels: tuple[str, ...]  # the new ones; the number of a label is that of its manipulation
    plant: Plant
    how: Reassignment
    seed: int
    left_out: tuple[tuple[str, str], ...] = ()  # names of examples that the plant does not fit, and why
    sources: tuple[Example, ...] = ()  # the examples as they were, but for those left out

    @property
    def bound(self) -> float:
        """The accuracy that no model which does not use the plant is expected to exceed."""
        return self.how.bound

    @property
    def area(self) -> float:
        """The mean share of an input that the joint region covers: what a random scorer reaches."""
        return float(np.mean([region_share(one) for one in self.planted]))

    @property
    def examples(self) -> list[Example]:
        """What models and methods read."""
        return [one.example for one in self.planted]

    def again(self, number: int) -> Modified:
        """The same examples with labels and plants drawn anew: as good a sample as the first, number 0.

        A model that is trained on another one in each epoch cannot learn any of them by heart.
        """
        seed = content_key(self.seed, "again", number) if number else self.seed
        return modify(self.sources, self.plant, how=self.how, seed=seed, largest=1.0)


@dataclass(frozen=True)
class Split:
    """Examples for training, for stopping it and for everything that is reported."""

    train: list[Example] = field(default_factory=list)
    val: list[Example] = field(default_factory=list)
    test: list[Example] = field(default_factory=list)


def modify(
    examples: Sequence[Example],
    plant: Plant,
    *,
    r: float = 0.5,
    how: Reassignment | None = None,
    seed: int = 0,
    largest: float = LARGEST,
) -> Modified:
    """Reassign the labels and put the plant in.

    `r`: the probability that a label stays; or `how`: a whole matrix, from the examples' labels to new ones. Label
    number i gets manipulation number i. Examples that the plant does not fit are left out and told. Train, validation
    and test go through this alike: in one call, or each with the same `how` and seed. A plant that covers more than
    `largest` of the inputs is refused.
    """
    if not examples:
        raise DataError("there are no examples to plant anything in")
    reassignment = how if how is not None else keeping(labels_of(examples), r)
    if len(reassignment.new) > plant.classes:
        raise OptionError(
            f"{plant.name} can tell {plant.classes} classes apart, and there are {len(reassignment.new)}: "
            f"{', '.join(reassignment.new)}; take examples of {plant.classes} classes, or reassign to fewer labels"
        )
    why = [plant.fits(one) for one in examples]
    left_out = tuple((one.name, reason) for one, reason in zip(examples, why, strict=True) if reason)
    fitting = [one for one, reason in zip(examples, why, strict=True) if not reason]
    if not fitting:
        told = "; ".join(f"{name}: {reason}" for name, reason in left_out[:TOLD])
        raise DataError(f"{plant.name} fits none of the {len(examples)} examples ({told})")
    labelled = reassign(fitting, reassignment, seed)
    planted = plant.apply_all(
        labelled,
        [generator(seed, f"plant {plant.name}", one.name) for one in labelled],
        [reassignment.new.index(str(one.label)) for one in labelled],
    )
    made = Modified(tuple(planted), reassignment.new, plant, reassignment, seed, left_out, tuple(fitting))
    covered = made.area
    if covered > largest:
        raise DataError(
            f"{plant.name} covers {covered:.0%} of the inputs, so that every method would find it by chance; make it "
            f"smaller (at most {largest:.0%})"
        )
    return made


def split(
    examples: Sequence[Example],
    *,
    shares: tuple[float, float, float] = SHARES,
    seed: int = 0,
    bound: float = 0.5,
    level: float = 0.01,
) -> Split:
    """Cut examples into three by chance, each class in the same shares, whatever their order.

    Refused where a class is too small: every class needs an example in each part, and the test part so many that a
    perfect model can show its reliance on the plant at this level (see `theory.reliance`).
    """
    if min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
        raise OptionError(f"train, validation and test are three shares that add up to 1, not {shares}")
    least = smallest_test(bound, level)
    made = Split()
    classes = labels_of(examples)
    for label in classes:
        own = sorted(
            (one for one in examples if one.label == label),
            key=lambda one: (float(generator(seed, "split", one.name).random()), one.name),
        )
        needed = max(-(-least // len(classes)), 1)  # of the test part
        parts = [max(round(share * len(own)), needed if number == 2 else 1) for number, share in enumerate(shares)]
        train = len(own) - parts[1] - parts[2]
        if train < max(parts[1], parts[2]):
            enough = int(np.ceil(max(needed / shares[2], 1 / shares[1])))
            raise DataError(
                f"class {label!r} has {len(own)} examples, too few to train, to stop and to test; give about {enough} "
                "of each class or more"
            )
        made.test.extend(own[: parts[2]])
        made.val.extend(own[parts[2] : parts[2] + parts[1]])
        made.train.extend(own[parts[2] + parts[1] :])
    return made


def shortened(examples: Sequence[Example], longest: int) -> list[Example]:
    """Texts cut after so many white-space words, before anything is planted: models then see every plant."""
    return [_cut(one, longest) for one in examples]


def region_share(planted: Planted) -> float:
    """The share of the pixels, or of the words, that lies in the joint region."""
    region = planted.region
    return area(region) if isinstance(region, np.ndarray) else area(on_units(region, text_units(planted.example.text)))


def text_units(text: str) -> list[Unit]:
    """The words of a text as units: what a word-level model is explained by."""
    return [Unit(text[start:end], start, end, 0) for start, end in words(text)]


def _cut(example: Example, longest: int) -> Example:
    extents = words_of(example.text)
    if len(extents) <= longest:
        return example
    end = extents[longest - 1][1]
    cut: dict[str, Any] = {"text": example.text[:end], "spans": None, "others": ()}
    return replace(example, **cut)
