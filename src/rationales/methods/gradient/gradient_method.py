"""Base class of the methods that use gradients: their options and their common computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from rationales.methods.method import Method, Progress
from rationales.models.batch import Batch
from rationales.models.batch.queries import Points, gradients
from rationales.models.classes import OUTPUTS
from rationales.options import option

REDUCE = ("sum", "norm")
# The gradient of the log-odds does not vanish where the model is certain, as that of a probability does, nor where the
# target's logit is constant and only the logits of other classes depend on the input, as that of a logit does.
DEFAULT_OUTPUT = "log-odds"


@dataclass(frozen=True)
class GradientMethod(Method):
    """A method whose scores are sums of gradients at one or more points."""

    needs: ClassVar[tuple[str, ...]] = ("gradients",)

    output: str = option(DEFAULT_OUTPUT, "output of the model that is explained, for the target", *OUTPUTS)
    reduce: str = option("sum", "reduction over a unit's values (embedding, colours): signed sum or L1 norm", *REDUCE)

    def gradient_scores(
        self, batch: Batch, target: Tensor, points: Points, progress: Progress | None, **settings: Any
    ) -> Tensor:
        """(S, n): scores from the gradients at `points`; `settings` are further arguments of `gradients`."""
        settings |= {"output": self.output, "reduce": self.reduce}
        return gradients(batch, target, points, progress=progress, **settings)
