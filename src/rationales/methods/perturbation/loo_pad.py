"""Leave-one-out by the padding token (Pham et al. 2022, LOO_zero)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Progress
from rationales.methods.perturbation.leave_one_out import LeaveOneOut
from rationales.models.batch import Batch
from rationales.models.batch.queries import Keeps, outputs_under_keeps


@dataclass(frozen=True)
class LooPad(LeaveOneOut):
    """Every token of the word becomes the padding token, which stays attended (the paper's LOO_zero)."""

    name: ClassVar[str] = "loo-pad"
    summary: ClassVar[str] = "change of the log-odds when a word is replaced by the padding token"
    removes_by: ClassVar[str] = "pad"
    baseline: ClassVar[str] = "pad"

    def probabilities(
        self, batch: Batch, target: Tensor, keeps: Keeps, variants: Tensor, progress: Progress | None
    ) -> Tensor:
        try:
            replaced = batch.with_baseline(self.baseline)
        except OptionError:
            message = (
                f"{self.name} needs a tokenizer with a {self.baseline} token, and this one has none; use loo-empty"
            )
            raise OptionError(message) from None
        return outputs_under_keeps(replaced, target, keeps, variants, precise=True, progress=progress)
