"""The terms of the loss, one small function each (MaRC, Eq. 2-8). Shapes: I inputs, V views, M masks, n units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rationales.masks.field import sources
from rationales.masks.grid import neighbour_difference
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch
from rationales.models.heads import Head
from rationales.models.probing import explained

SHORT, LONG = 40, 120  # units
SQUEEZE = 5e-6  # probabilities are taken from [0, 1] into [SQUEEZE, 1 - SQUEEZE] before the logarithm


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be optimised: rows, the target of each input, settings, and when a complement is empty enough."""

    batch: Batch
    target: Tensor  # (I,)
    settings: MaskSettings
    floor: Tensor  # (I, V) evidence below which the complement need not fall

    @classmethod
    def of(cls, batch: Batch, target: Tensor, settings: MaskSettings) -> Problem:
        """Ask the model what it says of the baseline, where that matters."""
        weight = settings.floor * short(batch)[:, None]
        if settings.floor == 0:
            return cls(batch, target, settings, weight.expand(-1, batch.views))
        with torch.no_grad():
            empty = evidence(batch, target, batch.logits(batch.zeros()), settings.indicative)
        return cls(batch, target, settings, weight * empty)

    def seen(self, step: Tensor) -> Problem:
        """What step number `step` (M,) looks at: everything, or each input on the baseline whose turn it is."""
        if self.settings.views == "all" or self.batch.views == 1:
            return self
        view = mask_rows(self.batch.rows.key, self.batch).remainder(self.batch.views) + step
        view = view.remainder(self.batch.views)
        return replace(self, batch=self.batch.seen_on(view), floor=self.floor.gather(1, view[:, None]))


def loss(problem: Problem, logits: Tensor, keep: Tensor, sigma: Tensor) -> Tensor:
    """(I,): Eq. 8 for every input.

    logits: (2, S, classes) of the rationale and of its complement, or (4, S, classes) when there are a mask of its own
    size and one of a drawn level.
    """
    batch, settings = problem.batch, problem.settings
    kinds = [("log", settings.own)] if settings.own else []
    kinds += [(settings.level_form, settings.levels)] if settings.levels else []
    total = torch.zeros((), device=logits.device, dtype=logits.dtype)
    for number, (form, weight) in enumerate(kinds):
        pair = logits[2 * number : 2 * number + 2]
        if form == "log-odds":
            alone, rest = log_odds(batch, problem.target, pair, settings.indicative)  # (I, V) each
            rest = torch.maximum(rest, torch.logit(problem.floor))
            part = settings.complement * rest - settings.sufficiency * alone
        else:
            alone, rest = evidence(batch, problem.target, pair, settings.indicative)
            rest = torch.maximum(rest, problem.floor)
            if form == "linear":
                part = settings.complement * rest - settings.sufficiency * alone
            else:
                part = settings.sufficiency * sufficiency(alone)
                part = part + settings.complement * complement(rest, settings.complement_form)
        total = total + weight * part
    regular = settings.width * width(sigma, sources(batch, settings.every))
    if settings.own:
        regular = regular + settings.sparsity * sparsity(keep, batch)
    if settings.neighbours > 0:
        regular = regular + settings.neighbours * neighbours(keep, batch)
    return total.mean(-1) + mean_over_masks(regular, batch)


def short(batch: Batch) -> Tensor:
    """(I,): 1 for inputs of a sentence or two, 0 for long ones, falling between.

    In a short input the words that speak against the target are the context of those that speak for it: without a floor
    it pays to leave them in the complement, and "good" drops out of "not good". In a long one they are evidence of
    their own, and belong to the complement.
    """
    return ((LONG - length(batch)) / (LONG - SHORT)).clamp(0, 1)


def length(batch: Batch) -> Tensor:
    """(I,): the number of an input's units."""
    units = torch.zeros(batch.inputs, device=batch.device, dtype=batch.dtype)
    return units.index_add(0, batch.rows.input, (batch.rows.blend * batch.rows.real).sum(1))


def evidence(batch: Batch, target: Tensor, logits: Tensor, indicative: float) -> Tensor:
    """(..., S, classes) -> (..., I, V): how strongly the target is predicted, a number between 0 and 1.

    The target's probability (what tells it from other classes), the sigmoid of its logit (any sign of it), or a mix.
    Segments are averaged before any logarithm, so that they help each other.
    """
    index = target[batch.rows.input].expand(logits.shape[:-1]).unsqueeze(-1)
    likelihood = batch.probabilities(logits).gather(-1, index)
    if indicative > 0 and batch.head is Head.SOFTMAX:
        likelihood = (1 - indicative) * likelihood + indicative * logits.gather(-1, index).sigmoid()
    return squeeze(batch.pool(likelihood).squeeze(-1))


def log_odds(batch: Batch, target: Tensor, logits: Tensor, indicative: float) -> Tensor:
    """(..., S, classes) -> (..., I, V): the target against all other classes, its logit, or a mix; mean over segments.

    Unlike a probability it does not saturate where the model is sure of itself.
    """
    wanted = target[batch.rows.input]
    found = explained(batch, logits, wanted, "log-odds")
    if indicative > 0:
        found = (1 - indicative) * found + indicative * explained(batch, logits, wanted, "logit")
    return batch.pool(found.unsqueeze(-1)).squeeze(-1)


def squeeze(probability: Tensor) -> Tensor:
    """Away from 0 and 1, so that logarithms stay finite and gradients never vanish altogether."""
    return SQUEEZE + (1 - 2 * SQUEEZE) * probability


def sufficiency(found: Tensor) -> Tensor:
    """Eq. 2: -log of the evidence in the rationale alone."""
    return -found.log()


def complement(found: Tensor, form: str) -> Tensor:
    """Eq. 4: the evidence left in the complement; `bounded` cannot run away to minus infinity."""
    return -torch.log1p(-found) if form == "bounded" else found.log()


def sparsity(keep: Tensor, batch: Batch) -> Tensor:
    """(M, n) -> (M,): Eq. 2's Omega_lambda without its weight, the squared mean of keep."""
    return mean_over_units(keep, batch).square()


def width(sigma: Tensor, real: Tensor) -> Tensor:
    """(M, s), (M, s) -> (M,): Eq. 7 without its weight, minus the mean log sigma over the sources that exist."""
    return -(sigma.log() * real).sum(1) / real.sum(1)


def neighbours(keep: Tensor, batch: Batch) -> Tensor:
    """(M, n) -> (M,): Eq. 9's Omega_NB without its weight, the mean squared difference between neighbouring units."""
    real = mask_rows(batch.rows.real, batch)
    if batch.grid is not None:
        shape = (len(keep), *batch.grid)
        return neighbour_difference(keep.view(shape), real.view(shape))
    both = real[:, 1:] & real[:, :-1]
    return ((keep[:, 1:] - keep[:, :-1]).square() * both).sum(1) / real.sum(1)


def mean_over_units(values: Tensor, batch: Batch) -> Tensor:
    """(M, n) -> (M,): the mean over units that exist."""
    real = mask_rows(batch.rows.real, batch)
    return (values * real).sum(1) / real.sum(1)


def mean_over_masks(values: Tensor, batch: Batch) -> Tensor:
    """(M,) -> (I,): the mean over an input's segments."""
    owner = mask_rows(batch.rows.input, batch)
    total = torch.zeros(batch.inputs, device=values.device, dtype=values.dtype).index_add(0, owner, values)
    count = torch.zeros_like(total).index_add(0, owner, torch.ones_like(values))
    return total / count


def mask_rows(values: Tensor, batch: Batch) -> Tensor:
    """(S, ...) -> (M, ...): for each mask the value of its first row; rows of one mask agree in all but the view."""
    return values[: batch.masks]
