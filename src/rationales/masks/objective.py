"""The terms of the loss, one small function each (MaRC, Eq. 2-8). Shapes: I inputs, V views, M masks, n units.

Sufficiency and comprehensiveness are measured by keeping, or replacing, a growing share of the units. To optimise a
field for all of them, each step draws one level: the mask at a level keeps that share of an input's units, those of
highest value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, log2

import torch
from torch import Tensor

from rationales.masks.bounded_field import MEAN_WEIGHT, area_term, cell_terms, mean_area_term
from rationales.masks.field import source_weights
from rationales.masks.grid import neighbour_difference
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch
from rationales.models.batch.rows import fold, uniform
from rationales.models.classes import Head, explained_output

LOWEST, HIGHEST = 0.05, 0.95
GOLDEN = 0.6180339887498949  # fractional parts of its multiples cover [0, 1] evenly from the start
FLIP_PURPOSE, NOISE_PURPOSE, LEVEL_PURPOSE = 1, 2, 3  # keys of random streams, so that no number is used twice
BISECTIONS = 16  # of the interval that contains the threshold of a mask
# Points evaluated at once, by device; 1 elsewhere. On a GPU a launch costs more than the sum; more points where all of
# them together have few values.
POINTS, MANY_POINTS, FEW_VALUES = {"cuda": 15}, {"cuda": 255}, 2**24
AREA_START, AREA_RAMP = 1e-4, 0.5  # share of the area's weight in the first step; share of the steps in which it grows
MIN_DEVIATION = 1e-4  # smallest standard deviation of a field that is divided by


@dataclass(frozen=True, eq=False)
class RandomKeys:
    """Keys of a batch's random streams, which are the same in all steps."""

    first_mask: Tensor  # (groups,) the mask of each input's first row under each view
    first_view: Tensor  # (groups,)
    level: Tensor  # (groups,) numbers in (0, 1) that the sequences of levels begin with
    flips: Tensor  # (M,)
    noise: Tensor  # (S,)

    @classmethod
    def of(cls, batch: Batch) -> RandomKeys:
        group = row_groups(batch)
        row_index = torch.arange(len(group), device=group.device)
        first_row = torch.full((batch.inputs * batch.views,), len(group), device=group.device)
        first_row = first_row.scatter_reduce(0, group, row_index, "amin")
        key = batch.rows.key
        return cls(
            first_mask=batch.rows.mask[first_row],
            first_view=batch.rows.view[first_row],
            level=uniform(fold(key[first_row], LEVEL_PURPOSE), 1)[:, 0],
            flips=fold(mask_rows(key, batch), FLIP_PURPOSE),
            noise=fold(key, NOISE_PURPOSE),
        )


def draw_levels(batch: Batch, draw: Tensor, level_power: float = 1.0, keys: RandomKeys | None = None) -> Tensor:
    """(..., groups): level of every input and view in the draws `draw` (..., M), evenly spread over draws and views."""
    keys = keys or RandomKeys.of(batch)
    number = draw[..., keys.first_mask] * batch.views + keys.first_view
    position = keys.level + GOLDEN * number.double()
    return (LOWEST + (HIGHEST - LOWEST) * torch.frac(position) ** level_power).to(batch.dtype)


def at_level(z: Tensor, batch: Batch, level: Tensor, softness: float) -> Tensor:
    """(..., S, n): keep = sigmoid((z - q) / tau), with q such that an input's mean keep is its `level` (..., groups).

    z: (M, n). tau is `softness` times the standard deviation of z over the input's units. The result does not
    depend on the offset and scale of z. The gradient goes through q, but not through tau.
    """
    group, real = row_groups(batch), batch.rows.real
    values = z[batch.rows.mask]
    with torch.no_grad():
        q, deviation = edge(z, batch, level, softness)
        inverse_softness = 1 / (softness * deviation)[group][:, None]
        constant_values = torch.where(real, values, 0.0)
        kept = torch.sigmoid((constant_values - q[..., group, None]) * inverse_softness)
        derivative = kept * (1 - kept) * batch.unit_weights()
        total = _sum_by_group(derivative, group, level.shape[-1]).clamp(min=1e-12)
        derivative_share = derivative / total[..., group, None]
    # implicit derivative of q: units at the edge of the mask move it
    q_with_gradient = q + _sum_by_group(derivative_share * (values - constant_values) * real, group, level.shape[-1])
    return torch.sigmoid((values - q_with_gradient[..., group, None]) * inverse_softness)


def edge(z: Tensor, batch: Batch, level: Tensor, softness: float) -> tuple[Tensor, Tensor]:
    """(..., groups) levels -> q of the same shape, and (groups,) the standard deviation of z over the input's units."""
    group, real = row_groups(batch), batch.rows.real
    weights = batch.unit_weights().to(z.dtype)
    groups = level.shape[-1]
    count = _sum_by_group(weights, group, groups)
    values = z[batch.rows.mask]
    real_values = torch.where(real, values, 0.0)
    mean = _sum_by_group(weights * real_values, group, groups) / count
    squares = weights * (real_values - mean[group][:, None]).square()
    variance = _sum_by_group(squares, group, groups) / count
    deviation = variance.sqrt().clamp(min=MIN_DEVIATION)
    tau = softness * deviation
    margin = tau * torch.logit(level).abs().add(1)
    lowest, highest = torch.where(real, values, torch.inf).amin(1), torch.where(real, values, -torch.inf).amax(1)
    low = torch.full_like(mean, torch.inf).scatter_reduce(0, group, lowest, "amin")
    high = torch.full_like(mean, -torch.inf).scatter_reduce(0, group, highest, "amax")
    return _crossing(real_values, batch, level, 1 / tau, low - margin, high + margin), deviation


def _crossing(
    values: Tensor, batch: Batch, level: Tensor, inverse_softness: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """(..., groups): q in [lower, upper] at which the mean of sigmoid((values - q) inverse_softness) is the level.

    Bisection; where several points are evaluated at once, the search continues between two of them.
    """
    group, weights = row_groups(batch), batch.unit_weights().to(values.dtype)[..., None]
    count = _sum_by_group(weights[..., 0], group, level.shape[-1])[:, None]
    points_at_once = POINTS.get(values.device.type, 1)
    many_points = MANY_POINTS.get(values.device.type, 1)
    if many_points * values.numel() * level[..., 0].numel() <= FEW_VALUES:
        points_at_once = max(points_at_once, many_points)
    steps = torch.arange(points_at_once + 2, device=values.device, dtype=values.dtype) / (points_at_once + 1)
    scaled_values = (values * inverse_softness[group][:, None])[..., None]
    inverse_softness = inverse_softness[group][:, None, None]
    for _ in range(ceil(BISECTIONS / log2(points_at_once + 1))):
        points = lower[..., None] + (upper - lower)[..., None] * steps  # (..., groups, points + 2), rising
        inner_points = points[..., group, None, 1:-1]
        kept = (torch.sigmoid(scaled_values - inner_points * inverse_softness) * weights).sum(-2)  # (..., S, points)
        mean = torch.zeros_like(points[..., 1:-1]).index_add(-2, group, kept) / count
        above = (mean > level[..., None]).sum(-1, keepdim=True)  # the mean falls with q
        lower, upper = points.gather(-1, above)[..., 0], points.gather(-1, above + 1)[..., 0]
    return (lower + upper) / 2


def scaled(z: Tensor, batch: Batch) -> Tensor:
    """(M, n): z with mean 0 and standard deviation 1 over each input's units; 0 for padding."""
    owner, real = batch.rows.input[: batch.masks], batch.rows.real[: batch.masks]
    weights = mask_rows(batch.unit_weights(), batch).to(z.dtype)
    count = _sum_by_group(weights, owner, batch.inputs)
    mean = _sum_by_group(weights * torch.where(real, z, 0.0), owner, batch.inputs) / count
    centred = torch.where(real, z - mean[owner][:, None], 0.0)
    deviation = (
        (_sum_by_group(weights * centred.square(), owner, batch.inputs) / count).clamp(min=MIN_DEVIATION**2).sqrt()
    )
    return centred / deviation[owner][:, None]


def row_groups(batch: Batch) -> Tensor:
    """(S,): group of each row; rows of one input under one view are one group."""
    return batch.rows.input * batch.views + batch.rows.view


def _sum_by_group(values: Tensor, group: Tensor, count: int) -> Tensor:
    """(..., S, n) -> (..., count): sum over the rows of each group."""
    totals = torch.zeros((*values.shape[:-2], count), device=values.device, dtype=values.dtype)
    return totals.index_add(-1, group, values.sum(-1))


SHORT_UNITS, LONG_UNITS = 40, 120  # units
SQUEEZE = 5e-6  # probabilities are mapped from [0, 1] to [SQUEEZE, 1 - SQUEEZE] before the logarithm


@dataclass(frozen=True, eq=False)
class Problem:
    """An optimisation problem: rows, the target of each input, settings, and the floor of the complement's evidence."""

    batch: Batch
    target: Tensor  # (I,)
    settings: MaskSettings
    complement_floor: Tensor  # (I, V) evidence below which the complement need not fall

    @cached_property
    def keys(self) -> RandomKeys:
        """Keys of the random numbers; computed once."""
        return RandomKeys.of(self.batch)

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


def sides_shown(settings: MaskSettings) -> int:
    """Number of sides of a mask that the model reads: the rationale and its complement, or one of them alone."""
    return 1 if (settings.sufficiency == 0) != (settings.complement == 0) else 2


def keeps_per_step(settings: MaskSettings) -> int:
    """Number of keeps that the model reads in a step for each row."""
    return sides_shown(settings) * (bool(settings.mask_weight) + settings.draws * bool(settings.level_weight))


def loss(
    problem: Problem,
    logits: Tensor,
    keep: Tensor,
    sigma: Tensor,
    w: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """(I,): Eq. 8 for every input, and the terms of bounded fields (`w` (M, s)) and of areas (step `count` (M,)).

    logits: (K, S, classes) of the rationale and its complement, or of one of them (`sides_shown`): first of the mask
    itself, where it counts, then of all rationales at drawn levels, whose mean counts, and of all their complements.
    """
    batch, settings = problem.batch, problem.settings
    sides = len(logits) // (bool(settings.mask_weight) + settings.draws * bool(settings.level_weight))
    forms = [(settings.mask_form, settings.mask_weight, logits[:sides])] if settings.mask_weight else []
    if settings.level_weight:
        of_levels = logits[len(forms) * sides :]
        forms.append((settings.level_form, settings.level_weight, of_levels.view(sides, -1, *of_levels.shape[1:])))
    total = torch.zeros((), device=logits.device, dtype=logits.dtype)
    for form, weight, side_logits in forms:
        if form == "log-odds":
            odds = log_odds(batch, problem.target, side_logits, settings.indicative)  # (sides, ..., I, V)
            kept, left = odds[0], odds[-1]  # a side that is not shown has the weight 0
            left = torch.maximum(left, torch.logit(problem.complement_floor))
            form_loss = settings.complement * left - settings.sufficiency * kept
        else:
            likelihood = evidence(batch, problem.target, side_logits, settings.indicative)
            kept, left = likelihood[0], likelihood[-1]
            left = torch.maximum(left, problem.complement_floor)
            if form == "linear":
                form_loss = settings.complement * left - settings.sufficiency * kept
            else:
                form_loss = settings.sufficiency * sufficiency_term(kept)
                form_loss = form_loss + settings.complement * complement_term(left, settings.complement_form)
        total = total + weight * (form_loss if form_loss.dim() == 2 else form_loss.mean(0))
    regularisation = settings.sigma_weight * sigma_term(sigma, source_weights(batch, settings.cell))
    if settings.mask_weight:
        regularisation = regularisation + settings.sparsity * sparsity_term(keep, batch)
    if settings.neighbour_weight > 0:
        regularisation = regularisation + settings.neighbour_weight * neighbour_term(keep, batch)
    if w is not None and (settings.l1_weight or settings.tv_weight):
        regularisation = regularisation + cell_terms(w, batch, settings)
    if count is not None and settings.area:
        real = mask_rows(batch.rows.real, batch)
        penalty = area_term(keep, real, settings.area) + MEAN_WEIGHT * mean_area_term(keep, real, settings.area)
        regularisation = regularisation + area_weight(settings, count.to(keep.dtype)) * penalty
    return total.mean(-1) + mean_over_masks(regularisation, batch)


def area_weight(settings: MaskSettings, count: Tensor) -> Tensor:
    """(M,): weight of the area's penalty in step `count` (M,): growing by a constant factor, then constant."""
    remaining = (1 - count / (AREA_RAMP * settings.steps)).clamp(min=0)
    return settings.area_weight * AREA_START**remaining


def at_area(z: Tensor, batch: Batch, area: float) -> Tensor:
    """(M, n): z shifted so that the mean of its sigmoid over each input's units is `area`."""
    values = torch.where(batch.rows.real, z[batch.rows.mask], 0.0)
    level = torch.full((batch.inputs * batch.views,), area, device=z.device, dtype=z.dtype)
    reach = (values.abs().amax() + torch.logit(level).abs() + 1).expand_as(level)
    q = _crossing(values, batch, level, torch.ones_like(level), -reach, reach)
    return z - q[row_groups(batch)[: batch.masks]][:, None]


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
    value = explained_output(batch.head, logits, row_target, "log-odds")
    if indicative > 0:
        value = (1 - indicative) * value + indicative * explained_output(batch.head, logits, row_target, "logit")
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


def sigma_term(sigma: Tensor, weights: Tensor) -> Tensor:
    """(M, s), (M, s) -> (M,): Eq. 7 without its weight, minus the mean log sigma over existing sources.

    `weights`: 1 for sources that exist and 0 for others, or those of `source_weights`.
    """
    return -(sigma.log() * weights).sum(1) / weights.sum(1)


def neighbour_term(keep: Tensor, batch: Batch) -> Tensor:
    """(M, n) -> (M,): Eq. 9's Omega_NB without its weight, the mean squared difference between neighbouring units.

    Of several parts, the mean of theirs.
    """
    real = mask_rows(batch.rows.real, batch)
    terms = [
        _part_neighbours(keep[:, unit_part.units], real[:, unit_part.units], unit_part.grid)
        for unit_part in batch.parts
    ]
    return terms[0] if len(terms) == 1 else torch.stack(terms).mean(0)


def _part_neighbours(keep: Tensor, real: Tensor, grid: tuple[int, int] | None) -> Tensor:
    if grid is not None:
        shape = (len(keep), *grid)
        return neighbour_difference(keep.reshape(shape), real.reshape(shape))
    both = real[:, 1:] & real[:, :-1]
    return ((keep[:, 1:] - keep[:, :-1]).square() * both).sum(1) / real.sum(1).clamp(min=1)


def mean_over_units(values: Tensor, batch: Batch) -> Tensor:
    """(M, n) -> (M,): mean over existing units; of several parts, the mean of their means."""
    weights = mask_rows(batch.unit_weights(), batch)
    return (values * weights).sum(1) / weights.sum(1)


def mean_over_masks(values: Tensor, batch: Batch) -> Tensor:
    """(M,) -> (I,): mean over an input's segments."""
    mask_input = mask_rows(batch.rows.input, batch)
    total = torch.zeros(batch.inputs, device=values.device, dtype=values.dtype).index_add(0, mask_input, values)
    count = torch.zeros_like(total).index_add(0, mask_input, torch.ones_like(values))
    return total / count


def mask_rows(values: Tensor, batch: Batch) -> Tensor:
    """(S, ...) -> (M, ...): values of the first row of each mask; rows of one mask differ in the view only."""
    return values[: batch.masks]
