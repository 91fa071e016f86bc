"""A few optimisation steps from a predicted mask, used where they lower the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from rationales.masks.objective import Problem, mask_rows, scaled, shortness
from rationales.masks.optimize import MaskResult, optimize
from rationales.masks.optimizer import field_of, keep_logit, losses
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch

IMPROVED, UNCHANGED = "steps", "start"  # stop reason: the refined mask is used, or the predicted one


def refine(
    batch: Batch,
    target: Tensor,
    settings: MaskSettings,
    start: tuple[Tensor, Tensor],
    progress: Callable[[float], None] | None = None,
) -> MaskResult:
    """`settings.steps` steps from w and sigma (M, s); an input whose loss without noise did not fall keeps its start.

    Without `mask_weight`, the field of a long text is anchored to the predicted field, as one from scratch is to the
    gradients of its warm-up. There is no stopping rule: each input takes all steps.
    """
    anchor, settings = None, replace(settings, stop="steps", warmup_steps=0)
    if settings.mask_weight:
        settings = replace(settings, anchor=0.0)
    else:
        longness = 1 - shortness(batch)[mask_rows(batch.rows.input, batch)][:, None]
        anchor = longness * scaled(field_of(batch, settings, *start), batch)
    result = optimize(batch, target, settings, progress, start, anchor)
    with torch.no_grad():
        problem = Problem.of(batch, target, replace(settings, noise=0.0, flip_share=0.0))
        first = torch.zeros(batch.masks, dtype=torch.long, device=batch.device)
        before, after = (losses(problem, w, sigma, first, anchor) for w, sigma in (start, (result.w, result.sigma)))
        better = after < before  # False for NaN
        mask_input = mask_rows(batch.rows.input, batch)
        w, sigma = (
            torch.where(better[mask_input][:, None], new, old)
            for new, old in zip((result.w, result.sigma), start, strict=True)
        )
        field = keep_logit(batch, settings, w, sigma, anchor)
    stop = [IMPROVED if improved else UNCHANGED for improved in better.tolist()]
    return replace(result, field=field, stop=stop, w=w, sigma=sigma)
