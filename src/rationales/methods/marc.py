"""MaRC: a mask that is sufficient, comprehensive (its complement loses the target), sparse and connected."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

from torch import Tensor

from rationales.masks.field import roughness
from rationales.masks.objective import mask_rows, mean_over_masks
from rationales.masks.optimize import MaskResult, fast_precision, optimize
from rationales.masks.postprocess import final_scores, words_and_spans
from rationales.masks.settings import PRESETS, MaskSettings
from rationales.masks.sharpen import sharpen
from rationales.methods.method import Attribution, Method, Presets, Progress
from rationales.models.batch import Batch
from rationales.rationale import Note, Rule

FULL_MASK, EMPTY_MASK = 0.9, 0.1  # mean keep above, or largest keep below: the mask does not distinguish units
MIN_SCORE_RANGE = 1e-3  # scores within a smaller range do not distinguish units
LARGE_SHARE, MIN_NOTED_UNITS = 0.7, 10  # a rationale of this share, in an input of at least so many units, is noted
# `movement` above this: the gradients of successive steps still agree (docs/marc.md says how the limits were chosen).
STEADY_MOVEMENT = {"gaussian": 0.45, "free": 0.43, "upsampled": 0.6, "max-convolution": 0.6}
# Roughness from which a mask is noise or alternates (docs/marc.md says how the limits were found). On a line a word
# that differs from its neighbours is as rough as noise (1.5), so only alternation is noted there, in longer inputs.
ROUGH_GRID, ROUGH_LINE, MIN_ROUGH_UNITS = 0.9, 2.75, 20


@dataclass(frozen=True)
class Marc(MaskSettings, Method):
    """Brinner and Zarriess, Model Interpretability and Rationale Extraction by Input Mask Optimization (Eq. 8)."""

    name: ClassVar[str] = "marc"
    summary: ClassVar[str] = "optimises a mask: sufficient, comprehensive, sparse and connected"
    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    rules: ClassVar[tuple[Rule, ...]] = tuple(Rule(threshold=threshold) for threshold in (0.5, 0.4, 0.3, 0.2, 0.1))
    presets: ClassVar[Presets] = {
        kind: {name: asdict(settings) for name, settings in named.items()} for kind, named in PRESETS.items()
    }

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        result = optimize(batch, target, self, progress)
        keep, steps = result.keep, result.steps
        if self.level_weight:  # the field is optimised for every size: select the one that suffices
            fast_batch, _ = fast_precision(batch, self)
            z, size = result.bounded_field, None
            if batch.pixel_grid is None and self.shaping == "spans":
                scores, spans = words_and_spans(z, result.anchor, fast_batch, target, self)
                notes = self._notes(batch, spans * result.real, result, scores.sqrt() * result.real)
                scores, spans = ((values * result.real)[batch.rows.mask] for values in (scores, spans))
                return Attribution(scores, steps, result.stop, notes, spans)
            if batch.pixel_grid is not None:
                z, size, steps = sharpen(z, fast_batch, target, self, result)
            keep = final_scores(z, fast_batch, target, self, size) * result.real
        notes = self._notes(batch, keep, result)
        return Attribution(keep[batch.rows.mask], steps, result.stop, notes)

    def _notes(
        self, batch: Batch, keep: Tensor, result: MaskResult, unshaped: Tensor | None = None
    ) -> list[list[Note]]:
        """Notes per input about an optimisation that failed, and what to change.

        `unshaped` (M, n): the mask before it was smoothed and its gaps were filled, where `keep` is the mask after.
        """
        mask_input = mask_rows(batch.rows.input, batch)
        cell = self.on(batch.pixel_grid).cell if batch.pixel_grid is not None else 1
        unit_part = next(
            (unit_part for unit_part in batch.parts if unit_part.grid is not None), batch.parts[0]
        )  # of words alone, these
        mask = keep if unshaped is None else unshaped
        part_mask, part_real = (values[:, unit_part.units] for values in (mask, result.real))
        rough = mean_over_masks(roughness(part_mask, part_real, unit_part.grid, cell), batch).tolist()
        notes: list[list[Note]] = []
        for number in range(batch.inputs):
            masks = mask_input == number
            input_keep = keep[masks][result.real[masks]]
            shape_notes = self._shape_notes(rough[number], len(input_keep), unit_part.grid is not None)
            notes.append([*self._size_notes(input_keep), *shape_notes, *self._movement_notes(result, number)])
        return notes

    def _shape_notes(self, rough: float, units: int, on_grid: bool) -> list[Note]:
        """Note about a mask that looks like noise or a checkerboard."""
        if units < MIN_ROUGH_UNITS or rough <= (ROUGH_GRID if on_grid else ROUGH_LINE):
            return []
        advice = f"raise sigma_weight (now {self.sigma_weight:g})"
        if on_grid:
            advice += f" or neighbour_weight (now {self.neighbour_weight:g})"
        advice = "set field=gaussian" if self.field == "free" else advice
        shape = "noise or a checkerboard" if on_grid else "alternates from unit to unit"
        message = (
            f"the mask {'looks like ' if on_grid else ''}{shape} (roughness {rough:.1f}; 0: smooth, 4: alternating)"
        )
        return [Note("noisy-mask", f"{message}; {advice}, or smooth the scores (smooth)")]

    def _size_notes(self, keep: Tensor) -> list[Note]:
        """Notes about the keeps (units,) of one input."""
        mean, largest, smallest = float(keep.mean()), float(keep.max()), float(keep.min())
        share = float((keep > 0.5).float().mean())
        if self.level_weight:  # the size is selected by the model's probabilities, not by sparsity
            if len(keep) > 1 and largest - smallest < MIN_SCORE_RANGE:
                advice = "the model's output hardly depends on any of them; check the model and its baseline"
                return [Note("keeps-nothing", f"no unit stands out (all scores are {mean:.2f}): {advice}")]
            if len(keep) >= MIN_NOTED_UNITS and share > LARGE_SHARE - 1e-6:
                message = f"no small part suffices: the rationale takes {share:.0%} of the units"
                return [Note("keeps-everything", f"{message}; the decision rests on nearly all of the input")]
            return []
        if mean > FULL_MASK and len(keep) > 1:
            advice = f"raise sparsity (now {self.sparsity:g}) or steps (now {self.steps})"
            return [Note("keeps-everything", f"the mask keeps nearly everything (mean keep {mean:.2f}); {advice}")]
        if largest < EMPTY_MASK:
            advice = f"lower learning_rate (now {self.learning_rate:g}) or sparsity (now {self.sparsity:g})"
            message = f"the mask keeps nearly nothing (largest keep {largest:.2f}); {advice}, or try another baseline"
            return [Note("keeps-nothing", message)]
        return []

    def _movement_notes(self, result: MaskResult, number: int) -> list[Note]:
        """Note about a mask that was still moving at its last step."""
        if result.stop[number] != "steps":
            return []
        unmet = self.stop != "steps" and self.schedule == "constant"  # the stopping rule never accepted it
        if not unmet and result.movement[number] <= STEADY_MOVEMENT[self.field]:
            return []
        return [
            Note("not-converged", f"the mask was still moving after {self.steps} steps; raise steps (now {self.steps})")
        ]
