"""A model of images whose cause is known, for the tests of other libraries' interfaces."""

from __future__ import annotations

import torch
from torch import nn


class Quadrants(nn.Module):
    """(N, C, H, W) -> (N, 4): the brightness of the four quarters of an image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        quarters = [x[..., top : top + half, left : left + half] for top in (0, half) for left in (0, half)]
        return 20 * torch.stack([quarter.mean((1, 2, 3)) for quarter in quarters], 1)


def bright_images() -> torch.Tensor:
    """(3, 3, 16, 16): image k has a bright square of 4 x 4 in quarter k."""
    images = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0)) * 0.1
    for number, (top, left) in enumerate([(2, 2), (2, 10), (10, 2)]):
        images[number, :, top : top + 4, left : left + 4] += 1
    return images
