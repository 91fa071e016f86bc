"""Stopping rules. A rule decides for every mask by itself and runs on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.masks.settings import MaskSettings

CALM_MOVEMENT = 0.01  # mean change of a keep between two checks
CALM_CHECKS = 2
IMAGE_INTERVAL = 10  # steps; the published rule checked after each
MIN_PLATEAU_STEPS = 40  # a mask that has not begun to move does not change either


@dataclass(frozen=True, eq=False)
class MaskProgress:
    """What a stopping rule decides by, (M,) each."""

    step: Tensor
    mean: Tensor  # mean keep
    mean_drop: Tensor  # decrease of the mean keep since the last check
    mean_change: Tensor  # mean absolute change of a unit's keep since the last check
    memory: Tensor  # value that the rule stored at the last check, initially 0


@dataclass(frozen=True)
class Stopping:
    """A stopping rule and the number of steps between two checks of an input."""

    name: str
    interval: int
    max_steps: int
    accepts: Callable[[MaskProgress], tuple[Tensor, Tensor]]  # -> (M,) accepted, (M,) memory

    def due(self, done: int) -> int:
        """Number of steps until the next check, after `done` steps."""
        return min(self.interval - done % self.interval, self.max_steps - done)


def stopping(settings: MaskSettings) -> Stopping:
    """Rule named by `settings.stop`; every mask ends at `settings.steps` at the latest."""
    # for `steps` a check only reports progress
    interval, accepts = {
        "steps": (20, _never),
        "plateau": (10, _plateau),
        "paper": (50, _paper),
        "paper-images": (IMAGE_INTERVAL, _paper_images),
    }[settings.stop]
    return Stopping(settings.stop, interval, settings.steps, accepts)


def _never(progress: MaskProgress) -> tuple[Tensor, Tensor]:
    return torch.zeros_like(progress.step, dtype=torch.bool), progress.memory


def _plateau(progress: MaskProgress) -> tuple[Tensor, Tensor]:
    """The mean change of the keeps was small at two checks in a row."""
    calm = torch.where(progress.mean_change < CALM_MOVEMENT, progress.memory + 1, torch.zeros_like(progress.memory))
    return (calm >= CALM_CHECKS) & (progress.step >= MIN_PLATEAU_STEPS), calm


def _paper(progress: MaskProgress) -> tuple[Tensor, Tensor]:
    """Published rule: the mean keep is low and changes little, not before step 200 unless it is below 0.3."""
    still = progress.mean_drop.abs() < torch.where(progress.mean < 0.2, 1 / 80, 1 / 200)
    return still & ((progress.step >= 200) | (progress.mean < 0.3)) & (progress.mean < 0.45), progress.memory


def _paper_images(progress: MaskProgress) -> tuple[Tensor, Tensor]:
    """Published rule for images: a running average of the decrease of the mean keep per step is small."""
    share = 0.95**IMAGE_INTERVAL
    average = share * progress.memory + (1 - share) * progress.mean_drop / IMAGE_INTERVAL
    return (average < 2e-4) & (progress.step >= 250) & (progress.mean < 0.5), average
