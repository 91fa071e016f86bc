"""When a mask is good enough. Rules see every mask on its own and run on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.masks.settings import MaskSettings

CALM_MOVEMENT = 0.01  # mean change of a keep between two checks
CALM_CHECKS = 2
IMAGE_LOOK = 10  # steps; the published rule looked after each
FIRST_PLATEAU = 40  # steps: a mask that has not begun to move is calm, too


@dataclass(frozen=True, eq=False)
class Look:
    """What a rule sees of every mask, (M,) each."""

    step: Tensor
    mean: Tensor  # mean keep
    shift: Tensor  # how far the mean keep fell since the last look
    moved: Tensor  # mean change of a unit's keep since the last look
    memory: Tensor  # what the rule remembered at the last look, 0 at first


@dataclass(frozen=True)
class Stopping:
    """A rule, and how many steps lie between two looks at an input."""

    name: str
    every: int
    most: int
    accepts: Callable[[Look], tuple[Tensor, Tensor]]  # -> (M,) accepted, (M,) what to remember

    def due(self, done: int) -> int:
        """How many steps until the next look, after `done` steps."""
        return min(self.every - done % self.every, self.most - done)


def stopping(settings: MaskSettings) -> Stopping:
    """The rule that `settings.stop` names; all masks end at `settings.steps`, whatever it says."""
    # for `steps` a look only shows progress
    every, accepts = {
        "steps": (20, _never),
        "plateau": (10, _plateau),
        "paper": (50, _paper),
        "paper-images": (IMAGE_LOOK, _paper_images),
    }[settings.stop]
    return Stopping(settings.stop, every, settings.steps, accepts)


def _never(look: Look) -> tuple[Tensor, Tensor]:
    return torch.zeros_like(look.step, dtype=torch.bool), look.memory


def _plateau(look: Look) -> tuple[Tensor, Tensor]:
    """No unit's keep moves much any more, twice in a row."""
    calm = torch.where(look.moved < CALM_MOVEMENT, look.memory + 1, torch.zeros_like(look.memory))
    return (calm >= CALM_CHECKS) & (look.step >= FIRST_PLATEAU), calm


def _paper(look: Look) -> tuple[Tensor, Tensor]:
    """The published rule: the mean keep has come to rest, low enough, not too early."""
    still = look.shift.abs() < torch.where(look.mean < 0.2, 1 / 80, 1 / 200)
    return still & ((look.step >= 200) | (look.mean < 0.3)) & (look.mean < 0.45), look.memory


def _paper_images(look: Look) -> tuple[Tensor, Tensor]:
    """The published rule for images: a running average of the fall of the mean keep per step has died down."""
    share = 0.95**IMAGE_LOOK
    average = share * look.memory + (1 - share) * look.shift / IMAGE_LOOK
    return (average < 2e-4) & (look.step >= 250) & (look.mean < 0.5), average
