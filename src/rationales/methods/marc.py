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
from rationales.masks.sharpen import sharpen
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.rationale import Note, Rule

FULL, EMPTY = 0.9, 0.1  # one mask with a mean keep above, or a largest keep below: it tells no units apart
FLAT = 1e-3  # keeps that differ by less do not tell units apart
ALMOST_ALL, FEW = 0.7, 10  # a rationale of this share, in an input of at least so many units, is no small part of it
STEADY = 0.45  # movement (see `movement`) above this: gradients still point the same way from step to step


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
        result = optimize(batch, target, self, progress)
        if self.levels:  # the field is good at every size: the model is asked which one suffices
            fast, _ = quick(batch, self)
            z, size, steps = torch.logit(result.keep, eps=1e-7), None, result.steps
            if batch.grid is not None:
                z, size, steps = sharpen(z, fast, target, self, result)
            keep = finished(z, fast, target, self, size)
            result = replace(result, keep=keep * mask_rows(batch.rows.real, batch), steps=steps)
        return Attribution(result.keep[batch.rows.mask], result.steps, result.stop, self._notes(batch, result))

    def _notes(self, batch: Batch, result: MaskResult) -> list[list[Note]]:
        """The signatures of an optimisation that went wrong, and what to change."""
        owner, real = mask_rows(batch.rows.input, batch), mask_rows(batch.rows.real, batch)
        notes: list[list[Note]] = []
        for number in range(batch.inputs):
            keep = result.keep[owner == number][real[owner == number]]
            notes.append([*self._size_notes(keep), *self._movement_notes(result, number)])
        return notes

    def _size_notes(self, keep: Tensor) -> list[Note]:
        """What the keeps (units,) of one input show."""
        mean, largest, smallest = float(keep.mean()), float(keep.max()), float(keep.min())
        share = float((keep > 0.5).float().mean())
        if self.levels:  # the size is chosen by the model's answers, not by sparsity
            if len(keep) > 1 and largest - smallest < FLAT:
                advice = "the model's answer hardly depends on any of them; check the model and its baseline"
                return [Note("keeps-nothing", f"no unit stands out (all scores are {mean:.2f}): {advice}")]
            if len(keep) >= FEW and share > ALMOST_ALL - 1e-6:
                message = f"no small part suffices: the rationale takes {share:.0%} of the units"
                return [Note("keeps-everything", f"{message}; the decision rests on nearly all of the input")]
            return []
        if mean > FULL and len(keep) > 1:
            advice = f"raise sparsity (now {self.sparsity:g}) or steps (now {self.steps})"
            return [Note("keeps-everything", f"the mask keeps nearly everything (mean keep {mean:.2f}); {advice}")]
        if largest < EMPTY:
            advice = f"lower rate (now {self.rate:g}) or sparsity (now {self.sparsity:g}), or try another baseline"
            return [Note("keeps-nothing", f"the mask keeps nearly nothing (largest keep {largest:.2f}); {advice}")]
        return []

    def _movement_notes(self, result: MaskResult, number: int) -> list[Note]:
        """A mask that had not settled when its steps were used up."""
        if result.stop[number] != "steps":
            return []
        unmet = self.stop != "steps" and self.schedule == "constant"  # the stopping rule never accepted it
        if not unmet and result.movement[number] <= STEADY:
            return []
        return [
            Note(
                "not-converged",
                f"the mask was still moving after {self.steps} steps; raise steps (now {self.steps})",
            )
        ]
