"""Masks of any size from one field: the mask at a level keeps that share of an input's units, those of highest value.

Sufficiency and comprehensiveness are measured by keeping, or replacing, a growing share of the units. To optimise a
field for all of them, each step draws one level.
"""

from __future__ import annotations

from math import ceil, log2

import torch
from torch import Tensor

from rationales.models.batch import Batch
from rationales.models.batch.randomness import fold, uniform

LOWEST, HIGHEST = 0.05, 0.95
GOLDEN = 0.6180339887498949  # fractional parts of its multiples cover [0, 1] evenly from the start
LEVEL_PURPOSE = 3  # key of this random stream, so that no random number is used twice
BISECTIONS = 16  # of the interval that contains the threshold of a mask
POINTS = {"cuda": 15}  # points evaluated at once, by device; 1 elsewhere. On a GPU the launch costs more than the sum
MIN_DEVIATION = 1e-4  # smallest standard deviation of a field that is divided by


def draw_levels(batch: Batch, step: Tensor, level_power: float = 1.0) -> Tensor:
    """(groups,): level of every input and view at step `step` (M,), evenly spread over steps and views."""
    group = row_groups(batch)
    row_index = torch.arange(len(group), device=group.device)
    first_row = torch.full((batch.inputs * batch.views,), len(group), device=group.device)
    first_row = first_row.scatter_reduce(0, group, row_index, "amin")
    first_mask = batch.rows.mask[first_row]
    key = batch.rows.key[first_row]
    number = step[first_mask] * batch.views + batch.rows.view[first_row]
    position = uniform(fold(key, LEVEL_PURPOSE), 1)[:, 0] + GOLDEN * number.double()
    return (LOWEST + (HIGHEST - LOWEST) * torch.frac(position) ** level_power).to(batch.dtype)


def at_level(z: Tensor, batch: Batch, level: Tensor, softness: float) -> Tensor:
    """(S, n): keep = sigmoid((z - q) / tau), with q such that each input's mean keep is its `level` (groups,).

    z: (M, n). tau is `softness` times the standard deviation of z over the input's units. The result does not
    depend on the offset and scale of z. The gradient goes through q, but not through tau.
    """
    group, real = row_groups(batch), batch.rows.real
    values = z[batch.rows.mask]
    with torch.no_grad():
        q, deviation = edge(z, batch, level, softness)
        inverse_softness = 1 / (softness * deviation)[group][:, None]
        constant_values = torch.where(real, values, 0.0)
        kept = torch.sigmoid((constant_values - q[group][:, None]) * inverse_softness)
        derivative = kept * (1 - kept) * real
        derivative_share = derivative / _sum_by_group(derivative, group, len(level)).clamp(min=1e-12)[group][:, None]
    # implicit derivative of q: units at the edge of the mask move it
    q_with_gradient = q + _sum_by_group(derivative_share * (values - constant_values) * real, group, len(level))
    return torch.sigmoid((values - q_with_gradient[group][:, None]) * inverse_softness)


def edge(z: Tensor, batch: Batch, level: Tensor, softness: float) -> tuple[Tensor, Tensor]:
    """(..., groups) levels -> q of the same shape, and (groups,) the standard deviation of z over the input's units."""
    group, real = row_groups(batch), batch.rows.real
    groups = level.shape[-1]
    count = _sum_by_group(real.to(z.dtype), group, groups)
    values = z[batch.rows.mask]
    real_values = torch.where(real, values, 0.0)
    mean = _sum_by_group(real_values, group, groups) / count
    squares = torch.where(real, (real_values - mean[group][:, None]).square(), 0.0)
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
    group, real = row_groups(batch), batch.rows.real[..., None]
    count = _sum_by_group(real[..., 0].to(values.dtype), group, level.shape[-1])[:, None]
    points_at_once = POINTS.get(values.device.type, 1)
    steps = torch.arange(points_at_once + 2, device=values.device, dtype=values.dtype) / (points_at_once + 1)
    scaled_values = (values * inverse_softness[group][:, None])[..., None]
    inverse_softness = inverse_softness[group][:, None, None]
    for _ in range(ceil(BISECTIONS / log2(points_at_once + 1))):
        points = lower[..., None] + (upper - lower)[..., None] * steps  # (..., groups, points + 2), rising
        inner_points = points[..., group, None, 1:-1]
        kept = (torch.sigmoid(scaled_values - inner_points * inverse_softness) * real).sum(-2)  # (..., S, points)
        mean = torch.zeros_like(points[..., 1:-1]).index_add(-2, group, kept) / count
        above = (mean > level[..., None]).sum(-1, keepdim=True)  # the mean falls with q
        lower, upper = points.gather(-1, above)[..., 0], points.gather(-1, above + 1)[..., 0]
    return (lower + upper) / 2


def scaled(z: Tensor, batch: Batch) -> Tensor:
    """(M, n): z with mean 0 and standard deviation 1 over each input's units; 0 for padding."""
    owner, real = batch.rows.input[: batch.masks], batch.rows.real[: batch.masks]
    count = _sum_by_group(real.to(z.dtype), owner, batch.inputs)
    mean = _sum_by_group(torch.where(real, z, 0.0), owner, batch.inputs) / count
    centred = torch.where(real, z - mean[owner][:, None], 0.0)
    deviation = (_sum_by_group(centred.square(), owner, batch.inputs) / count).clamp(min=MIN_DEVIATION**2).sqrt()
    return centred / deviation[owner][:, None]


def row_groups(batch: Batch) -> Tensor:
    """(S,): group of each row; rows of one input under one view are one group."""
    return batch.rows.input * batch.views + batch.rows.view


def _sum_by_group(values: Tensor, group: Tensor, count: int) -> Tensor:
    """(S, n) -> (count,): sum over the rows of each group."""
    return torch.zeros(count, device=values.device, dtype=values.dtype).index_add(0, group, values.sum(1))
