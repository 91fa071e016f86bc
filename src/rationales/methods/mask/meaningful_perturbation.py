"""Meaningful perturbation: the smallest smooth mask whose removal loses the target (Fong and Vedaldi 2017)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from rationales.masks.bounded_field import bounded_keep
from rationales.masks.field import sources
from rationales.masks.objective import mask_rows
from rationales.masks.optimize import optimize
from rationales.masks.settings import MaskSettings
from rationales.methods.mask.games import GAMES, check_single_part, game_settings
from rationales.methods.method import Attribution, Method, Presets, Progress
from rationales.models.batch import Batch
from rationales.options import check_settings, option
from rationales.rationale import Rule

RADII = 20  # circles that are tried as a start
SUPPRESSED = 0.99  # share of the drop from the full input to the baseline that the first circle must reach
UNIFORM_START = {"deletion": 0.0, "preservation": 1.0, "hybrid": 0.5}  # keep of every cell: the model reads all


@dataclass(frozen=True)
class MeaningfulPerturbation(Method):
    """min_m l1 ||m||_1 + tv sum |grad m|^beta + p(x without m), over jitter (Eq. 4 with m = 1 - m of the paper)."""

    name: ClassVar[str] = "meaningful-perturbation"
    summary: ClassVar[str] = "optimises a smooth mask on a coarse grid: deletion, preservation or both"
    needs: ClassVar[tuple[str, ...]] = ("gradients",)
    rules: ClassVar[tuple[Rule, ...]] = tuple(Rule(threshold=threshold) for threshold in (0.5, 0.4, 0.3, 0.2, 0.1))
    presets: ClassVar[Presets] = {
        # words are few, so that each weighs more than a cell of 28 x 28; both games, since a model that is certain of a
        # whole text gives no gradient, and half of every word does
        **{
            kind: {"default": {"game": "hybrid", "l1_weight": 0.02, "blur": 0.4, "jitter": 0.0, "start": "uniform"}}
            for kind in ("text", "audio")
        },
        "image": {"default": {}, "paper": {"baseline": "blur-10"}},
        "spectrogram": {"default": {"jitter": 0.0, "start": "uniform"}},
    }

    game: str = option(
        "deletion", "deletion: the rest loses the target; preservation: the mask has it; or both", *GAMES
    )
    steps: int = option(300, "number of optimisation steps")
    learning_rate: float = option(0.1, "learning rate of Adam")
    l1_weight: float = option(1e-4, "lambda_1, weight of the sum of the mask's cells; 0 leaves it out")
    tv_weight: float = option(1e-2, "lambda_2, weight of the differences of neighbouring cells; 0 leaves it out")
    tv_power: float = option(3.0, "beta, exponent of these differences")
    cell: int = option(0, "side in pixels of a cell of the mask; 0: 28 cells along the longer side")
    blur: float = option(0.625, "standard deviation of the blur of the up-sampled mask, in cells; 0: none")
    jitter: float = option(0.5, "largest random shift of the mask against the input in a step, in cells; 0: none")
    start: str = option(
        "circle",
        "first mask: the smallest centred circle without which the target loses 99 % of what the baseline takes, or "
        "a mask with which the model reads the full input",
        "circle",
        "uniform",
    )
    baseline: str = option("", "what replaces units, in place of the model's baselines; for an image blur-N")

    def __post_init__(self) -> None:
        check_settings(
            self, ("steps", "learning_rate", "tv_power"), ("l1_weight", "tv_weight", "cell", "blur", "jitter")
        )

    @property
    def removal_operation(self) -> str:
        """The option `baseline`, or the model's baseline."""
        return self.baseline or "baseline"

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        check_single_part(self.name, batch)
        if self.baseline:
            return replace(self, baseline="").scores_on(self.baseline, batch, target, progress)
        settings = self.settings()
        start = circle_start(batch, target, settings) if self.start == "circle" and batch.grid is not None else None
        result = optimize(batch, target, settings, progress, start=start)
        return Attribution(result.keep[batch.rows.mask], result.steps, result.stop)

    def settings(self) -> MaskSettings:
        """Settings of the engine."""
        return replace(
            game_settings(self.game, "upsampled"),
            steps=self.steps,
            learning_rate=self.learning_rate,
            schedule="constant",
            initial_w=UNIFORM_START[self.game],
            cell=self.cell,
            blur=self.blur,
            jitter=self.jitter,
            l1_weight=self.l1_weight,
            tv_weight=self.tv_weight,
            tv_power=self.tv_power,
        )


def circle_start(batch: Batch, target: Tensor, settings: MaskSettings) -> tuple[Tensor, Tensor]:
    """w and sigma (M, s): the smallest of `RADII` centred circles without which `SUPPRESSED` of the target is lost.

    The circle's cells are 1 and all others 0 (section 4.3). Where no circle suffices it is the largest.
    """
    settings = settings.on(batch.grid)
    real = sources(batch, settings.cell)
    distance = _centre_distance(batch, settings, real)
    with torch.no_grad():
        full, empty = (_target_probability(batch, target, keep) for keep in (batch.ones(), batch.zeros()))
        radius = torch.ones_like(full)
        for number in range(RADII - 1, 0, -1):
            circle = (distance <= number / RADII).to(batch.dtype)
            keep = bounded_keep(batch, settings, circle)[batch.rows.mask]
            left = _target_probability(batch, target, 1 - keep)
            suppressed = full - left >= SUPPRESSED * (full - empty)
            radius = torch.where(suppressed, number / RADII, radius)
        w = (distance <= radius[mask_rows(batch.rows.input, batch)][:, None]).to(batch.dtype) * real
    return w, torch.full_like(w, settings.initial_sigma)


def _target_probability(batch: Batch, target: Tensor, keep: Tensor) -> Tensor:
    """(I,): probability of the target, averaged over an input's baselines."""
    return batch.predict(keep).gather(-1, target[:, None])[:, 0]


def _centre_distance(batch: Batch, settings: MaskSettings, real: Tensor) -> Tensor:
    """(M, s): distance of each cell from the centre of a grid, 1 at its corners."""
    if batch.grid is None:
        raise ValueError("a line has no circles")
    sides = [-(-side // settings.cell) for side in batch.grid]
    down, across = (
        (torch.arange(side, device=batch.device, dtype=batch.dtype) - (side - 1) / 2) / max(1.0, (side - 1) / 2)
        for side in sides
    )
    distance = ((down[:, None].square() + across.square()) / 2).sqrt()
    return distance.flatten().expand(real.shape)
