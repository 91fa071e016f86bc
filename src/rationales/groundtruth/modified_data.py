"""Data with a known cause: labels are reassigned, the plant is put in, and the accuracy without it is bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rationales.data.example import Example, words_of
from rationales.errors import DataError, OptionError
from rationales.groundtruth.label_reassignment import Reassignment, reassign, reassignment_keeping, sorted_labels
from rationales.groundtruth.plants.plant import Plant, PlantedExample, random_generator
from rationales.groundtruth.plants.regions import area, units_in_region
from rationales.groundtruth.theory import min_test_size
from rationales.models.batch.rows import content_key
from rationales.models.text.units import words
from rationales.rationale_parts import Unit

MAX_AREA = 0.95  # mean share of the input that a plant may cover; above it random scores find the plant, too
SHARES = (0.7, 0.15, 0.15)  # train, validation, test
LISTED_EXAMPLES = 3  # examples that a message lists


@dataclass(frozen=True, eq=False)
class ModifiedData:
    """Planted examples with everything that is known about them."""

    planted: tuple[PlantedExample, ...]
    labels: tuple[str, ...]  # the new labels; label i has manipulation i
    plant: Plant
    reassignment: Reassignment
    seed: int
    left_out: tuple[tuple[str, str], ...] = ()  # name and reason for each example that the plant does not fit
    sources: tuple[Example, ...] = ()  # the original examples, without those left out

    @property
    def bound(self) -> float:
        """The largest expected accuracy of a model that does not use the plant."""
        return self.reassignment.bound

    @property
    def area(self) -> float:
        """The mean share of an input that the joint region covers: the expected Attr% of random scores."""
        return float(np.mean([region_share(planted) for planted in self.planted]))

    @property
    def examples(self) -> list[Example]:
        """The planted examples as models and methods read them."""
        return [planted.example for planted in self.planted]

    def redraw(self, index: int) -> ModifiedData:
        """The same examples with new labels and plants; index 0 gives this draw again.

        A model that is trained on a different draw in each epoch cannot memorise any of them.
        """
        seed = content_key(self.seed, "again", index) if index else self.seed
        return modify(self.sources, self.plant, reassignment=self.reassignment, seed=seed, max_area=1.0)


@dataclass(frozen=True)
class DataSplit:
    """Examples for training, validation and test."""

    train: list[Example] = field(default_factory=list)
    val: list[Example] = field(default_factory=list)
    test: list[Example] = field(default_factory=list)


def modify(
    examples: Sequence[Example],
    plant: Plant,
    *,
    r: float = 0.5,
    reassignment: Reassignment | None = None,
    seed: int = 0,
    max_area: float = MAX_AREA,
) -> ModifiedData:
    """Reassign the labels and put the plant in.

    `r` is the probability that a label is kept; `reassignment` gives a full matrix instead, from the labels of the
    examples to new ones. Label i gets manipulation i. Examples that the plant does not fit are left out and listed.
    Modify training, validation and test data in one call, or each with the same reassignment and seed. A plant that
    covers more than `max_area` of the inputs is an error.
    """
    if not examples:
        raise DataError("there are no examples to plant anything in")
    if reassignment is None:
        reassignment = reassignment_keeping(sorted_labels(examples), r)
    labels = reassignment.new_labels
    if len(labels) > plant.n_classes:
        raise OptionError(
            f"{plant.name} can tell {plant.n_classes} classes apart, and there are {len(labels)}: "
            f"{', '.join(labels)}; take examples of {plant.n_classes} classes, or reassign to fewer labels"
        )
    reasons = [plant.reason_unfit(example) for example in examples]
    left_out = tuple((example.name, reason) for example, reason in zip(examples, reasons, strict=True) if reason)
    fitting = [example for example, reason in zip(examples, reasons, strict=True) if not reason]
    if not fitting:
        listed = "; ".join(f"{name}: {reason}" for name, reason in left_out[:LISTED_EXAMPLES])
        raise DataError(f"{plant.name} fits none of the {len(examples)} examples ({listed})")
    labelled = reassign(fitting, reassignment, seed)
    planted = plant.apply_all(
        labelled,
        [random_generator(seed, f"plant {plant.name}", example.name) for example in labelled],
        [labels.index(str(example.label)) for example in labelled],
    )
    modified = ModifiedData(tuple(planted), labels, plant, reassignment, seed, left_out, tuple(fitting))
    covered = modified.area
    if covered > max_area:
        raise DataError(
            f"{plant.name} covers {covered:.0%} of the inputs, so that every method would find it by chance; make it "
            f"smaller (at most {max_area:.0%})"
        )
    return modified


def split(
    examples: Sequence[Example],
    *,
    shares: tuple[float, float, float] = SHARES,
    seed: int = 0,
    bound: float = 0.5,
    level: float = 0.01,
) -> DataSplit:
    """Split examples at random into train, validation and test, each class in the same shares.

    The split does not depend on the order of the examples. A class that is too small is an error: every class needs an
    example in each part, and the test part must be large enough for a perfect model to pass the reliance test at this
    significance level (see `theory.reliance_test`).
    """
    if min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
        raise OptionError(f"train, validation and test are three shares that add up to 1, not {shares}")
    min_test = min_test_size(bound, level)
    result = DataSplit()
    classes = sorted_labels(examples)
    for label in classes:
        members = sorted(
            (example for example in examples if example.label == label),
            key=lambda example: (float(random_generator(seed, "split", example.name).random()), example.name),
        )
        min_class_test = max(-(-min_test // len(classes)), 1)
        n_val = max(round(shares[1] * len(members)), 1)
        n_test = max(round(shares[2] * len(members)), min_class_test)
        if len(members) - n_val - n_test < max(n_val, n_test):
            enough = int(np.ceil(max(min_class_test / shares[2], 1 / shares[1])))
            raise DataError(
                f"class {label!r} has {len(members)} examples, too few to train, validate and test; give about "
                f"{enough} of each class or more"
            )
        result.test.extend(members[:n_test])
        result.val.extend(members[n_test : n_test + n_val])
        result.train.extend(members[n_test + n_val :])
    return result


def truncate_texts(examples: Sequence[Example], max_words: int) -> list[Example]:
    """Cut texts after this many white-space words, before anything is planted, so that models read every plant."""
    return [_truncate(example, max_words) for example in examples]


def region_share(planted: PlantedExample) -> float:
    """The share of the pixels, or of the words, inside the joint region."""
    region = planted.region
    if isinstance(region, np.ndarray):
        return area(region)
    return area(units_in_region(region, text_units(planted.example.text)))


def text_units(text: str) -> list[Unit]:
    """The words of a text as units: those of a word-level model."""
    return [Unit(text[start:end], start, end, 0) for start, end in words(text)]


def _truncate(example: Example, max_words: int) -> Example:
    extents = words_of(example.text)
    if len(extents) <= max_words:
        return example
    end = extents[max_words - 1][1]
    changes: dict[str, Any] = {"text": example.text[:end], "spans": None, "annotator_spans": ()}
    return replace(example, **changes)
