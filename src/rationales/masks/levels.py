"""Masks of every size from one field: at a level the mask keeps that share of an input's units, the best of them.

Sufficiency and comprehensiveness are judged by keeping, or taking away, a growing share of the units. A field is good
in that sense if its mask is good at every level, so each step of the optimisation draws one.
"""

from __future__ import annotations

from math import ceil, log2

import torch
from torch import Tensor

from rationales.models.batch import Batch
from rationales.models.randomness import fold, uniform

LOWEST, HIGHEST = 0.05, 0.95
GOLDEN = 0.6180339887498949  # multiples of it, without their whole part, cover [0, 1] evenly from the first on
LEVELS = 3  # purpose, so that no random number is used twice
HALVINGS = 16  # of the interval in which the edge of a mask is looked for
TRIED = {"cuda": 15}  # places at once, by device: where a call costs more than what it computes
FLAT = 1e-4  # a field that varies less is taken to be flat


def drawn(batch: Batch, step: Tensor, small: float = 1.0) -> Tensor:
    """(groups,): the level of every input and view in its step number `step` (M,), even over steps and views."""
    group = groups(batch)
    rows = torch.arange(len(group), device=group.device)
    first = torch.full((batch.inputs * batch.views,), len(group), device=group.device)
    first = first.scatter_reduce(0, group, rows, "amin")
    own = batch.rows.mask[first]
    key = batch.rows.key[first]
    place = uniform(fold(key, LEVELS), 1)[:, 0] + GOLDEN * (step[own] * batch.views + batch.rows.view[first]).double()
    return (LOWEST + (HIGHEST - LOWEST) * torch.frac(place) ** small).to(batch.dtype)


def at_level(z: Tensor, batch: Batch, level: Tensor, softness: float) -> Tensor:
    """(S, n): keep = sigmoid((z - q) / tau), with q such that each input's mean keep is its `level` (groups,).

    z: (M, n). tau is `softness` times the standard deviation of z over the input's units. Raising all of z changes
    nothing, and neither does scaling it: q follows z, also in the gradient; tau is taken as it is.
    """
    group, real = groups(batch), batch.rows.real
    values = z[batch.rows.mask]
    with torch.no_grad():
        q, deviation = edge(z, batch, level, softness)
        rate = 1 / (softness * deviation)[group][:, None]
        fixed = torch.where(real, values, 0.0)
        kept = torch.sigmoid((fixed - q[group][:, None]) * rate)
        slope = kept * (1 - kept) * real
        share = slope / _sum(slope, group, len(level)).clamp(min=1e-12)[group][:, None]
    # the implicit derivative of q: what is on the edge of the mask moves it
    moving = q + _sum(share * (values - fixed) * real, group, len(level))
    return torch.sigmoid((values - moving[group][:, None]) * rate)


def edge(z: Tensor, batch: Batch, level: Tensor, softness: float) -> tuple[Tensor, Tensor]:
    """(..., groups) levels -> q of the same shape, and (groups,) the standard deviation of z over the input's units."""
    group, real = groups(batch), batch.rows.real
    members = level.shape[-1]
    count = _sum(real.to(z.dtype), group, members)
    values = z[batch.rows.mask]
    fixed = torch.where(real, values, 0.0)
    mean = _sum(fixed, group, members) / count
    variance = _sum(torch.where(real, (fixed - mean[group][:, None]).square(), 0.0), group, members) / count
    deviation = variance.sqrt().clamp(min=FLAT)
    tau = softness * deviation
    beyond = tau * torch.logit(level).abs().add(1)
    low = torch.full_like(mean, torch.inf).scatter_reduce(
        0, group, torch.where(real, values, torch.inf).amin(1), "amin"
    )
    high = torch.full_like(mean, -torch.inf).scatter_reduce(
        0, group, torch.where(real, values, -torch.inf).amax(1), "amax"
    )
    return _crossing(fixed, batch, level, 1 / tau, low - beyond, high + beyond), deviation


def _crossing(fixed: Tensor, batch: Batch, level: Tensor, rate: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """(..., groups): where between `low` and `high` the mean of sigmoid((fixed - q) rate) falls to the level.

    Between them some places are tried at once, and the search goes on between two of these.
    """
    group, real = groups(batch), batch.rows.real[..., None]
    count = _sum(real[..., 0].to(fixed.dtype), group, level.shape[-1])[:, None]
    tried = TRIED.get(fixed.device.type, 1)
    steps = torch.arange(tried + 2, device=fixed.device, dtype=fixed.dtype) / (tried + 1)
    scaled_, rate = (fixed * rate[group][:, None])[..., None], rate[group][:, None, None]
    for _ in range(ceil(HALVINGS / log2(tried + 1))):
        places = low[..., None] + (high - low)[..., None] * steps  # (..., groups, tried + 2), from low to high
        inner = places[..., group, None, 1:-1]
        kept = (torch.sigmoid(scaled_ - inner * rate) * real).sum(-2)  # (..., S, tried)
        mean = torch.zeros_like(places[..., 1:-1]).index_add(-2, group, kept) / count
        above = (mean > level[..., None]).sum(-1, keepdim=True)  # the mean falls from place to place
        low, high = places.gather(-1, above)[..., 0], places.gather(-1, above + 1)[..., 0]
    return (low + high) / 2


def standard(z: Tensor, batch: Batch) -> Tensor:
    """(M, n): z as a keep between 0 and 1 that does not depend on its offset and scale, 0.5 at its mean."""
    return torch.sigmoid(2 * scaled(z, batch))


def scaled(z: Tensor, batch: Batch) -> Tensor:
    """(M, n): z with mean 0 and standard deviation 1 over each input's units; 0 where there is none."""
    owner, real = batch.rows.input[: batch.masks], batch.rows.real[: batch.masks]
    count = _sum(real.to(z.dtype), owner, batch.inputs)
    mean = _sum(torch.where(real, z, 0.0), owner, batch.inputs) / count
    away = torch.where(real, z - mean[owner][:, None], 0.0)
    deviation = (_sum(away.square(), owner, batch.inputs) / count).clamp(min=FLAT**2).sqrt()
    return away / deviation[owner][:, None]


def groups(batch: Batch) -> Tensor:
    """(S,): rows of one input under one view are one group."""
    return batch.rows.input * batch.views + batch.rows.view


def _sum(values: Tensor, group: Tensor, count: int) -> Tensor:
    """(S, n) -> (count,)."""
    return torch.zeros(count, device=values.device, dtype=values.dtype).index_add(0, group, values.sum(1))
