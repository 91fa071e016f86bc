"""State of the optimiser: parameters, Adam's moments and stopping memory of every mask."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from rationales.masks.field import sources
from rationales.masks.objective import mask_rows
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch

# After a warm-up, sigma starts at no more than this share of its upper bound, or at this value where that is larger:
# a few steps can widen the spans of a short text, but hardly narrow them.
INITIAL_SHARE, MIN_INITIAL_SIGMA = 0.25, 0.75


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
    anchor: Tensor  # (M, n) the smoothed warm-up gradient; 0 before and without a warm-up

    @classmethod
    def start(
        cls, batch: Batch, settings: MaskSettings, parameters: tuple[Tensor, Tensor] | None = None
    ) -> OptimizerState:
        """Initial state: the same w and sigma for all sources, or the given `parameters` (M, s) each."""
        real = sources(batch, settings.cell)
        zeros = torch.zeros(real.shape, device=batch.device, dtype=batch.dtype)
        units = torch.zeros((len(real), batch.size[1]), device=batch.device, dtype=batch.dtype)
        masks = torch.zeros(len(real), device=batch.device, dtype=torch.long)
        w, sigma = parameters or (zeros + settings.initial_w, torch.full_like(zeros, settings.initial_sigma))
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


def bounded_sigma(batch: Batch, settings: MaskSettings, sigma: Tensor, share: float = 1.0) -> Tensor:
    """sigma within its bounds, the upper one times `share`; without it the field of a short text becomes monotone."""
    sigma = sigma.clamp(min=settings.min_sigma)
    if settings.max_sigma_share == 0:
        return sigma
    lowest = 1.0 if share == 1 else MIN_INITIAL_SIGMA
    units = mask_rows(batch.rows.real, batch).sum(1, keepdim=True)
    upper = (share * settings.max_sigma_share * units).clamp(min=lowest)
    return torch.minimum(sigma, upper.to(sigma.dtype))
