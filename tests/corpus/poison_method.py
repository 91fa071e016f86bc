"""A method that ends its process where a batch holds a long text, as the system does where memory runs out."""

import os
from dataclasses import dataclass
from typing import ClassVar

from rationales.methods.random import Random

LONGEST = 20  # words


@dataclass(frozen=True)
class Poison(Random):
    name: ClassVar[str] = "poison"

    def scores(self, batch, target, progress=None):
        if batch.size[1] > LONGEST:
            os._exit(9)
        return super().scores(batch, target, progress)
