"""A few steps of the ordinary optimisation from a predicted mask, kept where they helped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from rationales.masks.descent import field_of, keep_of, losses
from rationales.masks.levels import scaled
from rationales.masks.objective import Problem, mask_rows, short
from rationales.masks.optimize import MaskResult, optimize
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch

BETTER, SAME = "steps", "start"  # why it ended: the steps were used up, or nothing better than the start was found


def refine(
    batch: Batch,
    target: Tensor,
    settings: MaskSettings,
    start: tuple[Tensor, Tensor],
    progress: Callable[[float], None] | None = None,
) -> MaskResult:
    """`settings.steps` steps from w and sigma (M, s); an input whose loss without noise did not fall keeps its start.

    In long texts a field without a size of its own stays anchored to what was predicted, as it does to the gradients
    that an optimisation from scratch begins with.

    Nothing is read off the masks on the way, so each input takes all of the steps.
    """
    anchor, settings = None, replace(settings, stop="steps", warm=0)
    if settings.own:
        settings = replace(settings, anchor=0.0)
    else:
        long = 1 - short(batch)[mask_rows(batch.rows.input, batch)][:, None]
        anchor = long * scaled(field_of(batch, settings, *start), batch)
    found = optimize(batch, target, settings, progress, start, anchor)
    with torch.no_grad():
        problem = Problem.of(batch, target, replace(settings, noise=0.0, flip=0.0))
        first = torch.zeros(batch.masks, dtype=torch.long, device=batch.device)
        before, after = (losses(problem, w, sigma, first, anchor) for w, sigma in (start, (found.w, found.sigma)))
        better = after < before  # not a number is not better
        owner = mask_rows(batch.rows.input, batch)
        w, sigma = (
            torch.where(better[owner][:, None], new, old)
            for new, old in zip((found.w, found.sigma), start, strict=True)
        )
        keep = keep_of(batch, settings, w, sigma, anchor) * mask_rows(batch.rows.real, batch)
    return MaskResult(keep, found.steps, [BETTER if one else SAME for one in better.tolist()], w, sigma, found.movement)
