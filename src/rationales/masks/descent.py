"""One step of the descent: the loss of all masks of a batch, and AdamW with a step count for each."""

from __future__ import annotations

import torch
from torch import Tensor

from rationales.masks.field import field, sources
from rationales.masks.levels import at_level, drawn, scaled, standard
from rationales.masks.objective import Problem, loss, mask_rows, short
from rationales.masks.settings import MaskSettings
from rationales.masks.state import State, bounded
from rationales.models.batch import Batch, Noise
from rationales.models.randomness import fold, uniform

BETAS, EPSILON = (0.9, 0.999), 1e-8  # Adam's own
FLIPS, NOISE = 1, 2  # purposes, so that no random number is used twice


def losses(problem: Problem, w: Tensor, sigma: Tensor, count: Tensor, anchor: Tensor | None = None) -> Tensor:
    """(I,): Eq. 8 with the noise of step number `count` (M,); differentiable in w and sigma, both (M, s)."""
    batch, settings = problem.batch, problem.settings
    z = field_of(batch, settings, w, sigma, anchor)
    keep, shown = z, list[Tensor]()
    if settings.own or settings.neighbours:  # else the loss does not ask for the mask's own size
        keep = z.sigmoid() if settings.own else standard(z, batch)
    if settings.own:
        shown.append(keep[batch.rows.mask])
    if settings.levels:
        shown.append(at_level(z, batch, drawn(batch, count, settings.small), settings.softness))
    flipped = [_flipped(batch, settings, one, count) for one in shown]
    both = torch.stack([side for one in flipped for side in (one, 1 - one)])  # (2 or 4, S, n): Eq. 1 and Eq. 3
    half = torch.autocast(batch.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16")
    with half:  # the network alone: the field and the loss stay as they are
        logits = batch.logits(both, _noise(batch, settings, count, len(both)))
    return loss(problem, logits, keep, sigma)


def step(problem: Problem, state: State) -> State:
    """One step of AdamW (Loshchilov and Hutter 2019) on Eq. 8, for all masks; each has its own step count."""
    problem = problem.seen(state.step)
    batch, settings = problem.batch, problem.settings
    with torch.enable_grad():
        w, sigma = state.w.detach().requires_grad_(), state.sigma.detach().requires_grad_()
        slopes = torch.autograd.grad(losses(problem, w, sigma, state.step, state.anchor).sum(), (w, sigma))
    count = state.step + 1
    if settings.warm:
        return _warmed(problem, state, slopes, count)
    (w_new, sigma_new), (w_mean, sigma_mean), (w_square, sigma_square) = _adam(state, slopes, count, settings)
    return State(
        w_new,
        bounded(batch, settings, sigma_new),
        w_mean,
        w_square,
        sigma_mean,
        sigma_square,
        count,
        state.before,
        state.memory,
        state.taken,
        state.result,
        state.anchor,
    )


def field_of(batch: Batch, settings: MaskSettings, w: Tensor, sigma: Tensor, anchor: Tensor | None = None) -> Tensor:
    """(M, n): Eq. 5, or w alone; with an `anchor` (M, n) both on one scale, and their sum."""
    power = 1 if settings.kernel == "sigma" else 2
    z = w if settings.field == "free" else field(batch, w, sigma, power, settings.every)
    return z if anchor is None or settings.anchor == 0 else scaled(z, batch) + settings.anchor * anchor


def keep_of(batch: Batch, settings: MaskSettings, w: Tensor, sigma: Tensor, anchor: Tensor | None = None) -> Tensor:
    """(M, n): Eq. 6; a field that has no size of its own is only ordered, and shown on a standard scale."""
    z = field_of(batch, settings, w, sigma, anchor)
    return z.sigmoid() if settings.own else standard(z, batch)


def _adam(
    state: State, slopes: tuple[Tensor, ...], count: Tensor, settings: MaskSettings
) -> tuple[Tensor, Tensor, Tensor]:
    """(2, M, s) three times, of w and of sigma: the values after step number `count`, and Adam's moments."""
    value, slope = torch.stack([state.w, state.sigma]), torch.stack(slopes)
    rate = _rate(settings, count, value.dtype)
    mean = BETAS[0] * torch.stack([state.w_mean, state.sigma_mean]) + (1 - BETAS[0]) * slope
    square = BETAS[1] * torch.stack([state.w_square, state.sigma_square]) + (1 - BETAS[1]) * slope.square()
    power = count.to(value.dtype)[:, None]
    corrected = mean / (1 - BETAS[0] ** power)
    size = (square / (1 - BETAS[1] ** power)).sqrt() + EPSILON
    return value * (1 - rate * settings.decay) - rate * corrected / size, mean, square


def _warmed(problem: Problem, state: State, slopes: tuple[Tensor, ...], count: Tensor) -> State:
    """A step while the gradient is only collected, its end, where w starts from what was collected, or one after it."""
    batch, settings = problem.batch, problem.settings
    collecting = (count <= settings.warm)[:, None]
    last = (count == settings.warm)[:, None]
    total = state.w_mean + slopes[0]  # while collecting, Adam's first moment holds the sum
    real = sources(batch, settings.every)
    start = torch.where(real, -settings.warm_size * total / _deviation(total, batch, real), 0.0)
    anchor = state.anchor
    if settings.anchor:
        wide = field_of(batch, settings, start, bounded(batch, settings, torch.full_like(start, settings.anchor_sigma)))
        long = 1 - short(batch)[mask_rows(batch.rows.input, batch)][:, None]  # a sentence's words are told apart
        anchor = torch.where(last, long * scaled(wide, batch), anchor)
    own = (count - settings.warm).clamp(min=1)
    (w, sigma), (w_mean, sigma_mean), (w_square, sigma_square) = _adam(state, slopes, own, settings)
    zeros = torch.zeros_like(total)
    return State(
        torch.where(last, start, torch.where(collecting, state.w, w)),
        torch.where(collecting, state.sigma, bounded(batch, settings, sigma)),
        torch.where(last, zeros, torch.where(collecting, total, w_mean)),
        torch.where(collecting, zeros, w_square),
        torch.where(collecting, zeros, sigma_mean),
        torch.where(collecting, zeros, sigma_square),
        count,
        state.before,
        state.memory,
        state.taken,
        state.result,
        anchor,
    )


def _deviation(values: Tensor, batch: Batch, real: Tensor) -> Tensor:
    """(M, 1): the root mean square of each input's `values` (M, s), over all of its masks."""
    owner = mask_rows(batch.rows.input, batch)
    zeros = torch.zeros(batch.inputs, device=values.device, dtype=values.dtype)
    square = zeros.index_add(0, owner, (values.square() * real).sum(1))
    count = zeros.index_add(0, owner, real.to(values.dtype).sum(1))
    return (square / count).sqrt().clamp(min=1e-12)[owner][:, None]


def _rate(settings: MaskSettings, count: Tensor, dtype: torch.dtype) -> Tensor:
    """(M, 1): each mask's learning rate in its step number `count`, counted from 1."""
    done = (count - 1).to(dtype)[:, None] / max(1, settings.steps - settings.warm)
    falling = (1 + torch.cos(torch.pi * done)) / 2
    return settings.rate * (falling if settings.schedule == "cosine" else torch.ones_like(done))


def _flipped(batch: Batch, settings: MaskSettings, keep: Tensor, count: Tensor) -> Tensor:
    """keep with a random share of the units set to 0 and another to 1 (section 3.2)."""
    if settings.flip == 0:
        return keep
    places = uniform(fold(mask_rows(batch.rows.key, batch), FLIPS, count), keep.shape[1])[batch.rows.mask]
    off, on = places < settings.flip, places > 1 - settings.flip
    return torch.where(off, torch.zeros_like(keep), torch.where(on, torch.ones_like(keep), keep))


def _noise(batch: Batch, settings: MaskSettings, count: Tensor, variants: int) -> Noise | None:
    if settings.noise == 0:
        return None
    key = fold(batch.rows.key, NOISE, count[batch.rows.mask], batch.rows.view)
    return Noise(settings.noise, torch.cat([fold(key, variant) for variant in range(variants)]))
