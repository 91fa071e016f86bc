"""Leave-one-out: the change of a prediction when a word is deleted or replaced (Pham et al. 2022, Eq. 1)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Method, Progress
from rationales.methods.support.odds import ODDS_OUTPUTS, on_scale
from rationales.models.batch import Batch
from rationales.models.batch.queries import Keeps
from rationales.options import option


@dataclass(frozen=True)
class LeaveOneOut(Method):
    """A word's score is f(x) - f(x without the word) (Eq. 1), in log-odds to base 2."""

    needs: ClassVar[tuple[str, ...]] = ("texts",)

    output: str = option("log2-odds", "scale on which the difference is taken, for the target", *ODDS_OUTPUTS)

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if not batch.deletes_units:
            raise OptionError(f"{self.name} takes words out of texts and is for text models only; use occlusion")
        counts, units = batch.rows.real.sum(1), torch.arange(batch.size[1], device=batch.device)

        def keeps(row: Tensor, variant: Tensor) -> Tensor:
            """Variant u is without unit u; the last variant of a row, after its units, is the full row."""
            without = (units != variant[:, None, None]).expand(-1, len(row), -1)
            return without | (variant[:, None] >= counts[row])[..., None]

        probabilities = self.probabilities(batch, target, keeps, counts + 1, progress)
        values = on_scale(probabilities, self.output)
        full = values.gather(0, counts[None])  # (1, S)
        drop = (full - values)[: batch.size[1]].T  # (S, n)
        return Attribution(torch.where(batch.rows.real, drop, 0.0).to(torch.promote_types(batch.dtype, torch.float32)))

    @abstractmethod
    def probabilities(
        self, batch: Batch, target: Tensor, keeps: Keeps, variants: Tensor, progress: Progress | None
    ) -> Tensor:
        """(K, S): the target's probability under every keep, in double precision where the device has it."""
