"""Batched descent: many inputs and their segments at once, each input stopping on its own and making room for the next.

All state of an input (parameters, moments, step count, randomness) depends on that input alone, so it ends up the same
in any company. Nothing is read back from the device between two checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rationales.masks.descent import BETAS, EPSILON, keep_of
from rationales.masks.field import sources
from rationales.masks.objective import Problem, mask_rows, mean_over_masks, mean_over_units
from rationales.masks.recorded import Steps
from rationales.masks.settings import MaskSettings
from rationales.masks.state import State
from rationales.masks.stopping import Look, Stopping, stopping
from rationales.models.batch import Batch
from rationales.models.precision import in_half


@dataclass(frozen=True)
class MaskResult:
    """keep (M, n) as found, what it was made of, and per input how it ended."""

    keep: Tensor
    steps: list[int]
    stop: list[str]
    w: Tensor  # (M, s)
    sigma: Tensor  # (M, s)
    movement: list[float]  # per input, see `movement`


def optimize(
    batch: Batch,
    target: Tensor,
    settings: MaskSettings,
    progress: Callable[[float], None] | None = None,
    start: tuple[Tensor, Tensor] | None = None,
    anchor: Tensor | None = None,
) -> MaskResult:
    """Find the masks of all inputs of a batch; `target` is (inputs,).

    `start`: a w and a sigma (M, s) to begin with; `anchor` (M, n): a field that stays beside the one that is optimised.
    """
    weight = settings.anchor
    batch, settings = quick(batch, settings.on(batch.grid))
    if anchor is not None:
        settings = replace(settings, anchor=weight)
    everything = State.start(batch, settings, start).copy()
    if anchor is not None:
        everything.anchor = anchor.clone()
    rule = stopping(settings)
    owner = mask_rows(batch.rows.input, batch)
    waiting, active = list(range(batch.inputs)), list[int]()
    steps, stop = [0] * batch.inputs, [""] * batch.inputs
    cost = _costs(batch, settings)
    while waiting or active:
        active = sorted(active + _admit(active, waiting, cost, batch))
        part = batch.take(active)
        masks = torch.nonzero(torch.isin(owner, torch.tensor(active, device=owner.device))).flatten()
        state = everything.take(masks, part.size[1])
        problem = Problem.of(part, target[torch.tensor(active, device=target.device)], settings)
        taking = Steps(problem, sum(sum(cost[number]) for number in active))
        while not any(stop[number] for number in active):
            left = settings.steps - min(steps[number] for number in active)
            state = taking.take(state, min(rule.due(steps[number]) for number in active), left)
            for number, (count, reason) in zip(active, check(part, settings, rule, state), strict=True):
                steps[number], stop[number] = count, reason
            if progress is not None:
                shares = (1.0 if stop[number] else steps[number] / settings.steps for number in range(batch.inputs))
                progress(sum(shares) / batch.inputs)
        everything.put(masks, state)
        active = [number for number in active if not stop[number]]
        batch.budget = part.budget
    moving = movement(batch, settings, everything)
    return MaskResult(everything.result, steps, stop, everything.w, everything.sigma, moving)


def movement(batch: Batch, settings: MaskSettings, state: State) -> list[float]:
    """How steadily w still moves at the end, per input: the last step of Adam divided by the learning rate, in [0, 1].

    The mean over sources of |m| / sqrt(v), Adam's moments with their bias corrected. 1: every gradient of the last
    steps points the same way; noise around a minimum gives about sqrt((1 - beta_1) / (1 + beta_1)) = 0.23.
    """
    real = sources(batch, settings.every)
    count = (state.step - settings.warm).clamp(min=1).to(state.w.dtype)[:, None]
    mean = state.w_mean / (1 - BETAS[0] ** count)
    square = state.w_square / (1 - BETAS[1] ** count)
    ratio = ((mean.abs() / (square.sqrt() + EPSILON)) * real).sum(1) / real.sum(1)
    return mean_over_masks(ratio, batch).tolist()


def quick(batch: Batch, settings: MaskSettings) -> tuple[Batch, MaskSettings]:
    """The batch and settings that steps are taken with, after a look at what is fast here and safe with this model.

    Half as many bits where the card multiplies them faster, on NVIDIA's from Ampere on: through copies of the networks
    or, where these do not work, by autocast. A CPU would be slower.
    """
    wanted = settings.precision
    if wanted == "auto":
        fast = batch.device.type == "cuda" and torch.cuda.get_device_capability(batch.device)[0] >= 8
        wanted = "bfloat16" if fast and batch.dtype == torch.float32 else "full"
    if wanted == "bfloat16" and (half := in_half(batch)) is not None:
        return half, replace(settings, precision="full")
    return batch, replace(settings, precision=wanted)


def check(batch: Batch, settings: MaskSettings, rule: Stopping, state: State) -> list[tuple[int, str]]:
    """Look whether inputs are done; updates what the rule remembers. One read from the device: (steps, reason)."""
    with torch.no_grad():
        keep = keep_of(batch, settings, state.w, state.sigma, state.anchor)
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


def _admit(active: Sequence[int], waiting: list[int], cost: Sequence[Sequence[int]], batch: Batch) -> list[int]:
    """Take from `waiting` what memory holds beside `active`; at least one input is always at work."""

    def fits(count: int) -> bool:
        return batch.held([one for number in [*active, *waiting[:count]] for one in cost[number]]) <= batch.budget

    least, most = 0 if active else 1, len(waiting)
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    admitted = waiting[:least]
    del waiting[:least]
    return admitted


def _costs(batch: Batch, settings: MaskSettings) -> list[list[int]]:
    """What each input costs, row by row, for every mask that a step shows and for the complement of each."""
    masks = 2 * (bool(settings.own) + bool(settings.levels))
    seen = 1 if settings.views == "turn" else batch.views
    cost: list[list[int]] = [[] for _ in range(batch.inputs)]
    for number, size in list(zip(batch.rows.input.tolist(), batch.cost(), strict=True))[: seen * batch.masks]:
        cost[number] += masks * [size]
    return cost
