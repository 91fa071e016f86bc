"""MaRC: the mask that keeps what the model needs, spoils its complement, and is sparse and connected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from rationales.masks.finish import finished
from rationales.masks.objective import mask_rows
from rationales.masks.optimize import MaskResult, optimize, quick
from rationales.masks.settings import PRESETS, MaskSettings
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.rationale import Note, Rule

FULL, EMPTY = 0.9, 0.1  # a mean keep above, a largest keep below: nothing was told apart


@dataclass(frozen=True)
class Marc(MaskSettings, Method):
    """Brinner and Zarriess, Model Interpretability and Rationale Extraction by Input Mask Optimization (Eq. 8)."""

    name: ClassVar[str] = "marc"
    summary: ClassVar[str] = "optimises a mask: sufficient, comprehensive, sparse and connected"
    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    rules: ClassVar[tuple[Rule, ...]] = tuple(Rule(threshold=threshold) for threshold in (0.5, 0.4, 0.3, 0.2, 0.1))
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        kind: {name: asdict(settings) for name, settings in named.items()} for kind, named in PRESETS.items()
    }

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        found = optimize(batch, target, self, progress)
        if not self.own:  # the field is good at every size, but has none
            asked, _ = quick(batch, self)
            keep = finished(torch.logit(found.keep, eps=1e-7), asked, target, self)
            found = replace(found, keep=keep * mask_rows(batch.rows.real, batch))
        return Attribution(found.keep[batch.rows.mask], found.steps, found.stop, self._notes(batch, found))

    def _notes(self, batch: Batch, found: MaskResult) -> list[list[Note]]:
        """The signatures of an optimisation that went wrong, and what to change."""
        owner, real = mask_rows(batch.rows.input, batch), mask_rows(batch.rows.real, batch)
        notes: list[list[Note]] = []
        for number in range(batch.inputs):
            keep = found.keep[owner == number][real[owner == number]]
            mean, most = float(keep.mean()), float(keep.max())
            own: list[Note] = []
            if self.own and mean > FULL and len(keep) > 1:
                advice = f"raise sparsity (now {self.sparsity:g}) or steps (now {self.steps})"
                own.append(
                    Note("keeps-everything", f"the mask keeps nearly everything (mean keep {mean:.2f}); {advice}")
                )
            if self.own and most < EMPTY:
                advice = f"lower rate (now {self.rate:g}) or sparsity (now {self.sparsity:g}), or try another baseline"
                own.append(Note("keeps-nothing", f"the mask keeps nearly nothing (largest keep {most:.2f}); {advice}"))
            if found.stop[number] == "steps" and self.stop != "steps" and self.schedule == "constant":
                advice = f"raise steps (now {self.steps})"
                own.append(Note("not-converged", f"the mask was still moving after {self.steps} steps; {advice}"))
            notes.append(own)
        return notes
