"""Random scores: what any table must be compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.batch.rows import fold, uniform


@dataclass(frozen=True)
class Random(Method):
    """Independent uniform numbers, a function of the seed and the input alone."""

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "uniform random numbers, the reference row of every table"
    uses_baselines: ClassVar[bool] = False

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        numbers = uniform(fold(batch.rows.key, 0), batch.size[1])
        return Attribution(numbers.to(batch.dtype) * batch.rows.real)
