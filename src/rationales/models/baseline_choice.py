"""Which baselines say least about a picture: the model itself is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

CANDIDATES = ("black", "white", "mean", "blur-10", "blur-20", "noise")
CHOSEN = 3
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
            f"replaced pixels become {taken}, the baselines that tell the model least about this picture "
            f"(0: nothing, 1: all; left out: {left}); name baselines to decide yourself"
        )


def informativeness(full: Tensor, alone: Tensor) -> Tensor:
    """(P, classes), (P, B, classes) probabilities -> (P, B) in [0, 1]: what each baseline alone tells the model.

    The mean of two: the share of the decision on the whole input that is already there, sum_c min(p_c, b_c) /
    sum_c p_c, and how sure the model is of anything, max_c b_c.
    """
    shared = torch.minimum(full[:, None], alone).sum(-1) / full.sum(-1)[:, None].clamp(min=1e-12)
    return (shared + alone.amax(-1)) / 2


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
        empty = torch.stack([candidate(number, name) for number in some for name in CANDIDATES])
        alone = said(empty).view(len(some), len(CANDIDATES), -1)
        for values in informativeness(full, alone).tolist():
            order = sorted(zip(CANDIDATES, values, strict=True), key=lambda one: one[1])
            found.append(Choice(tuple(order)))
    return found
