"""Batched descent: many inputs and their segments at once, each input stopping on its own and making room for the next.

All state of an input (parameters, moments, step count, randomness) depends on that input alone, so it ends up the same
in any company. Nothing is read back from the device between two checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import partial

import torch
from torch import Tensor

from rationales.masks.field import field, sources
from rationales.masks.levels import at_level, drawn, standard
from rationales.masks.objective import Problem, loss, mask_rows, mean_over_units
from rationales.masks.settings import MaskSettings
from rationales.masks.stopping import Look, Stopping, stopping
from rationales.models.batch import Batch, Noise
from rationales.models.randomness import fold, uniform

BETAS, EPSILON = (0.9, 0.999), 1e-8  # Adam's own
FLIPS, NOISE = 1, 2  # purposes, so that no random number is used twice


@dataclass(frozen=True)
class MaskResult:
    """keep (M, n) as found, what it was made of, and per input how it ended."""

    keep: Tensor
    steps: list[int]
    stop: list[str]
    w: Tensor  # (M, s)
    sigma: Tensor  # (M, s)


@dataclass(eq=False)
class State:
    """Parameters, Adam's moments and what stopping rules remember; every tensor has one line per mask."""

    w: Tensor
    sigma: Tensor
    w_mean: Tensor
    w_square: Tensor
    sigma_mean: Tensor
    sigma_square: Tensor
    step: Tensor  # (M,)
    before: Tensor  # (M, n) keep at the last check
    memory: Tensor  # (M,) what the stopping rule remembers
    taken: Tensor  # (M,) a stopping rule has accepted this mask
    result: Tensor  # (M, n) keep when it was accepted

    @classmethod
    def start(cls, batch: Batch, settings: MaskSettings, given: tuple[Tensor, Tensor] | None = None) -> State:
        """The same for all sources, or a `given` w and sigma (M, s)."""
        real = sources(batch, settings.every)
        zeros = torch.zeros(real.shape, device=batch.device, dtype=batch.dtype)
        units = torch.zeros((len(real), batch.size[1]), device=batch.device, dtype=batch.dtype)
        line = torch.zeros(len(real), device=batch.device, dtype=torch.long)
        w, sigma = given or (zeros + settings.start_w, torch.full_like(zeros, settings.start_sigma))
        w, sigma = torch.where(real, w, zeros), _bounded(batch, settings, sigma)
        return cls(w, sigma, zeros, zeros, zeros, zeros, line, units + 1, units[:, 0], line.bool(), units)

    def take(self, masks: Tensor, width: int) -> State:
        """The lines `masks`, cut to `width` units."""
        return State(
            **{
                one.name: value[masks, :width] if (value := getattr(self, one.name)).dim() == 2 else value[masks]
                for one in fields(self)
            }
        )

    def put(self, masks: Tensor, other: State) -> None:
        """Write `other` back into the lines `masks`."""
        for one in fields(self):
            mine, theirs = getattr(self, one.name), getattr(other, one.name)
            if mine.dim() == 2:
                mine[masks[:, None], torch.arange(theirs.shape[1], device=masks.device)] = theirs
            else:
                mine[masks] = theirs


def optimize(
    batch: Batch,
    target: Tensor,
    settings: MaskSettings,
    progress: Callable[[float], None] | None = None,
    start: tuple[Tensor, Tensor] | None = None,
) -> MaskResult:
    """Find the masks of all inputs of a batch; `target` is (inputs,), `start` a w and a sigma (M, s) to begin with."""
    settings = settings.on(batch.grid)
    everything = _own_tensors(State.start(batch, settings, start))
    rule = stopping(settings)
    owner = mask_rows(batch.rows.input, batch)
    waiting, active = list(range(batch.inputs)), list[int]()
    steps, stop = [0] * batch.inputs, [""] * batch.inputs
    room = _sizes(batch, settings)
    while waiting or active:
        active = sorted(active + _admit(active, waiting, room, batch.budget))
        part = batch.take(active)
        masks = torch.nonzero(torch.isin(owner, torch.tensor(active, device=owner.device))).flatten()
        state = everything.take(masks, part.size[1])
        problem = Problem.of(part, target[torch.tensor(active, device=target.device)], settings)
        while not any(stop[number] for number in active):
            for _ in range(min(rule.due(steps[number]) for number in active)):
                state = part.fit(partial(step, problem, state))
            for number, (count, reason) in zip(active, check(part, settings, rule, state), strict=True):
                steps[number], stop[number] = count, reason
            if progress is not None:
                shares = (1.0 if stop[number] else steps[number] / settings.steps for number in range(batch.inputs))
                progress(sum(shares) / batch.inputs)
        everything.put(masks, state)
        active = [number for number in active if not stop[number]]
        batch.budget = part.budget
    return MaskResult(everything.result, steps, stop, everything.w, everything.sigma)


def losses(problem: Problem, w: Tensor, sigma: Tensor, count: Tensor) -> Tensor:
    """(I,): Eq. 8 with the noise of step number `count` (M,); differentiable in w and sigma, both (M, s)."""
    batch, settings = problem.batch, problem.settings
    z = field_of(batch, settings, w, sigma)
    keep, shown = z.sigmoid() if settings.own else standard(z, batch), list[Tensor]()
    if settings.own:
        shown.append(keep[batch.rows.mask])
    if settings.levels:
        shown.append(at_level(z, batch, drawn(batch, count, settings.small), settings.softness))
    flipped = [_flipped(batch, settings, one, count) for one in shown]
    both = torch.stack([side for one in flipped for side in (one, 1 - one)])  # (2 or 4, S, n): Eq. 1 and Eq. 3
    with _precision(batch, settings):  # the network alone: the field and the loss stay as they are
        logits = batch.logits(both, _noise(batch, settings, count, len(both)))
    return loss(problem, logits, keep, sigma)


def step(problem: Problem, state: State) -> State:
    """One step of AdamW (Loshchilov and Hutter 2019) on Eq. 8, for all masks; each has its own step count."""
    problem = problem.seen(state.step)
    batch, settings = problem.batch, problem.settings
    with torch.enable_grad():
        w, sigma = state.w.detach().requires_grad_(), state.sigma.detach().requires_grad_()
        slopes = torch.autograd.grad(losses(problem, w, sigma, state.step).sum(), (w, sigma))
    count = state.step + 1
    if settings.warm:
        return _warmed(problem, state, slopes, count)
    w_new, w_mean, w_square = _adam(state.w, slopes[0], state.w_mean, state.w_square, count, settings)
    sigma_new, sigma_mean, sigma_square = _adam(
        state.sigma, slopes[1], state.sigma_mean, state.sigma_square, count, settings
    )
    return State(
        w_new,
        _bounded(batch, settings, sigma_new),
        w_mean,
        w_square,
        sigma_mean,
        sigma_square,
        count,
        state.before,
        state.memory,
        state.taken,
        state.result,
    )


def _precision(batch: Batch, settings: MaskSettings) -> AbstractContextManager[object]:
    """Half as many bits, where the card multiplies them faster: on NVIDIA's from Ampere on; a CPU would be slower."""
    wanted = settings.precision
    if wanted == "auto":
        fast = batch.device.type == "cuda" and torch.cuda.get_device_capability(batch.device)[0] >= 8
        wanted = "bfloat16" if fast and batch.dtype == torch.float32 else "full"
    return nullcontext() if wanted == "full" else torch.autocast(batch.device.type, dtype=torch.bfloat16)


def field_of(batch: Batch, settings: MaskSettings, w: Tensor, sigma: Tensor) -> Tensor:
    """(M, n): Eq. 5, or w alone."""
    if settings.field == "free":
        return w
    return field(batch, w, sigma, 1 if settings.kernel == "sigma" else 2, settings.every)


def keep_of(batch: Batch, settings: MaskSettings, w: Tensor, sigma: Tensor) -> Tensor:
    """(M, n): Eq. 6; a field that has no size of its own is only ordered, and shown on a standard scale."""
    z = field_of(batch, settings, w, sigma)
    return z.sigmoid() if settings.own else standard(z, batch)


def check(batch: Batch, settings: MaskSettings, rule: Stopping, state: State) -> list[tuple[int, str]]:
    """Look whether inputs are done; updates what the rule remembers. One read from the device: (steps, reason)."""
    with torch.no_grad():
        keep = keep_of(batch, settings, state.w, state.sigma)
        real = mask_rows(batch.rows.real, batch)
        last = state.step >= settings.steps
        due = last | (state.step % rule.every == 0)  # an input is looked at after the same steps in any company
        mean = mean_over_units(keep, batch)
        shift = mean_over_units(state.before, batch) - mean
        moved = mean_over_units((keep - state.before).abs(), batch)
        accepted, memory = rule.accepts(Look(state.step, mean, shift, moved, state.memory))
        newly = due & (accepted | last) & ~state.taken
        state.result = torch.where(newly[:, None] & real, keep, state.result)
        state.taken, state.memory = state.taken | newly, torch.where(due, memory, state.memory)
        state.before = torch.where(due[:, None], keep, state.before)
        owner = mask_rows(batch.rows.input, batch)
        open_ = torch.zeros(batch.inputs, device=batch.device, dtype=torch.long)
        open_ = open_.index_add(0, owner, (~state.taken).long())
        ran_out = torch.zeros_like(open_).index_add(0, owner, (newly & ~accepted).long())
        count = torch.zeros_like(open_).scatter_reduce(0, owner, state.step, "amax")
        table = torch.stack([count, open_, ran_out]).tolist()
    return [(count, "" if still else ("steps" if out else rule.name)) for count, still, out in zip(*table, strict=True)]


def _adam(
    value: Tensor, slope: Tensor, mean: Tensor, square: Tensor, count: Tensor, settings: MaskSettings
) -> tuple[Tensor, Tensor, Tensor]:
    rate = _rate(settings, count, value.dtype)
    mean = BETAS[0] * mean + (1 - BETAS[0]) * slope
    square = BETAS[1] * square + (1 - BETAS[1]) * slope.square()
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
    own = (count - settings.warm).clamp(min=1)
    w, w_mean, w_square = _adam(state.w, slopes[0], state.w_mean, state.w_square, own, settings)
    sigma, sigma_mean, sigma_square = _adam(state.sigma, slopes[1], state.sigma_mean, state.sigma_square, own, settings)
    zeros = torch.zeros_like(total)
    return State(
        torch.where(last, start, torch.where(collecting, state.w, w)),
        torch.where(collecting, state.sigma, _bounded(batch, settings, sigma)),
        torch.where(last, zeros, torch.where(collecting, total, w_mean)),
        torch.where(collecting, zeros, w_square),
        torch.where(collecting, zeros, sigma_mean),
        torch.where(collecting, zeros, sigma_square),
        count,
        state.before,
        state.memory,
        state.taken,
        state.result,
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


def _bounded(batch: Batch, settings: MaskSettings, sigma: Tensor) -> Tensor:
    """sigma within its limits; without an upper one a short text becomes a single slope."""
    sigma = sigma.clamp(min=settings.smallest_sigma)
    if settings.reach == 0:
        return sigma
    most = (settings.reach * mask_rows(batch.rows.real, batch).sum(1, keepdim=True)).clamp(min=1)
    return torch.minimum(sigma, most.to(sigma.dtype))


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


def _admit(active: Sequence[int], waiting: list[int], size: Sequence[int], budget: int) -> list[int]:
    """Take from `waiting` what fits beside `active`; at least one input is always at work."""
    used = sum(size[number] for number in active)
    admitted: list[int] = []
    while waiting and (used + size[waiting[0]] <= budget or not (active or admitted)):
        used += size[waiting[0]]
        admitted.append(waiting.pop(0))
    return admitted


def _sizes(batch: Batch, settings: MaskSettings) -> list[int]:
    """What each input costs: its rows for every mask that a step shows, and for the complement of each."""
    masks = 2 * (bool(settings.own) + bool(settings.levels))
    size = [0] * batch.inputs
    for number, cost in zip(batch.rows.input.tolist(), batch.cost(), strict=True):
        size[number] += masks * cost
    return size


def _own_tensors(state: State) -> State:
    """A state whose tensors can be written to without touching each other."""
    return State(**{one.name: getattr(state, one.name).clone() for one in fields(state)})
