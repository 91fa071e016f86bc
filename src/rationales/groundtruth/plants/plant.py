"""The interface of a plant: a known cause that is put into an example, and the exact region where it acts.

`Do Feature Attribution Methods Correctly Attribute Features?` (Zhou et al. 2022), section 4. A plant holds one
manipulation per class; manipulation 0 may leave the example unchanged. Every example has a random generator of its own,
so the result does not depend on the order of the examples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rationales.data.example import Example
from rationales.errors import OptionError
from rationales.groundtruth.plants.regions import Region
from rationales.models.batch.rows import content_key


@dataclass(frozen=True, eq=False)
class PlantedExample:
    """An example with its plant."""

    example: Example  # the modified example, as a model reads it; the spans of a text are its region
    region: Region  # the joint effective region: everything that the manipulation of any class could change here
    changed: Region  # what the applied manipulation did change
    distractors: Region  # looks like the plant but is independent of the class; empty except for `cn` and `nc`
    manipulation: int  # index of the applied manipulation


@dataclass(frozen=True)
class Plant(ABC):
    """Base class of all plants: a frozen dataclass of parameters with `reason_unfit` and `apply`.

    To add a plant, derive from this class and add the class to `catalogue.PLANTS`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    kind: ClassVar[str]  # image or text

    @property
    def n_classes(self) -> int:
        """Number of manipulations, including one that changes nothing."""
        return 2

    def reason_unfit(self, example: Example) -> str:
        """Why the plant cannot be put into this example; empty if it can."""
        return ""

    @abstractmethod
    def apply(self, example: Example, rng: np.random.Generator, manipulation: int = 1) -> PlantedExample:
        """Apply one manipulation to the example; all random choices are drawn from `rng`."""

    def apply_all(
        self, examples: Sequence[Example], rngs: Sequence[np.random.Generator], manipulations: Sequence[int]
    ) -> list[PlantedExample]:
        """`apply` for many examples, each with its own generator and manipulation."""
        return [
            self.apply(example, rng, manipulation)
            for example, rng, manipulation in zip(examples, rngs, manipulations, strict=True)
        ]

    def check_manipulation(self, manipulation: int) -> int:
        """Return the index of a manipulation; raise an OptionError if there is no such manipulation."""
        if not 0 <= manipulation < self.n_classes:
            raise OptionError(f"{self.name} has the manipulations 0 to {self.n_classes - 1}, not {manipulation}")
        return manipulation


def random_generator(seed: int, purpose: str, name: str) -> np.random.Generator:
    """A random generator that depends only on the seed, the purpose and the name of the example."""
    return np.random.Generator(np.random.Philox(key=content_key(seed, purpose, name) & (2**64 - 1)))
