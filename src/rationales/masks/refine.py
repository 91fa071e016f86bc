"""A few steps of the ordinary optimisation from a predicted mask, kept where they helped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from rationales.masks.descent import keep_of, losses
from rationales.masks.objective import Problem, mask_rows
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

    Nothing is read off the masks on the way, so each input takes all of the steps.
    """
    settings = replace(settings, stop="steps", warm=0, anchor=0.0).on(batch.grid)
    found = optimize(batch, target, settings, progress, start)
    with torch.no_grad():
        problem = Problem.of(batch, target, replace(settings, noise=0.0, flip=0.0))
        first = torch.zeros(batch.masks, dtype=torch.long, device=batch.device)
        before, after = (losses(problem, w, sigma, first) for w, sigma in (start, (found.w, found.sigma)))
        better = after < before  # not a number is not better
        owner = mask_rows(batch.rows.input, batch)
        w, sigma = (
            torch.where(better[owner][:, None], new, old)
            for new, old in zip((found.w, found.sigma), start, strict=True)
        )
        keep = keep_of(batch, settings, w, sigma) * mask_rows(batch.rows.real, batch)
    return MaskResult(keep, found.steps, [BETTER if one else SAME for one in better.tolist()], w, sigma)
