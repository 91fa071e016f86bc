"""The optimiser: its state, and one step of AdamW with a step count for each mask.

A step reads and writes nothing on the host, and its randomness comes from the step number on the device, so that on a
GPU one step is recorded as a CUDA graph and replayed, without Python between the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from rationales.masks.bounded_field import bounded_keep, shifted
from rationales.masks.field import field, source_slices, source_weights, sources
from rationales.masks.objective import (
    Problem,
    at_level,
    draw_levels,
    loss,
    mask_rows,
    scaled,
    shortness,
    sides_shown,
)
from rationales.masks.settings import BOUNDED_FIELDS, MaskSettings
from rationales.models.batch import Batch, Noise
from rationales.models.batch.rows import fold, uniform

# After a warm-up, sigma starts at no more than this share of its upper bound, or at this value where that is larger:
# a few steps can widen the spans of a short text, but hardly narrow them.
INITIAL_SHARE, MIN_INITIAL_SIGMA = 0.25, 0.75
WORD_SIGMA = 1.0  # initial sigma of words beside pixels


@dataclass(eq=False)
class OptimizerState:
    """Parameters, Adam's moments and the memory of stopping rules; the first dimension of every tensor is the mask."""

    w: Tensor
    sigma: Tensor
    w_mean: Tensor
    w_square: Tensor
    sigma_mean: Tensor
    sigma_square: Tensor
    step: Tensor  # (M,)
    previous_keep: Tensor  # (M, n) keep at the last check
    memory: Tensor  # (M,) value stored by the stopping rule
    accepted: Tensor  # (M,) a stopping rule has accepted this mask
    result: Tensor  # (M, n) logit of keep when it was accepted
    anchor: Tensor  # (M, n) the warm-up gradient, for a Gaussian field smoothed; 0 before and without a warm-up

    @classmethod
    def start(
        cls, batch: Batch, settings: MaskSettings, parameters: tuple[Tensor, Tensor] | None = None
    ) -> OptimizerState:
        """Initial state: the same w and sigma for all sources, or the given `parameters` (M, s) each."""
        real = sources(batch, settings.cell)
        zeros = torch.zeros(real.shape, device=batch.device, dtype=batch.dtype)
        units = torch.zeros((len(real), batch.size[1]), device=batch.device, dtype=batch.dtype)
        masks = torch.zeros(len(real), device=batch.device, dtype=torch.long)
        w, sigma = parameters or (zeros + settings.initial_w, initial_sigma(batch, settings, zeros))
        share = INITIAL_SHARE if settings.warmup_steps else 1.0
        w, sigma = torch.where(real, w, zeros), bounded_sigma(batch, settings, sigma, share)
        return cls(w, sigma, zeros, zeros, zeros, zeros, masks, units + 1, units[:, 0], masks.bool(), units, units)

    def select(self, masks: Tensor, width: int) -> OptimizerState:
        """State of these masks, cut to `width` units."""
        return OptimizerState(
            **{
                spec.name: value[masks, :width] if (value := getattr(self, spec.name)).dim() == 2 else value[masks]
                for spec in fields(self)
            }
        )

    def copy(self) -> OptimizerState:
        """Copy whose tensors share no memory."""
        return OptimizerState(**{spec.name: getattr(self, spec.name).clone() for spec in fields(self)})

    def write_back(self, masks: Tensor, source: OptimizerState) -> None:
        """Write `source` into these masks."""
        for spec in fields(self):
            stored, values = getattr(self, spec.name), getattr(source, spec.name)
            if stored.dim() == 2:
                stored[masks[:, None], torch.arange(values.shape[1], device=masks.device)] = values
            else:
                stored[masks] = values


def initial_sigma(batch: Batch, settings: MaskSettings, zeros: Tensor) -> Tensor:
    """(M, s): the initial sigma of all sources; that of words beside pixels is `WORD_SIGMA`."""
    sigma = torch.full_like(zeros, settings.initial_sigma)
    slices = source_slices(batch, settings.cell)
    for unit_part, where in slices if len(slices) > 1 else ():
        if unit_part.grid is None:
            sigma[:, where] = max(WORD_SIGMA, settings.min_sigma)
    return sigma


def bounded_sigma(batch: Batch, settings: MaskSettings, sigma: Tensor, share: float = 1.0) -> Tensor:
    """sigma within its bounds, the upper one times `share`; without it the field of a short text becomes monotone."""
    sigma = sigma.clamp(min=settings.min_sigma)
    if settings.max_sigma_share == 0:
        return sigma
    lowest = 1.0 if share == 1 else MIN_INITIAL_SIGMA
    real = mask_rows(batch.rows.real, batch)
    units = torch.cat(
        [
            real[:, unit_part.units].sum(1, keepdim=True).expand(-1, where.stop - where.start)
            for unit_part, where in source_slices(batch, settings.cell)
        ],
        1,
    )
    upper = (share * settings.max_sigma_share * units).clamp(min=lowest)
    return torch.minimum(sigma, upper.to(sigma.dtype))


LOGIT_EPSILON = 1e-6  # keeps of a bounded field are between it and 1 minus it when their logit is taken
BETAS, EPSILON = (0.9, 0.999), 1e-8  # the defaults of Adam
JITTER_PURPOSE = 4  # key of this random stream, beside those of `RandomKeys`


def losses(problem: Problem, w: Tensor, sigma: Tensor, count: Tensor, anchor: Tensor | None = None) -> Tensor:
    """(I,): Eq. 8 with the noise of step `count` (M,); differentiable in w and sigma, both (M, s)."""
    batch, settings = problem.batch, problem.settings
    if settings.field in BOUNDED_FIELDS:
        bounded = bounded_keep(batch, settings, w)
        masks = step_masks(problem, _bounded_logit(bounded) if settings.level_weight else bounded, count, bounded)
    else:
        masks = step_masks(problem, field_of(batch, settings, w, sigma, anchor), count)
    half = torch.autocast(batch.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16")
    with half:  # the network alone: field and loss keep their precision
        logits = batch.logits(masks.keeps, masks.noise)
    return loss(problem, logits, masks.keep, sigma, w, count)


@dataclass(frozen=True, eq=False)
class StepMasks:
    """The masks of one step."""

    keep: Tensor  # (M, n) the mask itself; where its size does not count, its field
    keeps: Tensor  # (K, S, n): every mask and its complement (Eq. 1, Eq. 3), or one of the two sides; see `loss`
    noise: Noise | None


def step_masks(
    problem: Problem, z: Tensor, count: Tensor, keep: Tensor | None = None, draws: Tensor | None = None
) -> StepMasks:
    """Masks of the field z (M, n) in step `count` (M,); `keep` (M, n): the mask itself, by default from the field.

    `draws` (D, M): numbers of the sizes that are drawn, by default those of the step.
    """
    batch, settings = problem.batch, problem.settings
    if draws is None:
        draws = settings.draws * count + torch.arange(settings.draws, device=count.device)[:, None]
    masks, numbers = list[Tensor](), list[Tensor]()
    if keep is None:
        # without either weight the loss does not depend on the mask's size
        has_size = settings.mask_weight or settings.neighbour_weight
        keep = _keep_logit(batch, settings, z).sigmoid() if has_size else z
    if settings.mask_weight:
        masks.append(_with_jitter(batch, settings, keep, count)[batch.rows.mask][None])
        numbers.append(draws[:1])
    if settings.level_weight:
        levels = draw_levels(batch, draws, settings.level_power, problem.keys)
        masks.append(at_level(z, batch, levels, settings.softness))
        numbers.append(draws)
    flipped_masks = [_with_flips(problem, mask, number) for mask, number in zip(masks, numbers, strict=True)]
    keeps = [side for mask in flipped_masks for side in _sides(mask, settings)]  # (1 or D, S, n) each
    return StepMasks(keep, torch.cat(keeps), _input_noise(problem, numbers))


def _sides(mask: Tensor, settings: MaskSettings) -> tuple[Tensor, ...]:
    """The mask and its complement, or the one of them whose score counts."""
    if sides_shown(settings) == 2:
        return mask, 1 - mask
    return (mask,) if settings.sufficiency else (1 - mask,)


def step(problem: Problem, state: OptimizerState, warmed_up: bool = False) -> OptimizerState:
    """One step of AdamW (Loshchilov and Hutter 2019) on Eq. 8, for all masks, each with its step count.

    `warmed_up`: all of them have done the steps of the warm-up.
    """
    problem = problem.on_step_views(state.step)
    batch, settings = problem.batch, problem.settings
    with torch.enable_grad():
        w, sigma = state.w.detach().requires_grad_(), state.sigma.detach().requires_grad_()
        gradients = torch.autograd.grad(losses(problem, w, sigma, state.step, state.anchor).sum(), (w, sigma))
    count = state.step + 1
    if settings.warmup_steps and not warmed_up:
        return warmup_step(problem, state, gradients, count)
    updated, (w_mean, sigma_mean), (w_square, sigma_square) = _adam_update(
        state, gradients, count - settings.warmup_steps, settings
    )
    w_new, sigma_new = updated
    return replace(
        state,
        w=w_new.clamp(0, 1) if settings.field in BOUNDED_FIELDS else w_new,
        sigma=bounded_sigma(batch, settings, sigma_new),
        w_mean=w_mean,
        w_square=w_square,
        sigma_mean=sigma_mean,
        sigma_square=sigma_square,
        step=count,
    )


def field_of(batch: Batch, settings: MaskSettings, w: Tensor, sigma: Tensor, anchor: Tensor | None = None) -> Tensor:
    """(M, n): Eq. 5, or w alone; with an `anchor` (M, n) the sum of the standardised field and the weighted anchor."""
    if settings.field in BOUNDED_FIELDS:
        return _bounded_logit(bounded_keep(batch, settings, w))
    power = 1 if settings.kernel == "sigma" else 2
    z = w if settings.field == "free" else field(batch, w, sigma, power, settings.cell, settings.word_field)
    if anchor is None or settings.anchor == 0 or settings.field == "free":
        return z
    return scaled(z, batch) + settings.anchor * anchor


def keep_logit(batch: Batch, settings: MaskSettings, w: Tensor, sigma: Tensor, anchor: Tensor | None = None) -> Tensor:
    """(M, n): field whose sigmoid is keep (Eq. 6).

    Without `mask_weight` only the order of the field is optimised; it is then standardised, with keep 0.5 at its mean.
    """
    return _keep_logit(batch, settings, field_of(batch, settings, w, sigma, anchor))


def _bounded_logit(keep: Tensor) -> Tensor:
    """Logit of keeps in [0, 1], bounded; where it is bounded it has no gradient."""
    return torch.logit(keep, LOGIT_EPSILON)


def _keep_logit(batch: Batch, settings: MaskSettings, z: Tensor) -> Tensor:
    return z if settings.mask_weight or settings.field in BOUNDED_FIELDS else 2 * scaled(z, batch)


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


def warmup_step(
    problem: Problem, state: OptimizerState, gradients: tuple[Tensor, ...], count: Tensor
) -> OptimizerState:
    """A step with warm-up: collect the gradient, set w from the collected gradient at its end, or update with Adam."""
    batch, settings = problem.batch, problem.settings
    collecting = (count <= settings.warmup_steps)[:, None]
    last = (count == settings.warmup_steps)[:, None]
    total = state.w_mean + gradients[0]  # during the warm-up Adam's first moment holds the sum
    start = initial_w(total, batch, settings)
    anchor = state.anchor
    if settings.anchor and settings.field == "free":  # for the spans alone, see postprocess.span_order
        anchor = torch.where(last, scaled(start, batch), anchor)
    elif settings.anchor:
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


def initial_w(gradient: Tensor, batch: Batch, settings: MaskSettings) -> Tensor:
    """(M, s): w after the warm-up, minus its gradient (M, s), with the root mean square `warmup_scale`.

    Where inputs have several parts, a gradient counts relative to the weight of its source: a word takes a larger
    share of the mask's size than a cell of pixels.
    """
    real = sources(batch, settings.cell)
    if len(batch.parts) > 1:
        weights = source_weights(batch, settings.cell)
        gradient = torch.where(real, gradient / weights.clamp(min=1e-12), 0.0)
    return torch.where(real, -settings.warmup_scale * gradient / _root_mean_square(gradient, batch, real), 0.0)


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


def _with_flips(problem: Problem, keep: Tensor, number: Tensor) -> Tensor:
    """keep (D, S, n) with a random share of the units set to 0 and another to 1 (section 3.2); `number`: (D, M)."""
    batch, flip_share = problem.batch, problem.settings.flip_share
    if flip_share == 0:
        return keep
    key = fold(problem.keys.flips, number)
    positions = uniform(key.flatten(), keep.shape[-1]).view(*key.shape, -1)[:, batch.rows.mask]
    off, on = positions < flip_share, positions > 1 - flip_share
    return torch.where(off, torch.zeros_like(keep), torch.where(on, torch.ones_like(keep), keep))


def _with_jitter(batch: Batch, settings: MaskSettings, keep: Tensor, count: Tensor) -> Tensor:
    """keep (M, n) shifted by a random number of units, up to `jitter` cells, along each axis."""
    largest = round(settings.jitter * settings.cell)
    if largest == 0:
        return keep
    numbers = uniform(fold(mask_rows(batch.rows.key, batch), JITTER_PURPOSE, count), 2)
    return shifted(keep, torch.floor(numbers * (2 * largest + 1)).long() - largest, batch.grid)


def _input_noise(problem: Problem, numbers: Sequence[Tensor]) -> Noise | None:
    """Noise of all keeps of a step; `numbers`: for the masks of each kind, (D, M) the numbers of their draws."""
    settings, rows = problem.settings, problem.batch.rows
    if settings.noise == 0:
        return None
    sides = sides_shown(settings)
    draw = torch.cat([number for number in numbers for _ in range(sides)])  # (K, M)
    kinds = torch.arange(sides * len(numbers), device=draw.device).view(len(numbers), sides)
    variant = torch.cat([kind.repeat_interleave(len(number)) for kind, number in zip(kinds, numbers, strict=True)])
    key = fold(problem.keys.noise, draw[:, rows.mask], rows.view, variant[:, None])
    return Noise(settings.noise, key.flatten())
