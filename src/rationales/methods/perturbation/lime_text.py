"""LIME on texts as published: random words are deleted (Ribeiro, Singh and Guestrin 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Progress
from rationales.methods.support.linear_model import Kept, check_fit, fit_random_keeps
from rationales.models.batch import Batch
from rationales.models.batch.queries import outputs_when_deleted
from rationales.models.classes import OUTPUTS
from rationales.options import option


@dataclass(frozen=True)
class LimeText(Method):
    """LIME's own perturbation of texts: a random number of random words is deleted, 1 to all, uniformly.

    Scores are matched to words by position: two equal words have scores of their own.
    """

    name: ClassVar[str] = "lime-text"
    summary: ClassVar[str] = "coefficients of a linear model fitted to texts with random words deleted"
    removes_by: ClassVar[str] = "delete"
    needs: ClassVar[tuple[str, ...]] = ("texts",)

    samples: int = option(1000, "number of perturbed texts, the text itself included")
    kernel: float = option(0.25, "width of the kernel over cosine distances; 0: equal weights")
    ridge: float = option(1.0, "weight of the squared coefficients; 0: plain least squares, the smallest solution")
    output: str = option("probability", "output of the model that is explained, for the target", *OUTPUTS)

    def __post_init__(self) -> None:
        check_fit(self.name, self.samples, self.kernel, self.ridge)

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if not batch.deletes_units:
            raise OptionError("lime-text deletes words of texts and is for text models only; use lime")

        def outputs(kept: Kept) -> Tensor:
            return outputs_when_deleted(batch, target, kept, self.samples, output=self.output, progress=progress)

        return fit_random_keeps(batch, outputs, self.kernel, self.ridge)
