"""The terms of the loss, one small function each (MaRC, Eq. 2-8). Shapes: I inputs, V views, M masks, n units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rationales.masks.field import sources
from rationales.masks.grid import neighbour_difference
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch
from rationales.models.batch.heads import Head
from rationales.models.batch.queries import explained_output

SHORT_UNITS, LONG_UNITS = 40, 120  # units
SQUEEZE = 5e-6  # probabilities are mapped from [0, 1] to [SQUEEZE, 1 - SQUEEZE] before the logarithm


@dataclass(frozen=True, eq=False)
class Problem:
    """An optimisation problem: rows, the target of each input, settings, and the floor of the complement's evidence."""

    batch: Batch
    target: Tensor  # (I,)
    settings: MaskSettings
    complement_floor: Tensor  # (I, V) evidence below which the complement need not fall

    @classmethod
    def of(cls, batch: Batch, target: Tensor, settings: MaskSettings) -> Problem:
        """Problem of a batch; the floor comes from the model's evidence on the baseline."""
        weight = settings.complement_floor * shortness(batch)[:, None]
        if settings.complement_floor == 0:
            return cls(batch, target, settings, weight.expand(-1, batch.views))
        with torch.no_grad():
            empty = evidence(batch, target, batch.logits(batch.zeros()), settings.indicative)
        return cls(batch, target, settings, weight * empty)

    def on_step_views(self, step: Tensor) -> Problem:
        """Problem of step `step` (M,): all baselines, or for each input the baseline whose turn it is."""
        if self.settings.views == "all" or self.batch.views == 1:
            return self
        view = mask_rows(self.batch.rows.key, self.batch).remainder(self.batch.views) + step
        view = view.remainder(self.batch.views)
        floor = self.complement_floor.gather(1, view[:, None])
        return replace(self, batch=self.batch.on_baseline(view), complement_floor=floor)


def loss(problem: Problem, logits: Tensor, keep: Tensor, sigma: Tensor) -> Tensor:
    """(I,): Eq. 8 for every input.

    logits: (2, S, classes) of the rationale and its complement, or (4, S, classes) where both the mask itself and the
    mask at a drawn level count.
    """
    batch, settings = problem.batch, problem.settings
    forms = [("log", settings.mask_weight)] if settings.mask_weight else []
    forms += [(settings.level_form, settings.level_weight)] if settings.level_weight else []
    total = torch.zeros((), device=logits.device, dtype=logits.dtype)
    for number, (form, weight) in enumerate(forms):
        pair_logits = logits[2 * number : 2 * number + 2]
        if form == "log-odds":
            kept, left = log_odds(batch, problem.target, pair_logits, settings.indicative)  # (I, V) each
            left = torch.maximum(left, torch.logit(problem.complement_floor))
            form_loss = settings.complement * left - settings.sufficiency * kept
        else:
            kept, left = evidence(batch, problem.target, pair_logits, settings.indicative)
            left = torch.maximum(left, problem.complement_floor)
            if form == "linear":
                form_loss = settings.complement * left - settings.sufficiency * kept
            else:
                form_loss = settings.sufficiency * sufficiency_term(kept)
                form_loss = form_loss + settings.complement * complement_term(left, settings.complement_form)
        total = total + weight * form_loss
    regularisation = settings.sigma_weight * sigma_term(sigma, sources(batch, settings.cell))
    if settings.mask_weight:
        regularisation = regularisation + settings.sparsity * sparsity_term(keep, batch)
    if settings.neighbour_weight > 0:
        regularisation = regularisation + settings.neighbour_weight * neighbour_term(keep, batch)
    return total.mean(-1) + mean_over_masks(regularisation, batch)


def shortness(batch: Batch) -> Tensor:
    """(I,): 1 for inputs of at most SHORT_UNITS units, 0 from LONG_UNITS on, linear between.

    In a short input the words against the target are the context of those for it: without a floor the loss is lower
    with them in the complement, and "good" drops out of "not good". In a long input they belong to the complement.
    """
    return ((LONG_UNITS - unit_count(batch)) / (LONG_UNITS - SHORT_UNITS)).clamp(0, 1)


def unit_count(batch: Batch) -> Tensor:
    """(I,): number of units of each input."""
    units = torch.zeros(batch.inputs, device=batch.device, dtype=batch.dtype)
    return units.index_add(0, batch.rows.input, (batch.rows.blend * batch.rows.real).sum(1))


def evidence(batch: Batch, target: Tensor, logits: Tensor, indicative: float) -> Tensor:
    """(..., S, classes) -> (..., I, V): evidence for the target between 0 and 1.

    The target's probability (discriminative), the sigmoid of its logit (indicative), or a mix. Averaged over segments
    before any logarithm, so that one segment with the evidence is enough.
    """
    index = target[batch.rows.input].expand(logits.shape[:-1]).unsqueeze(-1)
    likelihood = batch.probabilities(logits).gather(-1, index)
    if indicative > 0 and batch.head is Head.SOFTMAX:
        likelihood = (1 - indicative) * likelihood + indicative * logits.gather(-1, index).sigmoid()
    return squeeze(batch.pool(likelihood).squeeze(-1))


def log_odds(batch: Batch, target: Tensor, logits: Tensor, indicative: float) -> Tensor:
    """(..., S, classes) -> (..., I, V): log-odds of the target, its logit, or a mix; mean over segments.

    Unlike a probability they do not saturate where the model is certain.
    """
    row_target = target[batch.rows.input]
    value = explained_output(batch, logits, row_target, "log-odds")
    if indicative > 0:
        value = (1 - indicative) * value + indicative * explained_output(batch, logits, row_target, "logit")
    return batch.pool(value.unsqueeze(-1)).squeeze(-1)


def squeeze(probability: Tensor) -> Tensor:
    """Move probabilities away from 0 and 1, so that logarithms stay finite and gradients do not vanish."""
    return SQUEEZE + (1 - 2 * SQUEEZE) * probability


def sufficiency_term(kept_evidence: Tensor) -> Tensor:
    """Eq. 2: -log of the evidence in the rationale alone."""
    return -kept_evidence.log()


def complement_term(left_evidence: Tensor, form: str) -> Tensor:
    """Eq. 4: the evidence left in the complement; `bounded` has a lower bound."""
    return -torch.log1p(-left_evidence) if form == "bounded" else left_evidence.log()


def sparsity_term(keep: Tensor, batch: Batch) -> Tensor:
    """(M, n) -> (M,): Eq. 2's Omega_lambda without its weight, the squared mean of keep."""
    return mean_over_units(keep, batch).square()


def sigma_term(sigma: Tensor, real: Tensor) -> Tensor:
    """(M, s), (M, s) -> (M,): Eq. 7 without its weight, minus the mean log sigma over existing sources."""
    return -(sigma.log() * real).sum(1) / real.sum(1)


def neighbour_term(keep: Tensor, batch: Batch) -> Tensor:
    """(M, n) -> (M,): Eq. 9's Omega_NB without its weight, the mean squared difference between neighbouring units."""
    real = mask_rows(batch.rows.real, batch)
    if batch.grid is not None:
        shape = (len(keep), *batch.grid)
        return neighbour_difference(keep.view(shape), real.view(shape))
    both = real[:, 1:] & real[:, :-1]
    return ((keep[:, 1:] - keep[:, :-1]).square() * both).sum(1) / real.sum(1)


def mean_over_units(values: Tensor, batch: Batch) -> Tensor:
    """(M, n) -> (M,): mean over existing units."""
    real = mask_rows(batch.rows.real, batch)
    return (values * real).sum(1) / real.sum(1)


def mean_over_masks(values: Tensor, batch: Batch) -> Tensor:
    """(M,) -> (I,): mean over an input's segments."""
    mask_input = mask_rows(batch.rows.input, batch)
    total = torch.zeros(batch.inputs, device=values.device, dtype=values.dtype).index_add(0, mask_input, values)
    count = torch.zeros_like(total).index_add(0, mask_input, torch.ones_like(values))
    return total / count


def mask_rows(values: Tensor, batch: Batch) -> Tensor:
    """(S, ...) -> (M, ...): values of the first row of each mask; rows of one mask differ in the view only."""
    return values[: batch.masks]
