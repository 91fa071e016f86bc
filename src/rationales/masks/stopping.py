"""When a mask is good enough. Rules see every mask on its own and run on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.masks.settings import MaskSettings

CALM_MOVEMENT = 0.01  # mean change of a keep between two checks
CALM_CHECKS = 2
FIRST_PLATEAU = 40  # steps: a mask that has not begun to move is calm, too


@dataclass(frozen=True, eq=False)
class Look:
    """What a rule sees of every mask, (M,) each."""

    step: Tensor
    mean: Tensor  # mean keep
    shift: Tensor  # change of the mean keep since the last look
    moved: Tensor  # mean change of a unit's keep since the last look
    calm: Tensor  # looks in a row without movement


@dataclass(frozen=True)
class Stopping:
    """A rule, and how many steps lie between two looks at an input."""

    name: str
    every: int
    most: int
    accepts: Callable[[Look], tuple[Tensor, Tensor]]  # -> (M,) accepted, (M,) calm looks

    def due(self, done: int) -> int:
        """How many steps until the next look, after `done` steps."""
        return min(self.every - done % self.every, self.most - done)


def stopping(settings: MaskSettings) -> Stopping:
    """The rule that `settings.stop` names; all masks end at `settings.steps`, whatever it says."""
    every = {"steps": 20, "plateau": 10, "paper": 50}[settings.stop]  # for `steps` a look only shows progress
    rules = {"steps": _never, "plateau": _plateau, "paper": _paper}
    return Stopping(settings.stop, every, settings.steps, rules[settings.stop])


def _never(look: Look) -> tuple[Tensor, Tensor]:
    return torch.zeros_like(look.step, dtype=torch.bool), look.calm


def _plateau(look: Look) -> tuple[Tensor, Tensor]:
    """No unit's keep moves much any more, twice in a row."""
    calm = torch.where(look.moved < CALM_MOVEMENT, look.calm + 1, torch.zeros_like(look.calm))
    return (calm >= CALM_CHECKS) & (look.step >= FIRST_PLATEAU), calm


def _paper(look: Look) -> tuple[Tensor, Tensor]:
    """The published rule: the mean keep has come to rest, low enough, not too early."""
    still = look.shift < torch.where(look.mean < 0.2, 1 / 80, 1 / 200)
    return still & ((look.step >= 200) | (look.mean < 0.3)) & (look.mean < 0.45), look.calm
