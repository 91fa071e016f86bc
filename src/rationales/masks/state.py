"""What the descent carries from step to step, for every mask on its own."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from rationales.masks.field import sources
from rationales.masks.objective import mask_rows
from rationales.masks.settings import MaskSettings
from rationales.models.batch import Batch

# After a warm start sigma begins no higher than at this share of the largest, or at this value, if that is more: few
# steps can widen a short text's spans, but hardly sharpen them.
START, LEAST = 0.25, 0.75


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
    anchor: Tensor  # (M, n) what the first steps collected, smoothed; 0 before and without it

    @classmethod
    def start(cls, batch: Batch, settings: MaskSettings, given: tuple[Tensor, Tensor] | None = None) -> State:
        """The same for all sources, or a `given` w and sigma (M, s)."""
        real = sources(batch, settings.every)
        zeros = torch.zeros(real.shape, device=batch.device, dtype=batch.dtype)
        units = torch.zeros((len(real), batch.size[1]), device=batch.device, dtype=batch.dtype)
        line = torch.zeros(len(real), device=batch.device, dtype=torch.long)
        w, sigma = given or (zeros + settings.start_w, torch.full_like(zeros, settings.start_sigma))
        w, sigma = torch.where(real, w, zeros), bounded(batch, settings, sigma, START if settings.warm else 1.0)
        return cls(w, sigma, zeros, zeros, zeros, zeros, line, units + 1, units[:, 0], line.bool(), units, units)

    def take(self, masks: Tensor, width: int) -> State:
        """The lines `masks`, cut to `width` units."""
        return State(
            **{
                one.name: value[masks, :width] if (value := getattr(self, one.name)).dim() == 2 else value[masks]
                for one in fields(self)
            }
        )

    def copy(self) -> State:
        """A state whose tensors can be written to without touching each other."""
        return State(**{one.name: getattr(self, one.name).clone() for one in fields(self)})

    def put(self, masks: Tensor, other: State) -> None:
        """Write `other` back into the lines `masks`."""
        for one in fields(self):
            mine, theirs = getattr(self, one.name), getattr(other, one.name)
            if mine.dim() == 2:
                mine[masks[:, None], torch.arange(theirs.shape[1], device=masks.device)] = theirs
            else:
                mine[masks] = theirs


def bounded(batch: Batch, settings: MaskSettings, sigma: Tensor, share: float = 1.0) -> Tensor:
    """sigma within its limits, the upper one times `share`; without one a short text becomes a single slope."""
    sigma = sigma.clamp(min=settings.smallest_sigma)
    if settings.reach == 0:
        return sigma
    least = 1.0 if share == 1 else LEAST
    most = (share * settings.reach * mask_rows(batch.rows.real, batch).sum(1, keepdim=True)).clamp(min=least)
    return torch.minimum(sigma, most.to(sigma.dtype))
