"""Batched optimisation: many inputs and their segments at once; an input that stops makes way for the next.

The state of an input (parameters, moments, step count, randomness) depends on that input alone, so its result does not
depend on the batch. A stopping rule decides for every mask by itself and runs on the device; nothing is read from the
device between two checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rationales.masks.field import sources
from rationales.masks.objective import Problem, keeps_per_step, mask_rows, mean_over_masks, mean_over_units
from rationales.masks.optimizer import BETAS, EPSILON, OptimizerState, keep_logit
from rationales.masks.settings import MaskSettings
from rationales.masks.steps import StepRunner, collect_warmup, collects_at_once
from rationales.models.batch import Batch
from rationales.models.fast.precision import MAX_CACHED_BYTES, in_half_precision

CALM_MOVEMENT = 0.01  # mean change of a keep between two checks
CALM_CHECKS = 2
IMAGE_INTERVAL = 10  # steps; the published rule checked after each
MIN_PLATEAU_STEPS = 40  # a mask that has not begun to move does not change either


@dataclass(frozen=True, eq=False)
class MaskProgress:
    """What a stopping rule decides by, (M,) each."""

    step: Tensor
    mean: Tensor  # mean keep
    mean_drop: Tensor  # decrease of the mean keep since the last check
    mean_change: Tensor  # mean absolute change of a unit's keep since the last check
    memory: Tensor  # value that the rule stored at the last check, initially 0


@dataclass(frozen=True)
class Stopping:
    """A stopping rule and the number of steps between two checks of an input."""

    name: str
    interval: int
    max_steps: int
    accepts: Callable[[MaskProgress], tuple[Tensor, Tensor]]  # -> (M,) accepted, (M,) memory

    def due(self, done: int) -> int:
        """Number of steps until the next check, after `done` steps."""
        return min(self.interval - done % self.interval, self.max_steps - done)


def stopping(settings: MaskSettings) -> Stopping:
    """Rule named by `settings.stop`; every mask ends at `settings.steps` at the latest."""
    # for `steps` a check only reports progress
    interval, accepts = {
        "steps": (20, _never),
        "plateau": (10, _plateau),
        "paper": (50, _paper),
        "paper-images": (IMAGE_INTERVAL, _paper_images),
    }[settings.stop]
    return Stopping(settings.stop, interval, settings.steps, accepts)


def _never(progress: MaskProgress) -> tuple[Tensor, Tensor]:
    return torch.zeros_like(progress.step, dtype=torch.bool), progress.memory


def _plateau(progress: MaskProgress) -> tuple[Tensor, Tensor]:
    """The mean change of the keeps was small at two checks in a row."""
    calm = torch.where(progress.mean_change < CALM_MOVEMENT, progress.memory + 1, torch.zeros_like(progress.memory))
    return (calm >= CALM_CHECKS) & (progress.step >= MIN_PLATEAU_STEPS), calm


def _paper(progress: MaskProgress) -> tuple[Tensor, Tensor]:
    """Published rule: the mean keep is low and changes little, not before step 200 unless it is below 0.3."""
    still = progress.mean_drop.abs() < torch.where(progress.mean < 0.2, 1 / 80, 1 / 200)
    return still & ((progress.step >= 200) | (progress.mean < 0.3)) & (progress.mean < 0.45), progress.memory


def _paper_images(progress: MaskProgress) -> tuple[Tensor, Tensor]:
    """Published rule for images: a running average of the decrease of the mean keep per step is small."""
    share = 0.95**IMAGE_INTERVAL
    average = share * progress.memory + (1 - share) * progress.mean_drop / IMAGE_INTERVAL
    return (average < 2e-4) & (progress.step >= 250) & (progress.mean < 0.5), average


FIELD_RANGE = (-16.118095, 15.942385)  # logits of 1e-7 and of 1 - 1e-7 in single precision


@dataclass(frozen=True)
class MaskResult:
    """The optimised fields of M masks, their parameters, and how the optimisation of each input ended."""

    field: Tensor  # (M, n); its sigmoid is keep
    real: Tensor  # (M, n) bool: units that exist
    steps: list[int]
    stop: list[str]
    w: Tensor  # (M, s)
    sigma: Tensor  # (M, s)
    movement: list[float]  # per input, see `movement`
    anchor: Tensor  # (M, n), see OptimizerState

    @property
    def keep(self) -> Tensor:
        """(M, n): the optimised masks, 0 for padding."""
        return torch.where(self.real, self.field.sigmoid(), 0.0)

    @property
    def bounded_field(self) -> Tensor:
        """(M, n): the field within FIELD_RANGE, so that extreme values do not dominate its standard deviation."""
        return self.field.clamp(*FIELD_RANGE)


def optimize(
    batch: Batch,
    target: Tensor,
    settings: MaskSettings,
    progress: Callable[[float], None] | None = None,
    start: tuple[Tensor, Tensor] | None = None,
    anchor: Tensor | None = None,
) -> MaskResult:
    """Optimise the masks of all inputs of a batch; `target` is (inputs,).

    `start`: initial w and sigma (M, s); `anchor` (M, n): a constant field that is added to the optimised one.
    """
    weight = settings.anchor
    batch, settings = fast_precision(batch, settings.on(batch.pixel_grid))
    if anchor is not None:
        settings = replace(settings, anchor=weight)
    full_state = OptimizerState.start(batch, settings, start).copy()
    if anchor is not None:
        full_state.anchor = anchor.clone()
    rule = stopping(settings)
    mask_input = mask_rows(batch.rows.input, batch)
    waiting, active = list(range(batch.inputs)), list[int]()
    steps, stop = [0] * batch.inputs, [""] * batch.inputs
    cost = _costs(batch, settings)
    while waiting or active:
        active = sorted(active + _admit_inputs(active, waiting, cost, batch))
        active_batch = batch.take(active)
        masks = torch.nonzero(torch.isin(mask_input, torch.tensor(active, device=mask_input.device))).flatten()
        state = full_state.select(masks, active_batch.size[1])
        problem = Problem.of(active_batch, target[torch.tensor(active, device=target.device)], settings)
        if collects_at_once(active_batch, settings) and not any(steps[number] for number in active):
            state = collect_warmup(problem, state)
            for number in active:
                steps[number] = settings.warmup_steps
        warmed_up = all(steps[number] >= settings.warmup_steps for number in active)
        runner = StepRunner(problem, sum(sum(cost[number]) for number in active), warmed_up)
        while not any(stop[number] for number in active):
            remaining = settings.steps - min(steps[number] for number in active)
            state = runner.run(state, min(rule.due(steps[number]) for number in active), remaining)
            outcomes = check_stopping(active_batch, settings, rule, state)
            for number, (count, reason) in zip(active, outcomes, strict=True):
                steps[number], stop[number] = count, reason
            if progress is not None:
                shares = (1.0 if stop[number] else steps[number] / settings.steps for number in range(batch.inputs))
                progress(sum(shares) / batch.inputs)
        full_state.write_back(masks, state)
        active = [number for number in active if not stop[number]]
        batch.budget = active_batch.budget
    movements = movement(batch, settings, full_state)
    real = mask_rows(batch.rows.real, batch)
    return MaskResult(
        full_state.result, real, steps, stop, full_state.w, full_state.sigma, movements, full_state.anchor
    )


def movement(batch: Batch, settings: MaskSettings, state: OptimizerState) -> list[float]:
    """How steadily w still moves at the end, per input: Adam's last update divided by the learning rate, in [0, 1].

    The mean over sources of |m| / sqrt(v), Adam's moments with their bias corrected. 1: all gradients of the
    last steps have the same sign; noise around a minimum gives about sqrt((1 - beta_1) / (1 + beta_1)) = 0.23.
    Of a free field, whose values keep growing where one word decides: the root mean square of m / sqrt(v) without the
    terms that shift or scale all values, and so keep scores as they are.
    """
    real = sources(batch, settings.cell)
    count = (state.step - settings.warmup_steps).clamp(min=1).to(state.w.dtype)[:, None]
    mean = state.w_mean / (1 - BETAS[0] ** count)
    square = state.w_square / (1 - BETAS[1] ** count)
    update = (mean / (square.sqrt() + EPSILON)) * real
    units = real.sum(1)
    if settings.field != "free":
        return mean_over_masks(update.abs().sum(1) / units, batch).tolist()
    update, w = (
        torch.where(real, x - (x * real).sum(1, keepdim=True) / units[:, None], 0.0) for x in (update, state.w)
    )
    scale = (update * w).sum(1, keepdim=True) / w.square().sum(1, keepdim=True).clamp(min=EPSILON)
    return mean_over_masks(((update - scale * w).square().sum(1) / units).sqrt(), batch).tolist()


def fast_precision(batch: Batch, settings: MaskSettings) -> tuple[Batch, MaskSettings]:
    """Batch and settings with the precision that steps use on this device.

    bfloat16 on NVIDIA GPUs from Ampere on: through copies of the networks or, where these fail, by autocast. On a CPU,
    encoders that have a faster copy run as one in their own precision: with bfloat16, which only some CPUs compute
    faster, scores of a text alone and in a batch would differ.
    """
    precision = settings.precision
    if precision == "auto" and batch.faster_as_copy:
        return in_half_precision(batch, torch.float32) or batch, replace(settings, precision="full")
    if precision == "auto":
        fast = batch.device.type == "cuda" and torch.cuda.get_device_capability(batch.device)[0] >= 8
        precision = "bfloat16" if fast and batch.dtype == torch.float32 else "full"
    if precision == "bfloat16" and (half := in_half_precision(batch)) is not None:
        return half, replace(settings, precision="full")
    return batch, replace(settings, precision=precision)


def faster_copy(batch: Batch) -> Batch:
    """Copy of this batch for many forward passes without gradients; the batch itself if no copy is faster and agrees.

    On a GPU in half precision, if the weights are in single precision and their copies are small enough to be cached;
    on a CPU in its own precision with rows that are packed (`Batch.faster_as_copy`).
    """
    if batch.faster_as_copy:
        return in_half_precision(batch, torch.float32) or batch
    if batch.device.type != "cuda":
        return batch
    weights = [weight for module in batch.modules for weight in module.parameters()]
    small = sum(weight.nbytes for weight in weights) // 2 <= MAX_CACHED_BYTES
    if small and all(weight.dtype == torch.float32 for weight in weights):
        return in_half_precision(batch, torch.float16, gradients=False) or batch
    return batch


def check_stopping(
    batch: Batch, settings: MaskSettings, rule: Stopping, state: OptimizerState
) -> list[tuple[int, str]]:
    """Apply the stopping rule and update the state; (steps, reason) per input, by one read from the device."""
    with torch.no_grad():
        logit = keep_logit(batch, settings, state.w, state.sigma, state.anchor)
        keep = logit.sigmoid()
        real = mask_rows(batch.rows.real, batch)
        last = state.step >= settings.steps
        due = last | (state.step % rule.interval == 0)  # an input is checked after the same steps in any batch
        mean = mean_over_units(keep, batch)
        mean_drop = mean_over_units(state.previous_keep, batch) - mean
        mean_change = mean_over_units((keep - state.previous_keep).abs(), batch)
        accepted, memory = rule.accepts(MaskProgress(state.step, mean, mean_drop, mean_change, state.memory))
        newly_accepted = due & (accepted | last) & ~state.accepted
        state.result = torch.where(newly_accepted[:, None] & real, logit, state.result)
        state.accepted, state.memory = state.accepted | newly_accepted, torch.where(due, memory, state.memory)
        state.previous_keep = torch.where(due[:, None], keep, state.previous_keep)
        mask_input = mask_rows(batch.rows.input, batch)
        open_masks = torch.zeros(batch.inputs, device=batch.device, dtype=torch.long)
        open_masks = open_masks.index_add(0, mask_input, (~state.accepted).long())
        exhausted = torch.zeros_like(open_masks).index_add(0, mask_input, (newly_accepted & ~accepted).long())
        count = torch.zeros_like(open_masks).scatter_reduce(0, mask_input, state.step, "amax")
        table = torch.stack([count, open_masks, exhausted]).tolist()
    return [(count, "" if still else ("steps" if out else rule.name)) for count, still, out in zip(*table, strict=True)]


def _admit_inputs(active: Sequence[int], waiting: list[int], cost: Sequence[Sequence[int]], batch: Batch) -> list[int]:
    """Remove and return the first inputs of `waiting` that fit into memory beside `active`; at least one in all."""

    def fits(count: int) -> bool:
        row_costs = [row_cost for number in [*active, *waiting[:count]] for row_cost in cost[number]]
        return batch.cost_of(row_costs) <= batch.budget

    lower, upper = 0 if active else 1, len(waiting)
    while lower < upper:
        middle = (lower + upper + 1) // 2
        lower, upper = (middle, upper) if fits(middle) else (lower, middle - 1)
    admitted = waiting[:lower]
    del waiting[:lower]
    return admitted


def _costs(batch: Batch, settings: MaskSettings) -> list[list[int]]:
    """Cost of each input, row by row, for every mask of a step and its complement."""
    masks = keeps_per_step(settings)
    views_per_step = 1 if settings.views == "turn" else batch.views
    cost: list[list[int]] = [[] for _ in range(batch.inputs)]
    for number, size in list(zip(batch.rows.input.tolist(), batch.cost(), strict=True))[: views_per_step * batch.masks]:
        cost[number] += masks * [size]
    return cost
