"""Which baselines say least about a picture: the model itself is asked.

A baseline is shown to it alone, and in patches on the mean colour: where a mask takes parts of a picture away, edges
come about that were not there, and a model that looks for grain or for contrast takes those of black for its cause.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

CANDIDATES = ("black", "white", "mean", "blur-10", "blur-20", "noise")
CHOSEN = 3
UNDER = "mean"  # what patches lie on
PATCH = 8  # pixels a side
DIGITS = 3  # that count: below, two baselines tell the model as much, and the order of the candidates decides
AT_ONCE = 8  # pictures whose candidates the model is shown together


@dataclass(frozen=True)
class Choice:
    """What every candidate tells the model, the least first; the first `CHOSEN` are taken."""

    told: tuple[tuple[str, float], ...]  # name, and a number between 0 (nothing) and 1 (everything)

    @property
    def names(self) -> tuple[str, ...]:
        """The baselines that are taken."""
        return tuple(name for name, _ in self.told[:CHOSEN])

    @property
    def message(self) -> str:
        """What was chosen and why, for people."""
        taken, left = (
            ", ".join(f"{name} {value:.2f}" for name, value in part)
            for part in (self.told[:CHOSEN], self.told[CHOSEN:])
        )
        return (
            f"replaced pixels become {taken}, the baselines that tell the model least about this picture, whole or in "
            f"patches (0: nothing, 1: all; left out: {left}); name baselines to decide yourself"
        )


def informativeness(full: Tensor, alone: Tensor, patched: Tensor) -> Tensor:
    """(P, classes), twice (P, B, classes) probabilities -> (P, B) in [0, 1]: what each baseline tells the model.

    The mean of two: the share of the decision on the whole input that is already there, sum_c min(p_c, b_c) /
    sum_c p_c, alone or in patches, whichever is more; and how sure the model is of anything, max_c b_c, alone.
    """
    there = torch.maximum(*(torch.minimum(full[:, None], own).sum(-1) for own in (alone, patched)))
    return (there / full.sum(-1)[:, None].clamp(min=1e-12) + alone.amax(-1)) / 2


def choose(
    pictures: Sequence[Tensor], candidate: Callable[[int, str], Tensor], said: Callable[[Tensor], Tensor]
) -> list[Choice]:
    """For every picture (channels, H, W), as the model reads it, the order of the candidates.

    `candidate(number, name)` makes one for picture `number`; `said` gives the probabilities of (R, channels, H, W).
    """
    found = []
    for begin in range(0, len(pictures), AT_ONCE):
        some = range(begin, min(begin + AT_ONCE, len(pictures)))
        full = said(torch.stack([pictures[number] for number in some]))
        shown = []
        for number in some:
            empty = [candidate(number, name) for name in CANDIDATES]
            under = empty[CANDIDATES.index(UNDER)]
            shown += [*empty, *(torch.where(patches(*one.shape[-2:]).to(one.device), one, under) for one in empty)]
        alone, patched = said(torch.stack(shown)).view(len(some), 2, len(CANDIDATES), -1).unbind(1)
        for values in informativeness(full, alone, patched).tolist():
            order = sorted(zip(CANDIDATES, values, strict=True), key=lambda one: round(one[1], DIGITS))
            found.append(Choice(tuple(order)))
    return found


@functools.lru_cache(16)
def patches(height: int, width: int) -> Tensor:
    """(height, width) bool: every other patch of `PATCH` pixels a side, drawn by chance, the same every time."""
    drawn = torch.rand((-(-height // PATCH), -(-width // PATCH)), generator=torch.Generator().manual_seed(0))
    whole = (drawn < 0.5).repeat_interleave(PATCH, 0).repeat_interleave(PATCH, 1)
    return whole[:height, :width]
