"""One optimiser step: the loss of all masks of a batch, and AdamW with a step count for each mask."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rationales.masks.field import field, sources
from rationales.masks.levels import at_level, draw_levels, scaled
from rationales.masks.objective import Problem, loss, mask_rows, shortness
from rationales.masks.optimizer_state import OptimizerState, bounded_sigma
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch, Noise
from rationales.models.batch.randomness import fold, uniform

BETAS, EPSILON = (0.9, 0.999), 1e-8  # the defaults of Adam
FLIP_PURPOSE, NOISE_PURPOSE = 1, 2  # keys of random streams, so that no random number is used twice


def losses(problem: Problem, w: Tensor, sigma: Tensor, count: Tensor, anchor: Tensor | None = None) -> Tensor:
    """(I,): Eq. 8 with the noise of step `count` (M,); differentiable in w and sigma, both (M, s)."""
    batch, settings = problem.batch, problem.settings
    z = field_of(batch, settings, w, sigma, anchor)
    keep, masks = z, list[Tensor]()
    if settings.mask_weight or settings.neighbour_weight:  # else the loss does not depend on the size of the mask
        keep = _keep_logit(batch, settings, z).sigmoid()
    if settings.mask_weight:
        masks.append(keep[batch.rows.mask])
    if settings.level_weight:
        masks.append(at_level(z, batch, draw_levels(batch, count, settings.level_power), settings.softness))
    flipped_masks = [_with_flips(batch, settings, mask, count) for mask in masks]
    keeps = torch.stack([side for mask in flipped_masks for side in (mask, 1 - mask)])  # (2 or 4, S, n): Eq. 1, Eq. 3
    half = torch.autocast(batch.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16")
    with half:  # the network alone: field and loss keep their precision
        logits = batch.logits(keeps, _input_noise(batch, settings, count, len(keeps)))
    return loss(problem, logits, keep, sigma)


def step(problem: Problem, state: OptimizerState) -> OptimizerState:
    """One step of AdamW (Loshchilov and Hutter 2019) on Eq. 8, for all masks, each with its step count."""
    problem = problem.on_step_views(state.step)
    batch, settings = problem.batch, problem.settings
    with torch.enable_grad():
        w, sigma = state.w.detach().requires_grad_(), state.sigma.detach().requires_grad_()
        gradients = torch.autograd.grad(losses(problem, w, sigma, state.step, state.anchor).sum(), (w, sigma))
    count = state.step + 1
    if settings.warmup_steps:
        return _warmup_step(problem, state, gradients, count)
    (w_new, sigma_new), (w_mean, sigma_mean), (w_square, sigma_square) = _adam_update(state, gradients, count, settings)
    return replace(
        state,
        w=w_new,
        sigma=bounded_sigma(batch, settings, sigma_new),
        w_mean=w_mean,
        w_square=w_square,
        sigma_mean=sigma_mean,
        sigma_square=sigma_square,
        step=count,
    )


def field_of(batch: Batch, settings: MaskSettings, w: Tensor, sigma: Tensor, anchor: Tensor | None = None) -> Tensor:
    """(M, n): Eq. 5, or w alone; with an `anchor` (M, n) the sum of the standardised field and the weighted anchor."""
    power = 1 if settings.kernel == "sigma" else 2
    z = w if settings.field == "free" else field(batch, w, sigma, power, settings.cell)
    return z if anchor is None or settings.anchor == 0 else scaled(z, batch) + settings.anchor * anchor


def keep_logit(batch: Batch, settings: MaskSettings, w: Tensor, sigma: Tensor, anchor: Tensor | None = None) -> Tensor:
    """(M, n): field whose sigmoid is keep (Eq. 6).

    Without `mask_weight` only the order of the field is optimised; it is then standardised, with keep 0.5 at its mean.
    """
    return _keep_logit(batch, settings, field_of(batch, settings, w, sigma, anchor))


def _keep_logit(batch: Batch, settings: MaskSettings, z: Tensor) -> Tensor:
    return z if settings.mask_weight else 2 * scaled(z, batch)


def _adam_update(
    state: OptimizerState, gradients: tuple[Tensor, ...], count: Tensor, settings: MaskSettings
) -> tuple[Tensor, Tensor, Tensor]:
    """(2, M, s) three times, for w and sigma: the values after step `count`, and Adam's moments."""
    value, gradient = torch.stack([state.w, state.sigma]), torch.stack(gradients)
    learning_rate = _learning_rate(settings, count, value.dtype)
    first_moment = BETAS[0] * torch.stack([state.w_mean, state.sigma_mean]) + (1 - BETAS[0]) * gradient
    second_moment = BETAS[1] * torch.stack([state.w_square, state.sigma_square]) + (1 - BETAS[1]) * gradient.square()
    steps_done = count.to(value.dtype)[:, None]
    corrected = first_moment / (1 - BETAS[0] ** steps_done)
    scale = (second_moment / (1 - BETAS[1] ** steps_done)).sqrt() + EPSILON
    updated = value * (1 - learning_rate * settings.weight_decay) - learning_rate * corrected / scale
    return updated, first_moment, second_moment


def _warmup_step(
    problem: Problem, state: OptimizerState, gradients: tuple[Tensor, ...], count: Tensor
) -> OptimizerState:
    """A step with warm-up: collect the gradient, set w from the collected gradient at its end, or update with Adam."""
    batch, settings = problem.batch, problem.settings
    collecting = (count <= settings.warmup_steps)[:, None]
    last = (count == settings.warmup_steps)[:, None]
    total = state.w_mean + gradients[0]  # during the warm-up Adam's first moment holds the sum
    real = sources(batch, settings.cell)
    start = torch.where(real, -settings.warmup_scale * total / _root_mean_square(total, batch, real), 0.0)
    anchor = state.anchor
    if settings.anchor:
        anchor_sigma = bounded_sigma(batch, settings, torch.full_like(start, settings.anchor_sigma))
        smoothed = field_of(batch, settings, start, anchor_sigma)
        # no anchor in a sentence, where single words count
        longness = 1 - shortness(batch)[mask_rows(batch.rows.input, batch)][:, None]
        anchor = torch.where(last, longness * scaled(smoothed, batch), anchor)
    adam_count = (count - settings.warmup_steps).clamp(min=1)
    (w, sigma), (w_mean, sigma_mean), (w_square, sigma_square) = _adam_update(state, gradients, adam_count, settings)
    zeros = torch.zeros_like(total)
    return replace(
        state,
        w=torch.where(last, start, torch.where(collecting, state.w, w)),
        sigma=torch.where(collecting, state.sigma, bounded_sigma(batch, settings, sigma)),
        w_mean=torch.where(last, zeros, torch.where(collecting, total, w_mean)),
        w_square=torch.where(collecting, zeros, w_square),
        sigma_mean=torch.where(collecting, zeros, sigma_mean),
        sigma_square=torch.where(collecting, zeros, sigma_square),
        step=count,
        anchor=anchor,
    )


def _root_mean_square(values: Tensor, batch: Batch, real: Tensor) -> Tensor:
    """(M, 1): root mean square of each input's `values` (M, s) over all of its masks."""
    mask_input = mask_rows(batch.rows.input, batch)
    zeros = torch.zeros(batch.inputs, device=values.device, dtype=values.dtype)
    square = zeros.index_add(0, mask_input, (values.square() * real).sum(1))
    count = zeros.index_add(0, mask_input, real.to(values.dtype).sum(1))
    return (square / count).sqrt().clamp(min=1e-12)[mask_input][:, None]


def _learning_rate(settings: MaskSettings, count: Tensor, dtype: torch.dtype) -> Tensor:
    """(M, 1): learning rate of each mask in step `count`, counted from 1."""
    done = (count - 1).to(dtype)[:, None] / max(1, settings.steps - settings.warmup_steps)
    falling = (1 + torch.cos(torch.pi * done)) / 2
    return settings.learning_rate * (falling if settings.schedule == "cosine" else torch.ones_like(done))


def _with_flips(batch: Batch, settings: MaskSettings, keep: Tensor, count: Tensor) -> Tensor:
    """keep with a random share of the units set to 0 and another to 1 (section 3.2)."""
    if settings.flip_share == 0:
        return keep
    positions = uniform(fold(mask_rows(batch.rows.key, batch), FLIP_PURPOSE, count), keep.shape[1])[batch.rows.mask]
    off, on = positions < settings.flip_share, positions > 1 - settings.flip_share
    return torch.where(off, torch.zeros_like(keep), torch.where(on, torch.ones_like(keep), keep))


def _input_noise(batch: Batch, settings: MaskSettings, count: Tensor, variants: int) -> Noise | None:
    if settings.noise == 0:
        return None
    key = fold(batch.rows.key, NOISE_PURPOSE, count[batch.rows.mask], batch.rows.view)
    return Noise(settings.noise, torch.cat([fold(key, variant) for variant in range(variants)]))
