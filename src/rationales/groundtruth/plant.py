"""What a plant is: a known cause put into an example, and exactly where it acts.

`Do Feature Attribution Methods Correctly Attribute Features?` (Zhou et al. 2022), section 4. A plant holds one
manipulation for each class; number 0 may leave the example as it is. What depends on chance comes from a generator of
the example's own, so that nothing depends on the order of examples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rationales.data.example import Example
from rationales.errors import OptionError
from rationales.groundtruth.regions import Region
from rationales.models.randomness import content_key


@dataclass(frozen=True, eq=False)
class Planted:
    """An example with its plant."""

    example: Example  # as a model reads it; the spans of a text are its region
    region: Region  # the joint effective region: all that any class's manipulation might have changed here
    changed: Region  # what this one did change
    distractors: Region  # what looks like the plant and tells nothing; empty but for CN and NC
    which: int  # the manipulation


@dataclass(frozen=True)
class Plant(ABC):
    """A frozen dataclass of parameters; a new kind says `fits` and `apply`, and takes its place in `PLANTS`."""

    name: ClassVar[str]
    summary: ClassVar[str]
    kind: ClassVar[str]  # image or text

    @property
    def classes(self) -> int:
        """How many manipulations there are, the blank one included."""
        return 2

    def fits(self, example: Example) -> str:
        """Why the plant cannot be put into this example; empty where it can."""
        return ""

    @abstractmethod
    def apply(self, example: Example, rng: np.random.Generator, which: int = 1) -> Planted:
        """The example with manipulation number `which`; what depends on chance is drawn from `rng`."""

    def apply_all(
        self, examples: Sequence[Example], rngs: Sequence[np.random.Generator], which: Sequence[int]
    ) -> list[Planted]:
        """The same for many examples, each with a generator and a manipulation of its own."""
        return [self.apply(*one) for one in zip(examples, rngs, which, strict=True)]

    def check_which(self, which: int) -> int:
        """The number of a manipulation, if there is one."""
        if not 0 <= which < self.classes:
            raise OptionError(f"{self.name} has the manipulations 0 to {self.classes - 1}, not {which}")
        return which


def generator(seed: int, purpose: str, name: str) -> np.random.Generator:
    """The random numbers of one example for one purpose, whatever was drawn for others."""
    return np.random.Generator(np.random.Philox(key=content_key(seed, purpose, name) & (2**64 - 1)))
