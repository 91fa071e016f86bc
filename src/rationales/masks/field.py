"""From (w, sigma) to keep: Gaussian fields over a line of units (MaRC, Eq. 5 and 6)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

BLOCK = 1024  # targets at a time: a longer line never holds its whole n x n kernel


def line_field(w: Tensor, sigma: Tensor, position: Tensor, power: int) -> Tensor:
    """z (M, n) with z_j = sum_i w_i exp(-(x_i - x_j)^2 / sigma_i^power); keep is its sigmoid.

    w, sigma, position: (M, n), w = 0 where there is no unit. power 1 is Eq. 5 as printed, 2 what the published text
    results used.
    """
    spread = sigma**power
    if w.shape[1] <= BLOCK:
        return _towards(w, spread, position, position)
    parts = [
        checkpoint(_towards, w, spread, position, some, use_reentrant=False, preserve_rng_state=False)
        for some in torch.split(position, BLOCK, dim=1)
    ]
    return torch.cat(parts, dim=1)


def _towards(w: Tensor, spread: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """(M, n) sources, (M, m) targets -> (M, m)."""
    distance = source[:, :, None] - target[:, None, :]
    kernel = torch.exp(distance.square().neg_() / spread[:, :, None])
    return torch.einsum("mi,mij->mj", w, kernel)


def smooth(scores: Tensor, position: Tensor, real: Tensor, width: float) -> Tensor:
    """(S, n) scores averaged over their neighbours with weights exp(-d^2 / width^2): compactness for any method."""
    reach = torch.full_like(scores, max(width, 1e-3))  # less changes nothing, and its square could vanish
    total = line_field(scores * real, reach, position, power=2)
    weight = line_field(real.to(scores.dtype), reach, position, power=2)
    return torch.where(real, total / weight.clamp(min=1e-12), torch.zeros_like(scores))
