"""Label reassignment: new labels that the original features predict only to a known accuracy (Zhou et al. 2022, 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rationales.data.example import Example
from rationales.errors import DataError, OptionError
from rationales.groundtruth.plants.plant import random_generator

ORIGINAL_LABEL = "original label"  # key of the original label in the `meta` of an example


@dataclass(frozen=True)
class Reassignment:
    """An example with the label `old_labels[i]` gets `new_labels[j]` with probability `matrix[i][j]`."""

    old_labels: tuple[str, ...]
    new_labels: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        equal_rows = len({len(row) for row in self.matrix}) == 1
        matrix = np.array(self.matrix, dtype=np.float64) if equal_rows else np.empty(0)
        if matrix.shape != (len(self.old_labels), len(self.new_labels)):
            raise OptionError(
                f"the matrix must have a row for each of {len(self.old_labels)} classes and a column for each of "
                f"{len(self.new_labels)} new labels"
            )
        for labels in (self.old_labels, self.new_labels):
            if len(set(labels)) < len(labels):
                raise OptionError(f"labels are named twice: {', '.join(labels)}")
        if len(self.new_labels) < 2:
            raise OptionError("at least two labels are needed, or there is nothing to predict")
        if not np.isfinite(matrix).all() or (matrix < 0).any() or not np.allclose(matrix.sum(1), 1, atol=1e-6):
            raise OptionError("every row of the matrix holds probabilities that add up to 1")

    @property
    def bound(self) -> float:
        """p* = max R_ij: the largest expected accuracy without the plant, for any distribution of the classes."""
        return float(np.max(self.array))

    def bound_for(self, counts: Sequence[int]) -> float:
        """The bound for classes of these sizes, reached by the likeliest new label of every class; at most p*."""
        sizes = np.asarray(counts, dtype=np.float64)
        if sizes.shape != (len(self.old_labels),) or sizes.sum() <= 0:
            raise OptionError(f"give how many examples each of the {len(self.old_labels)} classes has")
        return float((sizes / sizes.sum()) @ self.array.max(1))

    @property
    def array(self) -> NDArray[np.float64]:
        """(old_labels, new_labels): the matrix of probabilities."""
        return np.array(self.matrix, dtype=np.float64)

    def draw_label(self, example: Example, seed: int) -> str:
        """Draw the new label of an example; it depends only on the seed and the example's name."""
        if example.label not in self.old_labels:
            actual = "no label" if example.label is None else f"the label {example.label!r}"
            raise DataError(f"{example.name} has {actual}; it must be one of {', '.join(self.old_labels)}")
        cumulative = np.cumsum(self.matrix[self.old_labels.index(example.label)])
        uniform = random_generator(seed, "label", example.name).random() * cumulative[-1]
        return self.new_labels[int(np.searchsorted(cumulative, uniform, side="right"))]


def reassignment_keeping(labels: Sequence[str], r: float = 0.5) -> Reassignment:
    """A label is kept with probability r, else replaced by any other with equal probability; r = 1/K is uniform."""
    if not 0 <= r <= 1:
        raise OptionError(f"r is the probability that a label is kept, between 0 and 1; not {r}")
    n_labels = len(labels)
    if n_labels < 2:
        raise OptionError("at least two labels are needed, or there is nothing to predict")
    off_diagonal = (1 - r) / (n_labels - 1)
    rows = tuple(tuple(r if i == j else off_diagonal for j in range(n_labels)) for i in range(n_labels))
    return Reassignment(tuple(labels), tuple(labels), rows)


def uniform_reassignment(old_labels: Sequence[str], new_labels: Sequence[str]) -> Reassignment:
    """All new labels are equally likely for every class: the original features carry no information."""
    row = tuple(1 / len(new_labels) for _ in new_labels)
    return Reassignment(tuple(old_labels), tuple(new_labels), tuple(row for _ in old_labels))


def reassign(examples: Sequence[Example], reassignment: Reassignment, seed: int = 0) -> list[Example]:
    """The examples with new labels, in the same order; `meta` keeps the original label.

    Each label is drawn from the seed and the example's name, so names must be unique.
    """
    names: set[str] = set()
    for example in examples:
        if example.name in names:
            raise DataError(f"two examples are called {example.name!r}; names must be unique to draw labels from them")
        names.add(example.name)
    return [
        replace(
            example,
            label=reassignment.draw_label(example, seed),
            meta={**example.meta, ORIGINAL_LABEL: str(example.label)},
        )
        for example in examples
    ]


def sorted_labels(examples: Sequence[Example]) -> tuple[str, ...]:
    """The labels of the examples, sorted; an example without a label is an error."""
    unlabelled = [example.name for example in examples if example.label is None]
    if unlabelled:
        raise DataError(f"{len(unlabelled)} examples have no label, such as {unlabelled[0]}")
    return tuple(sorted({str(example.label) for example in examples}))
