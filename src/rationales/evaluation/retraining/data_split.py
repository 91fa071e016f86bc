"""Labelled texts for training and for testing: as they are given, or divided class by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from rationales.errors import InputError, RationalesError
from rationales.evaluation.preparation import whereabouts
from rationales.models.model import Model


def labels_of(model: Model, examples: Sequence[Any]) -> list[int]:
    """The class of every example; an error names the first one without a label."""
    labels = []
    for example in examples:
        if example.label is None:
            raise InputError(
                f"{whereabouts(example)} has no label, and ROAR trains and tests classifiers: every example needs one"
            )
        try:
            label = model.target(example.label)
        except RationalesError as error:
            raise InputError(f"{whereabouts(example)}: {error}") from None
        labels.append(int(label or 0))
    return labels


def divide(labels: Sequence[int], test_share: float, seed: int) -> tuple[list[int], list[int]]:
    """Numbers of the training and of the test examples; of each class the same share, at least one, is tested."""
    random = np.random.default_rng(seed)
    train: list[int] = []
    test: list[int] = []
    for label in sorted(set(labels)):
        members = random.permutation([number for number, item in enumerate(labels) if item == label]).tolist()
        if len(members) < 2:
            raise InputError(
                f"only one example has the class {label}; ROAR needs some for training and some for testing: give "
                "more, or training data of their own (train=..., --train)"
            )
        count = min(len(members) - 1, max(1, round(test_share * len(members))))
        test += members[:count]
        train += members[count:]
    return sorted(train), sorted(test)


def check_classes(train: Sequence[int], test: Sequence[int], names: Sequence[str]) -> float:
    """The share of the most frequent class of the test examples, the level of chance; an error for a single class."""
    if len(set(train)) < 2:
        only = names[train[0]]
        raise InputError(f"all training examples are {only}; ROAR needs at least two classes to train a classifier")
    return max(Counter(test).values()) / len(test)
