"""What the methods that follow gradients share: their options, and the walk to scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from rationales.methods.method import Method, Progress
from rationales.models.batch import Batch
from rationales.models.probing import OF, Points, slopes
from rationales.options import option

REDUCE = ("sum", "norm")


@dataclass(frozen=True)
class GradientMethod(Method):
    """A method that adds up slopes at one or more points."""

    needs: ClassVar[tuple[str, ...]] = ("gradients",)

    # the logit's slope does not vanish where the model is sure of itself, as that of a probability does
    of: str = option("logit", "what of the target is explained", *OF)
    reduce: str = option("sum", "over a unit's numbers (embedding, colours): signed sum or L1 norm", *REDUCE)

    def walk(
        self,
        batch: Batch,
        target: Tensor,
        points: Points,
        progress: Progress | None,
        variants: int = 1,
        **more: Any,
    ) -> Tensor:
        """(S, n): see `slopes`."""
        return slopes(
            batch, target, points, variants=variants, of=self.of, reduce=self.reduce, progress=progress, **more
        )
