"""Which baselines say least about a picture: the model itself is asked.

A baseline is shown to it alone, in patches on the mean colour and in patches on the picture: where a mask takes parts
of a picture away, edges come about that were not there, and a model that looks for grain or for contrast takes those of
black for its cause. And a baseline may be a cause itself: to a model that looks for blur any plain colour is blurred,
and only noise takes the blur away.
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
GAP = 2.0  # log-odds of what is left of the decision, beyond the least of any candidate: one with more does not fit,
SOME = 0.05  # if so much of the decision is there without the picture; less is nothing
DIGITS = 3  # that count: below, two baselines tell the model as much, and what is left of the decision decides
AT_ONCE = 4  # pictures whose candidates the model is shown together


@dataclass(frozen=True)
class Choice:
    """What every candidate tells the model, and which are taken."""

    told: tuple[tuple[str, float], ...]  # name, and a number between 0 (nothing) and 1 (everything), the least first
    fitting: tuple[str, ...]  # those with which little is left of the decision, in the same order

    @property
    def names(self) -> tuple[str, ...]:
        """The `CHOSEN` baselines that are taken; where fewer fit, the first of them more than once."""
        return tuple(self.fitting[number % len(self.fitting)] for number in range(CHOSEN))

    @property
    def message(self) -> str:
        """What was chosen and why, for people."""
        told = dict(self.told)

        def listed(names: Sequence[str]) -> str:
            return ", ".join(f"{name} {told[name]:.2f}" for name in names)

        groups = {
            "they tell it more: ": self.fitting[CHOSEN:],
            "with them more of the decision is left: ": [name for name in told if name not in self.fitting],
        }
        out = "; ".join(f"{why}{listed(names)}" for why, names in groups.items() if names)
        left = f"; left out: {out}" if out else ""
        return (
            f"replaced pixels become {listed(self.fitting[:CHOSEN])}, the baselines that tell the model least about "
            f"this picture, whole or in patches (0: nothing, 1: all{left}); name baselines to decide yourself"
        )


def shared(full: Tensor, own: Tensor) -> Tensor:
    """(P, classes), (P, B, classes) probabilities -> (P, B): how much of the decision on the whole input is there.

    sum_c min(p_c, b_c) / sum_c p_c.
    """
    return torch.minimum(full[:, None], own).sum(-1) / full.sum(-1)[:, None].clamp(min=1e-12)


def informativeness(full: Tensor, alone: Tensor, patched: Tensor) -> Tensor:
    """(P, classes), twice (P, B, classes) probabilities -> (P, B) in [0, 1]: what each baseline tells the model.

    The mean of two: the share of the decision that is already there, alone or in patches, whichever is more; and how
    sure the model is of anything, max_c b_c, alone.
    """
    return (without(full, alone, patched) + alone.amax(-1)) / 2


def without(full: Tensor, alone: Tensor, patched: Tensor) -> Tensor:
    """(P, classes), twice (P, B, classes) -> (P, B): how much of the decision is there without the picture."""
    return torch.maximum(shared(full, alone), shared(full, patched))


def remaining(full: Tensor, views: Sequence[Tensor]) -> Tensor:
    """(P, classes), several (P, B, classes) -> (P, B): log-odds of the share of the decision left, the mean of all."""
    return torch.stack([torch.logit(shared(full, own), eps=1e-6) for own in views]).mean(0)


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
            empty = torch.stack([candidate(number, name) for name in CANDIDATES])
            under, own = empty[CANDIDATES.index(UNDER)], pictures[number].to(empty)
            hidden = patches(*own.shape[-2:]).to(own.device)
            ways = (empty, torch.where(hidden, empty, under), torch.where(hidden, empty, own))
            shown.append(torch.stack([*ways, torch.where(hidden, own, empty)]))
        said_of = said(torch.cat(shown).flatten(0, 1)).view(len(some), 4, len(CANDIDATES), -1)
        alone, patched, over, around = said_of.unbind(1)
        told = informativeness(full, alone, patched)
        left = (remaining(full, (alone, patched)) * 2 + remaining(full, (over, around))) / 3
        # where the model gives no numbers all fit, and whoever explains says what is wrong
        fits = ~(left > left.amin(1, keepdim=True) + GAP) | (without(full, alone, patched) < SOME)
        found += [_choice(*values) for values in zip(told.tolist(), left.tolist(), fits.tolist(), strict=True)]
    return found


def _choice(told: Sequence[float], left: Sequence[float], fits: Sequence[bool]) -> Choice:
    """The least telling first; among equals, the one with which least is left."""
    order = sorted(range(len(told)), key=lambda one: (round(told[one], DIGITS), round(left[one], DIGITS)))
    return Choice(
        tuple((CANDIDATES[one], told[one]) for one in order),
        tuple(CANDIDATES[one] for one in order if fits[one]),
    )


@functools.lru_cache(16)
def patches(height: int, width: int) -> Tensor:
    """(height, width) bool: every other patch of `PATCH` pixels a side, drawn by chance, the same every time."""
    drawn = torch.rand((-(-height // PATCH), -(-width // PATCH)), generator=torch.Generator().manual_seed(0))
    whole = (drawn < 0.5).repeat_interleave(PATCH, 0).repeat_interleave(PATCH, 1)
    return whole[:height, :width]
