"""Extremal perturbation: of all smooth masks of a given area, the one with the highest score (Fong et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.masks.objective import at_area, mean_over_masks, mean_over_units
from rationales.masks.optimize import MaskResult, optimize
from rationales.masks.settings import MaskSettings
from rationales.methods.mask.games import GAMES, check_single_part, game_settings
from rationales.methods.method import Attribution, Method, Presets, Progress
from rationales.models.batch import Batch
from rationales.options import check_settings, option
from rationales.rationale import Note, Rule

NOTED_SHIFT = 0.1  # difference between the area of an optimised mask and the requested one that is noted, as its share


@dataclass(frozen=True)
class ExtremalPerturbation(Method):
    """Mean over areas a of m_a = argmax_m score(m) - lambda ||vecsort(m) - r_a||^2 / n (Eq. 4).

    The score is the log-odds of the target. An optimised mask has soft edges: a term on its mean is added to the
    penalty, and a small shift of its logits makes the mean a.
    """

    name: ClassVar[str] = "extremal-perturbation"
    summary: ClassVar[str] = "optimises a smooth mask of a fixed area, or the mean of masks of several areas"
    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    rules: ClassVar[tuple[Rule, ...]] = tuple(Rule(threshold=threshold) for threshold in (0.5, 0.4, 0.3, 0.2, 0.1))
    presets: ClassVar[Presets] = {kind: {"default": {"width": 0.5}} for kind in ("text", "audio")}

    areas: str = option("0.05,0.1,0.2,0.4,0.6,0.8", "shares of the units that masks keep, separated by commas")
    game: str = option(
        "preservation", "preservation: the mask has the target; deletion: the rest has lost it; or both", *GAMES
    )
    steps: int = option(300, "number of optimisation steps for each area")
    learning_rate: float = option(0.05, "learning rate of Adam, which falls to 0")
    area_weight: float = option(1000.0, "weight of the area's penalty, reached after half of the steps")
    cell: int = option(0, "side in pixels of a cell of the mask; 0: 28 cells along the longer side")
    width: float = option(1.5, "standard deviation of the kernel whose smooth maximum the mask is, in cells")
    baseline: str = option("", "what replaces units, in place of the model's baselines; for an image blur-N")

    def __post_init__(self) -> None:
        check_settings(self, ("steps", "learning_rate", "area_weight", "width"), ("cell",))
        self.shares()

    def shares(self) -> list[float]:
        """The areas as numbers."""
        try:
            shares = [float(number) for number in self.areas.split(",")]
        except ValueError:
            shares = []
        if not shares or not all(0 < share < 1 for share in shares):
            raise OptionError(f"areas are numbers between 0 and 1, separated by commas, not {self.areas!r}")
        return shares

    @property
    def removal_operation(self) -> str:
        """The option `baseline`, or the model's baseline."""
        return self.baseline or "baseline"

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        check_single_part(self.name, batch)
        if self.baseline:
            return replace(self, baseline="").scores_on(self.baseline, batch, target, progress)
        shares = self.shares()
        total = torch.zeros((batch.masks, batch.size[1]), device=batch.device, dtype=batch.dtype)
        steps, notes = [0] * batch.inputs, [list[Note]() for _ in range(batch.inputs)]
        stop: list[str] = []
        for number, share in enumerate(shares):
            result = optimize(batch, target, self.settings(share), _progress_share(progress, number, len(shares)))
            total += at_area(result.field, batch, share).sigmoid() * result.real
            steps = [before + count for before, count in zip(steps, result.steps, strict=True)]
            stop = result.stop
            _note_areas(notes, batch, result, share)
        return Attribution((total / len(shares))[batch.rows.mask], steps, stop, notes)

    def settings(self, share: float) -> MaskSettings:
        """Settings of the engine for one area."""
        return replace(
            game_settings(self.game, "max-convolution"),
            steps=self.steps,
            learning_rate=self.learning_rate,
            mask_form="log-odds",
            initial_w=1.0,
            cell=self.cell,
            blur=self.width,
            area=share,
            area_weight=self.area_weight,
        )


def _progress_share(progress: Progress | None, number: int, count: int) -> Progress | None:
    """Progress of one of `count` equal parts of the work."""
    return None if progress is None else lambda share: progress((number + share) / count)


def _note_areas(notes: list[list[Note]], batch: Batch, result: MaskResult, share: float) -> None:
    """Add a note to every input whose mask was far from its area before it was shifted to it."""
    areas = mean_over_masks(mean_over_units(result.keep, batch), batch).tolist()
    for input_notes, area in zip(notes, areas, strict=True):
        if abs(area - share) > NOTED_SHIFT * share:
            message = f"the optimised mask kept {area:.1%} of the units and was shifted to {share:.1%}"
            input_notes.append(Note("area", f"{message}; raise steps"))
