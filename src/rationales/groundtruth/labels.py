"""New labels that the original features predict only so well (Zhou et al. 2022, section 4, label reassignment)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rationales.data.example import Example
from rationales.errors import DataError, OptionError
from rationales.groundtruth.plant import generator

ORIGINAL = "original label"  # under which an example's meta keeps it


@dataclass(frozen=True)
class Reassignment:
    """An example of class `old[i]` gets the label `new[j]` with the probability `matrix[i][j]`."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        told = np.array(self.matrix, dtype=np.float64) if len({len(row) for row in self.matrix}) == 1 else np.empty(0)
        if told.shape != (len(self.old), len(self.new)):
            raise OptionError(
                f"the matrix must have a row for each of {len(self.old)} classes and a column for each of "
                f"{len(self.new)} new labels"
            )
        for labels in (self.old, self.new):
            if len(set(labels)) < len(labels):
                raise OptionError(f"labels are named twice: {', '.join(labels)}")
        if len(self.new) < 2:
            raise OptionError("there must be two labels at least, or there is nothing to predict")
        if not np.isfinite(told).all() or (told < 0).any() or not np.allclose(told.sum(1), 1, atol=1e-6):
            raise OptionError("every row of the matrix holds probabilities that add up to 1")

    @property
    def bound(self) -> float:
        """p* = max R_ij: no model that does not use the plant is expected to be more accurate, whatever the classes."""
        return float(np.max(self.array))

    def bound_for(self, counts: Sequence[int]) -> float:
        """The same for classes of these sizes: the original label known, its likeliest new one guessed. At most p*."""
        share = np.asarray(counts, dtype=np.float64)
        if share.shape != (len(self.old),) or share.sum() <= 0:
            raise OptionError(f"give how many examples each of the {len(self.old)} classes has")
        return float((share / share.sum()) @ self.array.max(1))

    @property
    def array(self) -> NDArray[np.float64]:
        """(old, new)."""
        return np.array(self.matrix, dtype=np.float64)

    def draw(self, example: Example, seed: int) -> str:
        """The new label; it depends on the seed and the example's name alone."""
        if example.label not in self.old:
            told = "no label" if example.label is None else f"the label {example.label!r}"
            raise DataError(f"{example.name} has {told}; it must be one of {', '.join(self.old)}")
        chance = np.cumsum(self.matrix[self.old.index(example.label)])
        drawn = generator(seed, "label", example.name).random() * chance[-1]
        return self.new[int(np.searchsorted(chance, drawn, side="right"))]


def keeping(labels: Sequence[str], r: float = 0.5) -> Reassignment:
    """The label stays with probability r, else it becomes any other, each as likely; r = 1/K tells nothing."""
    if not 0 <= r <= 1:
        raise OptionError(f"r is the probability that a label stays, between 0 and 1; not {r}")
    count = len(labels)
    if count < 2:
        raise OptionError("there must be two labels at least, or there is nothing to predict")
    other = (1 - r) / (count - 1)
    rows = tuple(tuple(r if i == j else other for j in range(count)) for i in range(count))
    return Reassignment(tuple(labels), tuple(labels), rows)


def random(old: Sequence[str], new: Sequence[str]) -> Reassignment:
    """Any new label, each as likely, whatever the class: the original features tell nothing."""
    row = tuple(1 / len(new) for _ in new)
    return Reassignment(tuple(old), tuple(new), tuple(row for _ in old))


def reassign(examples: Sequence[Example], how: Reassignment, seed: int = 0) -> list[Example]:
    """The examples with new labels, in the same order; `meta` keeps the original one.

    Each label is drawn from the seed and the example's name, so that names must be unique.
    """
    seen: set[str] = set()
    for example in examples:
        if example.name in seen:
            raise DataError(f"two examples are called {example.name!r}; names must be unique to draw labels from them")
        seen.add(example.name)
    return [replace(one, label=how.draw(one, seed), meta={**one.meta, ORIGINAL: str(one.label)}) for one in examples]


def labels_of(examples: Sequence[Example]) -> tuple[str, ...]:
    """The labels there are, sorted."""
    without = [one.name for one in examples if one.label is None]
    if without:
        raise DataError(f"{len(without)} examples have no label, such as {without[0]}")
    return tuple(sorted({str(one.label) for one in examples}))
