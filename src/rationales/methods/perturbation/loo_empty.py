"""Leave-one-out by deletion (Pham et al. 2022, LOO_empty)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.methods.method import Progress
from rationales.methods.perturbation.leave_one_out import LeaveOneOut
from rationales.models.batch import Batch
from rationales.models.batch.queries import Keeps, outputs_when_deleted


@dataclass(frozen=True)
class LooEmpty(LeaveOneOut):
    """The word is deleted: the text becomes shorter. A text of one word becomes its special tokens alone."""

    name: ClassVar[str] = "loo-empty"
    summary: ClassVar[str] = "change of the log-odds when a word is deleted"
    removes_by: ClassVar[str] = "delete"

    def probabilities(
        self, batch: Batch, target: Tensor, keeps: Keeps, variants: Tensor, progress: Progress | None
    ) -> Tensor:
        return outputs_when_deleted(batch, target, keeps, variants, precise=True, progress=progress)
